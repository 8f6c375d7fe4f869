"""``zotune run``: run a study, show its progress, and print results and the next command."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from rich.console import Console

from zotune.callbacks.artifacts import REPORT
from zotune.callbacks.session import ending_later
from zotune.cli.group import INTERRUPTED
from zotune.cli.next_command import next_command, rejecting, resume_command
from zotune.cli.run_request import RunRequest, kept_under
from zotune.cli.summary import FIGURE, Summary, print_whole, verdict_table
from zotune.core.folders import from_here
from zotune.core.names import CONTINUES
from zotune.core.processes import signals_held, unwrapped_interrupts
from zotune.core.settings import PROBLEM, label
from zotune.errors import ConfigError
from zotune.objectives import PROBLEMS
from zotune.results.checkpoints import launch_of
from zotune.study.capacity import require_capacity_here
from zotune.study.launch import Launch, LaunchError, extended_launch, new_launch, old_launch
from zotune.study.live import Display, Lines, LiveTable, current, duration
from zotune.study.model import Study, load_study
from zotune.study.quiet import answer_kept, silence
from zotune.study.reaching import LOCAL, require_cluster
from zotune.study.running import (
    Outcome,
    curves,
    known_store,
    run_launch,
    store_of,
    with_store,
)
from zotune.study.totals import hints, total_lines
from zotune.tune.plugins import import_plugin

DONE, SOME_FAILED = 0, 1
LONGEST_IMPORT = 20.0
"""Seconds to wait for imports in the background. A signal that falls into an import of the main
thread can leave a lock of Python's import system held, and they would wait for ever."""

SAME_START = {
    f"{PROBLEM}{key}" for key in ("trainable", "lora_rank", "lora_alpha", "batch", "micro_batch")
}
"""Options of a language model that do not change its loss at the start."""


def run(request: RunRequest) -> int:
    """Run the study, print the results, and return the exit code."""
    silence()
    console = Console(stderr=request.as_json)
    with ending_later() as delivery:  # the report is drawn during delivery, then delivered, too
        with answer_kept(request.as_json):
            summary = _summary(request, console)
        if not request.as_json:
            _conclude(summary, console)
        drawn = _drawn(summary, request)
        delivery.end(REPORT if drawn.report is not None else "")
    outcome = summary.outcome
    if request.as_json:
        told = summary.as_dict(drawn.figure)
        print(json.dumps(told, indent=2, ensure_ascii=False, default=str))
    else:
        _say_next(summary, drawn, request, console)
    if outcome.interrupted:
        again = resume_command(request, outcome.launch)
        _say(console, f"interrupted; everything is kept. To go on: {again}")
        return INTERRUPTED
    return SOME_FAILED if outcome.results.errors else DONE


def _summary(request: RunRequest, console: Console) -> Summary:
    """Run the launch and return its summary."""
    from zotune.callbacks.machine_load import wants_metrics

    for place in request.imports:
        import_plugin(place)
    store_of(request.tracking_uri)
    wants_metrics(request.system_metrics)
    require_cluster(request.address)
    opened, launch = _launch(request), None
    with ExitStack() as kept:
        try:
            with signals_held():  # once its folder exists, we can print how to continue
                launch = kept.enter_context(opened)
            with unwrapped_interrupts():
                launch = with_store(launch, request.tracking_uri)
                _introduce(launch, console)
                if request.resume is None and (line := start_line(launch.study)):
                    _say(console, line)
                outcome = _run(launch, request, console)
        except KeyboardInterrupt:
            if launch is not None:
                _say(console, f"interrupted. To go on: {resume_command(request, launch)}")
            raise
    summary = Summary.of(outcome)
    for trial in summary.failed:
        _say(console, f"failed: {trial.id} ({trial.name}): {trial.error}")
    if advice := rejecting(request, summary):
        _say(console, advice)
    unbegun = len(outcome.results) - len(summary.trials)
    if unbegun and not summary.left_out:  # these are named with the total
        _say(console, f"without a result yet: {unbegun} of {len(outcome.results)} trials")
    return summary


