"""The command line. Heavy modules are imported by the commands that need them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from zotune._version import __version__
from zotune.errors import ZotuneError

BAD_INPUT, INTERRUPTED = 2, 130


class Group(click.Group):
    """Commands whose errors are one line each on standard error, and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what zotune raises on purpose is an answer, not a traceback."""
        try:
            return super().invoke(ctx)
        except ZotuneError as error:
            for line in str(error).splitlines():
                click.echo(f"zotune: {line}", err=True)
            sys.exit(BAD_INPUT)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="zotune")
def main() -> None:
    """Zeroth-order optimization, measured in queries."""


IMPORT = click.option(
    "--import",
    "imports",
    multiple=True,
    metavar="FILE",
    help="A .py file (or module) that registers estimators or problems of yours. Repeatable.",
)


@main.command("list")
@IMPORT
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def list_command(imports: tuple[str, ...], as_json: bool) -> None:
    """Show studies, estimators, directions, differences, step rules and problems."""
    from zotune.catalogue import catalogue
    from zotune.own import import_own
    from zotune.study.quiet import answer_kept

    with answer_kept(as_json):
        for place in imports:
            import_own(place)
    entries = catalogue()
    if as_json:
        click.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for kind, rows in entries.items():
        table = Table(
            title=kind, title_justify="left", title_style="bold", box=None, pad_edge=False
        )
        for column in rows[0]:
            table.add_column(column, overflow="fold", no_wrap=column == "name")
        for row in rows:
            table.add_row(*row.values())
        console.print(table)
        console.print()


@main.command("run")
@click.argument("study")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change the study: budget=500, space.q=[1,10]; a bare setting is fixed. Repeatable.",
)
@IMPORT
@click.option("--smoke", is_flag=True, help="The same study at a size that takes seconds.")
@click.option(
    "--tracking-uri",
    help="MLflow store of the curves: MLFLOW_TRACKING_URI or mlflow.db unless given; none.",
)
@click.option(
    "--storage",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Launches go to <storage>/<study>/<launch>/.",
)
@click.option("--address", help="Of a running Ray cluster; this machine unless given.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value="",
    metavar="[LAUNCH]",
    help="Continue a launch; the newest unfinished one unless named.",
)
@click.option("--budget", type=int, help="With --resume: go on to a larger budget.")
@click.option("--trials", type=int, help="With --resume: go on to more trials of a search.")
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def run_command(**typed: Any) -> None:
    """Run STUDY, one of `zotune list` or a .yaml file, with Ray Tune."""
    from zotune.study.command import Request, run

    sys.exit(run(Request(**typed)))


@main.command("reproduce")
@click.option(
    "--size",
    type=click.Choice(["small", "full"]),
    default="small",
    show_default=True,
    help="Minutes at a tenth of the dimension, or the paper's own sizes in hours.",
)
@click.option(
    "--storage",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Launches go to <storage>/<study>/<launch>/.",
)
@click.option("--tracking-uri", help="MLflow store: MLFLOW_TRACKING_URI or mlflow.db unless given.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the page; reports/reproduction-SIZE unless given.",
)
@click.option("--only", multiple=True, metavar="NAME", help="This experiment only. Repeatable.")
def reproduce_command(**typed: Any) -> None:
    """Run the paper's experiments, judge its claims, and write one page; goes on where it was."""
    from zotune.folders import require_writable
    from zotune.reproduction.command import Request, reproduce

    if typed["output"]:
        require_writable(typed["output"])
    sys.exit(reproduce(Request(**typed)))


