"""``zotune reproduce``: run the missing experiments of the paper, and write one page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from zotune.callbacks import sync
from zotune.callbacks.spool import FOLDER, find_spools
from zotune.callbacks.stores import NOWHERE, experiment_id
from zotune.cli.group import INTERRUPTED
from zotune.cli.run_command import DONE, SOME_FAILED, displayed
from zotune.core.names import FINISHED
from zotune.core.processes import stoppable
from zotune.errors import ConfigError
from zotune.reporting.report import Report, build
from zotune.reproduction.measured import measured, sections
from zotune.reproduction.pages import write_page
from zotune.reproduction.plan import MEASUREMENTS, SMALL, chosen
from zotune.results.store import Store
from zotune.study import Study
from zotune.study.launch import Launch, launches_of, new_launch, old_launch
from zotune.study.model import STORAGE
from zotune.study.quiet import ray_running, silence
from zotune.study.running import Outcome, curves, run_launch, with_store

REPORTS = "reports"


@dataclass(frozen=True)
class ReproduceRequest:
    """The arguments of the command."""

    size: str = SMALL
    storage: Path = Path(STORAGE)
    tracking_uri: str | None = None
    output: Path | None = None
    only: Sequence[str] = ()
    instances: int = 0

    @property
    def name(self) -> str:
        """The name of the page and of its experiment in MLflow."""
        return f"reproduction-{self.size}{'-instances' if self.instances else ''}"


def reproduce(request: ReproduceRequest) -> int:
    """Run all experiments, judge claims and write the page; continues where it was stopped."""
    silence()
    console = Console()
    if request.tracking_uri == NOWHERE:
        raise ConfigError("the page is made from MLflow records; give a store, or leave it out")
    studies = chosen(request.size, request.only, request.instances)
    ready: list[Launch] = []
    failed = 0
    with stoppable() as stop, ray_running() if studies else nullcontext():
        stop.listen()
        for at, study in enumerate(studies):
            launch, outcome = ensure(study, request, console, f"{at + 1}/{len(studies)} ")
            ready.append(launch)
            if outcome is not None and outcome.interrupted:
                console.print("interrupted; everything is kept. The same command goes on.")
                return INTERRUPTED
            failed += len(outcome.results.errors) if outcome else 0
    path = _conclude(request, ready)
    console.print(f"page: {path}", soft_wrap=True, highlight=False)
    return SOME_FAILED if failed else DONE


def ensure(
    study: Study, request: ReproduceRequest, console: Console, at: str = ""
) -> tuple[Launch, Outcome | None]:
    """A finished launch of a study: an old one, a resumed one, or a new one."""
    known = launches_of(study, request.storage)
    finished = [launch for launch in known if launch.state == FINISHED]
    whole = [launch for launch in finished if _is_whole(launch)]
    if whole:
        console.print(f"{at}{study.name}: done, launch {whole[-1].id}", highlight=False)
        return whole[-1], None
    known = [launch for launch in known if launch.state != FINISHED]
    with _launch(study, known, request) as found:
        launch = with_store(found, request.tracking_uri)
        verb = "continues" if known else "runs"
        title = f"{at}{study.name} {verb}: {study.size} trials of {study.budget} {study.count} each"
        with displayed(console, title):
            outcome = run_launch(launch, callbacks=_callbacks(study, request), resume=bool(known))
    return replace(outcome.launch, study=study), outcome


def _is_whole(launch: Launch) -> bool:
    """Whether a finished launch has all trials and records that the page needs."""
    noted = launch.notes.get("refused") or launch.notes.get("failed")
    return not noted and bool(find_spools(launch.folder / FOLDER))


def _launch(
    study: Study, known: list[Launch], request: ReproduceRequest
) -> AbstractContextManager[Launch]:
    if known:
        return old_launch(study.name, request.storage, known[-1].id)
    return new_launch(study, request.storage)


def _callbacks(study: Study, request: ReproduceRequest) -> Iterator[object]:
    from zotune.callbacks import Progress

    yield Progress()
    yield from curves(study, request.tracking_uri)


def _conclude(request: ReproduceRequest, launches: Sequence[Launch]) -> Path:
    """Deliver missing records to the store, read them back, write the page and attach it."""
    for launch in launches:
        sync(launch.folder, request.tracking_uri)
    folder = request.output or Path(REPORTS) / request.name
    parts = []
    if not request.only or MEASUREMENTS in request.only:
        parts = sections(*measured(request.size, request.storage / f"measurements-{request.size}"))
    if not launches:
        return write_page(folder, request.size, [], parts)
    store = Store.open(request.tracking_uri)
    reports = [_report(store, launch) for launch in launches]
    path = write_page(folder, request.size, reports, parts)
    _attach(store, request, folder, reports)
    return path


def _report(store: Store, launch: Launch) -> Report:
    """The report of a launch, with the current claims of its study."""
    records = store.read(launch.study.name, [launch.id])
    return build([replace(record, file=launch.study.to_dict()) for record in records])


def _attach(
    store: Store, request: ReproduceRequest, folder: Path, reports: Sequence[Report]
) -> None:
    """Create an MLflow run for the page, with verdicts as tags."""
    experiment = experiment_id(store.client, store.uri, request.name)
    run = store.client.create_run(experiment, run_name=f"page of {len(reports)} studies")
    for report in reports:
        for verdict in report.verdicts:
            key = f"{report.title}/{verdict.name}/{verdict.step}"
            store.client.set_tag(run.info.run_id, key[:250], verdict.verdict)
    store.client.log_artifacts(run.info.run_id, os.fspath(folder), "reproduction")
    store.client.set_terminated(run.info.run_id)