def _launch(request: RunRequest) -> AbstractContextManager[Launch]:
    if request.resume is None:
        if request.extends:
            raise ConfigError(
                "--budget, --trials and --only go on from a launch, and need --resume; "
                "a new launch takes --set budget=… or --set search.trials=…"
            )
        total = [] if request.total is None else [f"total={request.total}"]
        study = load_study(request.study, settings=[*request.settings, *total])
        study = study.smoke() if request.smoke else study
        if request.address in (None, LOCAL):
            require_capacity_here(study.resources, study.most_workers)
        return new_launch(study, request.storage)
    if request.settings:
        raise ConfigError(
            f"--resume continues a launch as it was, and refuses --set {request.settings[0]}; "
            "leave it out, or start a new launch"
        )
    name = kept_under(request)
    if request.extends:
        from zotune.results.loading import load_run

        return extended_launch(
            name,
            request.storage,
            request.resume or None,
            best_of=load_run if request.only else None,
            budget=request.budget,
            trials=request.trials,
            total=request.total,
        )
    return old_launch(name, request.storage, request.resume or None)


def _introduce(launch: Launch, console: Console) -> None:
    study = launch.study
    if study.question:
        _say(console, study.question)
    for line in [*skipped_lines(study), *hints(study)]:
        _say(console, line)
    if CONTINUES in launch.notes:
        _say(console, f"goes on from launch {launch.notes[CONTINUES]}")
    for claim in study.lost_claims:
        _say(console, f"not judged: {claim}; this space does not decide it")


def start_line(study: Study) -> str:
    """Loss and accuracy of the model at the start, if all trials begin there; else empty."""
    searched = {key for key in study.searched if key.startswith(PROBLEM)}
    settings = PROBLEMS[study.problem["name"]].settings_of(study.problem)
    return "" if settings is None or searched - SAME_START else settings.start_line()


def skipped_lines(study: Study) -> list[str]:
    """Lines on infeasible combinations of the grid, one for each block size and estimator."""
    keys = ("estimator", "q", "directions", "difference", "problem.dim")
    lines = [
        f"left out: {label({k: v for k, v in point.items() if k in keys})}, because {reason}"
        for point, reason in study.skipped
    ]
    return list(dict.fromkeys(lines))


def _run(launch: Launch, request: RunRequest, console: Console) -> Outcome:
    study = launch.study
    most = "" if study.total is None else f", {study.total} in all"
    rows = study.config["replicates"]
    each = f"{rows} × {study.budget}" if rows > 1 else f"{study.budget}"
    trials = f"{_trials(study.size)} of {each} {study.count} each{most}"
    title = f"{study.name}: {trials}, launch {launch.id}"
    importing = threading.Thread(target=_import_for_report, daemon=True)
    if request.report:
        importing.start()
    with displayed(console, title):
        try:
            return run_launch(
                launch,
                callbacks=_callbacks(launch, request),
                address=request.address,
                resume=request.resume is not None and not request.extends,
            )
        except ConnectionError as error:
            if request.address is None:
                raise
            raise LaunchError(
                f"no Ray cluster answers at {request.address}: {str(error).splitlines()[0]}; "
                "check --address, or leave it out to use this machine"
            ) from None
        finally:
            if importing.ident is not None:
                importing.join(LONGEST_IMPORT)


def _import_for_report() -> None:
    """Import slow modules that the end of a launch needs, in the background while Ray starts."""
    for module in ("ray.tune", "pandas", "matplotlib.figure", "zotune.reporting.figures"):
        with suppress(Exception):  # the regular import raises it again
            import_module(module)


def _callbacks(launch: Launch, request: RunRequest) -> Iterator[object]:
    """The callbacks of the launch, created after Ray has started, as they import Tune."""
    from zotune.callbacks import Progress

    yield Progress()
    watched = request.system_metrics or None
    yield from curves(launch.study, known_store(launch), system_metrics=watched)


@contextmanager
def displayed(console: Console, title: str) -> Iterator[None]:
    """Show snapshots as a table in a terminal, and as lines elsewhere."""
    display: Display = (LiveTable if console.is_terminal else Lines)(console, title)
    token = current.set(display)
    try:
        yield
    finally:
        current.reset(token)
        display.close()