@main.command("compare")
@click.option("--dim", default=200, show_default=True, help="Dimension of the quadratic.")
@click.option("--budget", default=4000, show_default=True, help="Directions that may be spent.")
@click.option("--replicates", default=10, show_default=True, help="Independent runs.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("results/compare.png"),
    show_default=True,
    help="Where the figure goes: a .png, .svg, .pdf or .jpg.",
)
def compare_command(dim: int, budget: int, replicates: int, seed: int, output: Path) -> None:
    """Averaging against projection on a quadratic, by q, in this process."""
    from rich.console import Console

    from zotune.comparison import compare, plot, require, table
    from zotune.folders import require_writable

    require(budget, output)
    require_writable(output.parent)
    console = Console()
    block_sizes = sorted({1, max(1, dim // 20), max(1, dim // 4), dim})
    with console.status("starting") as status:
        runs = compare(
            {"name": "quadratic", "dim": dim},
            estimators=["avg", "align"],
            block_sizes=[q for q in block_sizes if q <= budget],
            on_run=status.update,
            difference="central",
            budget=budget,
            replicates=replicates,
            seed=seed,
        )
    console.print(table(runs))
    console.print(f"figure: {plot(runs, output)}")


@main.command("plan")
@click.option("--dim", type=int, required=True, help="Dimension of the function.")
@click.option("--budget", type=int, required=True, help="What may be spent.")
@click.option("--regime", default="nonconvex", show_default=True, help="What is assumed of f.")
@click.option("--count", default="directions", show_default=True, help="What the budget limits.")
@click.option("--difference", default="forward", show_default=True, help="forward or central.")
@click.option("--directions", default="gaussian", show_default=True, help="Kind of directions.")
@click.option("--L", "smoothness", type=float, help="Smoothness; steps are in 1/L without it.")
@click.option("--condition", default=100.0, show_default=True, help="L/γ, if strongly convex.")
@click.option("--noise", default=1.0, show_default=True, help="σ over L‖x0 − x*‖, if stochastic.")
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def plan_command(smoothness: float | None, as_json: bool, **question: Any) -> None:
    """Choose estimator, q and step size by the theory, before anything is evaluated."""
    from zotune.plan_table import render
    from zotune.planning import plan

    found = plan(**question, L=smoothness)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    Console().print(render(found))


@main.command("export")
@click.argument("source")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder that is written; it must be empty, or not exist.",
)
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def export_command(source: str, output: Path, as_json: bool) -> None:
    """Write the language model of SOURCE for from_pretrained.

    SOURCE is a launch's folder (its best trial is taken), a study's (its newest launch), a
    trial's, a checkpoint, or the id of an MLflow run.
    """
    from dataclasses import asdict

    from zotune.language import export_run

    exported = export_run(source, output)
    if as_json:
        click.echo(json.dumps(asdict(exported), indent=2, default=str))
        return
    click.echo(f"{exported.run} from {exported.checkpoint}")
    click.echo(f"model: {exported.folder}, for {exported.load_with}")


@main.command("sync")
@click.argument(
    "folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path("results")
)
@click.option(
    "--tracking-uri", help="Of the store; the one each launch was started with unless given."
)
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    help="How long a store that does not answer is tried.",
)
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def sync_command(folder: Path, tracking_uri: str | None, seconds: float, as_json: bool) -> None:
    """Deliver curve points that did not reach MLflow; what is there is not sent again."""
    from dataclasses import asdict

    from zotune.callbacks import sync

    reports = sync(folder, tracking_uri, seconds=seconds)
    if as_json:
        click.echo(json.dumps([asdict(report) for report in reports], indent=2, default=str))
    for report in [] if as_json else reports:
        said = "complete" if report.is_complete else f"not complete: {report.problem}"
        click.echo(f"{report.launch_id}: {report.points} points delivered, {said}")
    sys.exit(0 if all(report.is_complete for report in reports) else 1)


@main.command("ui")
@click.argument("studies", nargs=-1, metavar="[STUDY]...")
@click.option(
    "--launch", "launches", multiple=True, help="Show this one, not the newest. Repeatable."
)
@click.option("--tracking-uri", help="Of the store: MLFLOW_TRACKING_URI or mlflow.db unless given.")
@click.option("--port", type=int, help="Of the server; 5000 or a free one unless given.")
@click.option("--open/--no-open", "opens", default=True, help="Open the page in a browser.")
def ui_command(studies: tuple[str, ...], **options: Any) -> None:
    """Open MLflow's page on the curves of STUDYs, prepared for comparison; on loopback only."""
    from zotune.callbacks.serving import show

    show(studies, **options)


@main.command("report")
@click.argument("study")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the report; reports/<study> unless given.",
)
@click.option("--tracking-uri", help="Of the store; MLFLOW_TRACKING_URI, else ./mlflow.db.")
@click.option(
    "--launch",
    "launches",
    multiple=True,
    metavar="ID",
    help="A launch, or all; the newest unless given. Repeatable.",
)
@click.option(
    "--attach/--no-attach",
    default=True,
    show_default=True,
    help="Store the report with the launch's summary run.",
)
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def report_command(**typed: Any) -> None:
    """Rebuild figures, tables and a page of STUDY from its MLflow records alone."""
    from zotune.reporting.command import Request, report

    report(Request(**typed))


@main.group("bench")
def bench_group() -> None:
    """Measure speed, as ratios beside the limit in one process."""


def _measure(room: Any, bench: Callable[..., Any], as_json: bool, **sizes: Any) -> list[Any]:
    """Run a bench with its progress shown, and print what it found as its room tells it."""
    from rich.console import Console

    console = Console(stderr=as_json)
    with console.status("starting") as status:
        found = list(bench(**sizes, on_case=status.update))
    if as_json:
        click.echo(json.dumps(room.as_records(found), indent=2))
    else:
        console.print(room.table(found))
    return found


@bench_group.command("classical")
@click.option("--rounds", default=41, show_default=True, help="Turns that each work takes.")
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def bench_classical(rounds: int, as_json: bool) -> None:
    """The core: a step beside the raw objective and the raw draws, one thread."""
    from zotune.bench import classical

    _measure(classical, classical.classical, as_json, rounds=rounds)


@bench_group.command("study")
@click.option("--dim", default=1000, show_default=True, help="Dimension of the quadratic.")
@click.option("--budget", default=20_000, show_default=True, help="Directions a trial may spend.")
@click.option("--trials", default=100, show_default=True, help="Trivial trials.")
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def bench_study(dim: int, budget: int, trials: int, as_json: bool) -> None:
    """Ray Tune: a study beside plain processes, trivial trials, and the stock way; minutes."""
    from zotune.bench import study

    _measure(study, study.bench, as_json, dim=dim, budget=budget, trials=trials)


@bench_group.command("lm")
@click.option("--rounds", default=3, show_default=True, help="Turns that each work takes.")
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def bench_lm(rounds: int, as_json: bool) -> None:
    """A language model's weights: a step beside its forward passes and MeZO; memory; minutes."""
    from zotune.bench import lm

    _measure(lm, lm.lm, as_json, rounds=rounds)


@bench_group.command("logging")
@click.option(
    "--trials", default=16, show_default=True, help="Curves of 320 points that ours is told."
)
@click.option("--json", "as_json", is_flag=True, help="For a machine.")
def bench_logging(trials: int, as_json: bool) -> None:
    """Points a second into MLflow, on sqlite and over http, beside Ray's own callback."""
    from zotune.bench import logging

    _measure(logging, logging.logging, as_json, trials=trials)


@bench_group.command("blackbox")
@click.option(
    "--suite",
    type=click.Choice(["s2mpj", "largescale", "noisy", "paper", "smoke"]),
    default="s2mpj",
    show_default=True,
    help="CUTEst, COCO's bbob-largescale or bbob-noisy, the paper's problems, or a quick check.",
)
@click.option("--dims", metavar="D,LOW-HIGH", help="Dimensions, such as 21-200 or 40,160.")
@click.option(
    "--half",
    type=click.Choice(["tune", "judge", "all"]),
    default="all",
    show_default=True,
    help="Half of the problems: one to choose constants on, one to judge them by.",
)
@click.option("--solver", "solvers", multiple=True, metavar="NAME", help="Run it only. Repeatable.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Performance profiles; results/blackbox-SUITE.png unless given.",
)
@click.option(
    "--freeze",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Search for reference minima with a larger budget and write them to FILE instead; hours.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_blackbox(
    suite: str, dims: str | None, output: Path | None, freeze: Path | None, **options: Any
) -> None:
    """Solve functions that nobody here wrote, beside SciPy's solvers and CMA-ES; minutes."""
    from zotune.bench.blackbox import command

    command.blackbox(suite, dims, output=output, freeze=freeze, measure=_measure, **options)


if __name__ == "__main__":
    main()