@dataclass(frozen=True)
class Drawn:
    """The figure and the report of a launch."""

    figure: Path | None = None
    report: Path | None = None
    """The report's page."""
    why_not: str = ""
    """The reason if there is no report."""


def _drawn(summary: Summary, request: RunRequest) -> Drawn:
    """Draw the report and the figure of a launch; or the reason why there is none."""
    outcome = summary.outcome
    if _all_failed(outcome) or not summary.trials:
        return Drawn(why_not="none, because no trial finished")
    if not request.report:
        return Drawn(why_not="not made (--no-report)")
    if request.as_json:
        return Drawn(summary.draw())
    from zotune.cli.report_command import report_on

    try:
        page = report_on(launch_of(outcome, summary.trials), outcome.launch.folder / REPORT)
    except Exception as error:  # must not fail the command: the launch is complete and saved
        return Drawn(summary.draw(), None, f"not made ({str(error) or type(error).__name__})")
    return Drawn(summary.draw(page.with_name(FIGURE)), page)


def _conclude(summary: Summary, console: Console) -> None:
    """Print results and costs."""
    outcome, launch = summary.outcome, summary.outcome.launch
    verdicts, why_none = summary.verdicts
    if summary.best:
        print_whole(console, summary.table())
    if verdicts:
        console.print(verdict_table(verdicts))
    if why_none:
        _say(console, why_none)
    _say(console, f"{_counted(summary)} in {duration(outcome.seconds)}")
    if summary.refined_line:
        _say(console, summary.refined_line)
    if summary.trials:
        _say(console, summary.spent)
    for line in total_lines(launch.study, summary.spending, summary.left_out):
        _say(console, line)
    _say(console, f"records: {from_here(launch.folder)}")


def _say_next(summary: Summary, drawn: Drawn, request: RunRequest, console: Console) -> None:
    """Print where the records are, and the next command."""
    outcome = summary.outcome
    if drawn.figure is not None:
        _say(console, f"figure: {from_here(drawn.figure)}")
    for line in _places(request, outcome, drawn):
        _say(console, line)
    if not outcome.interrupted and not _all_failed(outcome):
        _say(console, f"next: {next_command(request, summary)}")


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _counted(summary: Summary) -> str:
    """The number of trials with a result; after Ctrl-C, how many of all had finished."""
    outcome = summary.outcome
    results, total = outcome.results, outcome.launch.study.size
    if not outcome.interrupted:
        return _trials(len(summary.trials))
    each = [results[at] for at in range(len(results))]
    ended = [one for one in each if one.error is None and (one.metrics or {}).get("done")]
    return f"{len(ended)} of {total} trials finished"


def _all_failed(outcome: Outcome) -> bool:
    return 0 < len(outcome.results) == len(outcome.results.errors)


def _places(request: RunRequest, outcome: Outcome, drawn: Drawn) -> list[str]:
    """Lines on where the curves are; credentials are not shown."""
    from zotune.callbacks.serving import is_server
    from zotune.callbacks.session import page_of_launch
    from zotune.callbacks.stores import database_of, resolve_uri, without_credentials

    made = drawn.why_not if drawn.report is None else str(from_here(drawn.report))
    place, store = page_of_launch(outcome.launch.folder), store_of(known_store(outcome.launch))
    if store is None or not place:
        return [f"report: {made}"] if request.report else []
    shown, name = without_credentials(store), outcome.launch.study.name
    usual = not request.tracking_uri and shown == without_credentials(resolve_uri())
    given = [] if usual else ["--tracking-uri", shown]
    ui = shlex.join(["zotune", "ui", name, *given])
    database = database_of(store)
    where = shown if database is None else from_here(database)
    page = f"{shown.rstrip('/')}{place}" if is_server(store) else f"{ui} (in MLflow, {where})"
    again = shlex.join(["zotune", "report", name, *given])
    if _all_failed(outcome):
        later = ""
    elif request.report:
        later = f"; again, or of several launches: {again}"
    else:
        later = f"; later: {again}"
    return [f"page: {page}", f"report: {made}{later}"]


def _say(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)
