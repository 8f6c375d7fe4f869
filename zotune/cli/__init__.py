"""The command line. Heavy modules are imported by the commands that need them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from zotune._version import __version__
from zotune.core.processes import stoppable
from zotune.errors import ZotuneError

BAD_INPUT, INTERRUPTED = 2, 130


def examples(*commands: str) -> str:
    """The end of a command's help: lines that can be typed, which click must not wrap."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


class Group(click.Group):
    """Commands whose errors are one line each on standard error, and exit code 2.

    SIGTERM and a closed terminal end them as Ctrl-C does, with exit code 130.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what zotune raises on purpose is an answer, not a traceback."""
        try:
            with stoppable():
                return super().invoke(ctx)
        except ZotuneError as error:
            for line in str(error).splitlines():
                click.echo(f"zotune: {line}", err=True)
            sys.exit(BAD_INPUT)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "zotune doctor                    # what this machine can do",
        "zotune run smoke                 # a study of seconds",
        "zotune init mine                 # files for a study of your own",
    ),
)
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


@main.command(
    "list",
    epilog=examples(
        "zotune list",
        "zotune list --import my_problem.py --json",
    ),
)
@IMPORT
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(imports: tuple[str, ...], as_json: bool) -> None:
    """Show what can be named: studies, estimators, problems and more.

    Also directions, differences, step rules, and settings with their defaults.
    """
    from zotune.cli.catalogue import catalogue
    from zotune.study.quiet import answer_kept
    from zotune.tune.plugins import import_own

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


@main.command(
    "run",
    epilog=examples(
        "zotune run strongly-convex --smoke",
        "zotune run strongly-convex --set budget=4000 --set 'space.q=[1,10]'",
        "zotune run my-study.yaml --import my_problem.py",
        "zotune run my-study.yaml --resume",
    ),
)
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
    help='MLflow store of the curves; MLFLOW_TRACKING_URI or mlflow.db unless given; "none" '
    "disables recording.",
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
@click.option(
    "--report/--no-report",
    default=True,
    show_default=True,
    help="Draw a figure and write a report at the end.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run_command(**typed: Any) -> None:
    """Run STUDY, one of `zotune list` or a .yaml file, with Ray Tune."""
    from zotune.cli.run_command import Request, run

    sys.exit(run(Request(**typed)))


@main.command(
    "doctor",
    epilog=examples("zotune doctor", "zotune doctor --json"),
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor_command(as_json: bool) -> None:
    """Check what this machine can do, and say what to change.

    Exit code 1 if something will not work.
    """
    from zotune.doctor.command import doctor

    sys.exit(doctor(as_json=as_json))


@main.command(
    "init",
    epilog=examples(
        "zotune init mine",
        "zotune init mine --function simulator.py:loss --dim 12",
    ),
)
@click.argument("name", default="my-study")
@click.option("--function", metavar="FILE.py:NAME", help="A function of yours to minimise.")
@click.option("--dim", type=int, help="Its dimension; that of the example unless given.")
def init_command(name: str, function: str | None, dim: int | None) -> None:
    """Write a study file and a problem file that run as they are.

    NAME.yaml and NAME_problem.py are written to the current folder and are yours to edit. The
    function takes one vector and returns one number. Nothing is overwritten.
    """
    from zotune.study.scaffold import write

    written = write(name, function=function, dim=dim)
    click.echo(f"wrote {written.study} and {written.problem}")
    click.echo(f"next: {written.command}")


@main.command(
    "reproduce",
    epilog=examples(
        "zotune reproduce",
        "zotune reproduce --size full --only convex-tuned",
    ),
)
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
    """Run the paper's experiments and judge its claims.

    Writes one page with every figure and verdict. The same command continues where it was stopped.
    """
    from zotune.cli.reproduce_command import Request, reproduce
    from zotune.core.folders import require_writable

    if typed["output"]:
        require_writable(typed["output"])
    sys.exit(reproduce(Request(**typed)))


@main.command(
    "compare",
    epilog=examples(
        "zotune compare --dim 50 --budget 1000 -o compare.svg",
    ),
)
@click.option("--dim", default=200, show_default=True, help="Dimension of the quadratic.")
@click.option("--budget", default=4000, show_default=True, help="Directions that may be spent.")
@click.option("--replicates", default=10, show_default=True, help="Independent runs.")
@click.option("--seed", default=0, show_default=True, help="Of the random directions.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("results/compare.png"),
    show_default=True,
    help="Where the figure goes: a .png, .svg, .pdf or .jpg.",
)
def compare_command(dim: int, budget: int, replicates: int, seed: int, output: Path) -> None:
    """Compare averaging and projection on a quadratic, by q.

    Runs in this process, without Ray, and draws a figure.
    """
    from rich.console import Console

    from zotune.cli.comparison import compare, plot, require, table
    from zotune.core.folders import require_writable

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


@main.command(
    "plan",
    epilog=examples(
        "zotune plan --dim 1000 --budget 20000 --regime strongly-convex",
        "zotune plan --dim 1000 --budget 20000 --count evaluations --json",
    ),
)
@click.option("--dim", type=int, required=True, help="Dimension of the function.")
@click.option("--budget", type=int, required=True, help="What may be spent.")
@click.option("--regime", default="nonconvex", show_default=True, help="What is assumed of f.")
@click.option("--count", default="directions", show_default=True, help="What the budget limits.")
@click.option("--difference", default="forward", show_default=True, help="forward or central.")
@click.option("--directions", default="gaussian", show_default=True, help="Kind of directions.")
@click.option("--L", "smoothness", type=float, help="Smoothness; steps are in 1/L without it.")
@click.option("--condition", default=100.0, show_default=True, help="L/γ, if strongly convex.")
@click.option("--noise", default=1.0, show_default=True, help="σ over L‖x0 − x*‖, if stochastic.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan_command(smoothness: float | None, as_json: bool, **question: Any) -> None:
    """Choose estimator, q and step size by the theory.

    Nothing is evaluated: the answer follows from dimension, budget and assumptions.
    """
    from zotune.theory.plan_table import render
    from zotune.theory.planning import plan

    found = plan(**question, L=smoothness)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    Console().print(render(found))


@main.command(
    "export",
    epilog=examples(
        "zotune export results/tiny-lm -o my-model",
    ),
)
@click.argument("source")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder that is written; it must be empty, or not exist.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def export_command(source: str, output: Path, as_json: bool) -> None:
    """Write the language model of a run as a folder.

    Says which function loads it.

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


@main.command(
    "sync",
    epilog=examples(
        "zotune sync",
        "zotune sync results/my-study --tracking-uri http://127.0.0.1:5000",
    ),
)
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sync_command(folder: Path, tracking_uri: str | None, seconds: float, as_json: bool) -> None:
    """Deliver curve points that did not reach MLflow.

    Looks in FOLDER and below. Points that are in the store are not sent again.
    """
    from dataclasses import asdict

    from zotune.callbacks import sync

    reports = sync(folder, tracking_uri, seconds=seconds)
    if as_json:
        click.echo(json.dumps([asdict(report) for report in reports], indent=2, default=str))
    for report in [] if as_json else reports:
        said = "complete" if report.is_complete else f"not complete: {report.problem}"
        click.echo(f"{report.launch_id}: {report.points} points delivered, {said}")
    sys.exit(0 if all(report.is_complete for report in reports) else 1)


@main.command(
    "ui",
    epilog=examples(
        "zotune ui strongly-convex",
        "zotune ui strongly-convex convex --no-open --port 5001",
    ),
)
@click.argument("studies", nargs=-1, metavar="[STUDY]...")
@click.option(
    "--launch", "launches", multiple=True, help="Show this one, not the newest. Repeatable."
)
@click.option("--all", "shows_all", is_flag=True, help="Show runs that end above their start, too.")
@click.option("--tracking-uri", help="Of the store: MLFLOW_TRACKING_URI or mlflow.db unless given.")
@click.option("--port", type=int, help="Of the server; 5000 or a free one unless given.")
@click.option("--open/--no-open", "opens", default=True, help="Open the page in a browser.")
def ui_command(studies: tuple[str, ...], **options: Any) -> None:
    """Open MLflow's page, prepared for comparing the runs of a study.

    Several STUDYs are shown side by side. The server listens on loopback only.
    """
    from zotune.callbacks.serving import show

    show(studies, **options)


@main.command(
    "report",
    epilog=examples(
        "zotune report strongly-convex",
        "zotune report strongly-convex --launch all -o figures --json",
    ),
)
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def report_command(**typed: Any) -> None:
    """Make figures, tables and a page of STUDY from MLflow's records."""
    from zotune.cli.report_command import Request, report

    report(Request(**typed))


@main.group("bench", epilog=examples("zotune bench classical", "zotune bench study --trials 20"))
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


@bench_group.command(
    "classical",
    epilog=examples(
        "zotune bench classical --rounds 11",
    ),
)
@click.option("--rounds", default=41, show_default=True, help="Turns that each work takes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_classical(rounds: int, as_json: bool) -> None:
    """Time a step beside the bare objective and the bare draws.

    In one thread, and beside evosax and torchzero where they are installed.
    """
    from zotune.bench import classical

    _measure(classical, classical.classical, as_json, rounds=rounds)


@bench_group.command(
    "study",
    epilog=examples(
        "zotune bench study --trials 20",
    ),
)
@click.option("--dim", default=1000, show_default=True, help="Dimension of the quadratic.")
@click.option("--budget", default=20_000, show_default=True, help="Directions a trial may spend.")
@click.option("--trials", default=100, show_default=True, help="Trivial trials.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_study(dim: int, budget: int, trials: int, as_json: bool) -> None:
    """Time a study beside plain processes and stock Ray Tune.

    Also the cost of trivial trials. Takes minutes.
    """
    from zotune.bench import study

    _measure(study, study.bench, as_json, dim=dim, budget=budget, trials=trials)


@bench_group.command(
    "scale",
    epilog=examples(
        "zotune bench scale --trials 10 --trials 100",
        "zotune bench scale --trials 10000 --no-wide --json",
    ),
)
@click.option(
    "--trials",
    "sizes",
    type=int,
    multiple=True,
    default=(10, 100, 1000),
    show_default=True,
    help="Small trials of a study. Repeatable.",
)
@click.option(
    "--stock", default=100, show_default=True, help="The most trials that stock Tune runs, too."
)
@click.option(
    "--wide/--no-wide",
    default=True,
    show_default=True,
    help="Also 1000 replicates, d = 1,000,000, and 100 launches in one store.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_scale(sizes: tuple[int, ...], stock: int, wide: bool, as_json: bool) -> None:
    """Measure studies as they grow, beside stock Ray Tune.

    Trials a second early and late, memory, bytes on disk, rows in MLflow. Takes many minutes.
    """
    from zotune.bench import scale

    _measure(scale, scale.scale, as_json, sizes=sizes, stock=stock, wide=wide)


@bench_group.command(
    "lm",
    epilog=examples(
        "zotune bench lm --rounds 1 --json",
    ),
)
@click.option("--rounds", default=3, show_default=True, help="Turns that each work takes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_lm(rounds: int, as_json: bool) -> None:
    """Time a step on a language model beside its forward passes.

    Also beside MeZO, and the memory beside that of inference. Takes minutes.
    """
    from zotune.bench import lm

    _measure(lm, lm.lm, as_json, rounds=rounds)


@bench_group.command(
    "logging",
    epilog=examples(
        "zotune bench logging --trials 4",
    ),
)
@click.option(
    "--trials", default=16, show_default=True, help="Curves of 320 points that ours is told."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_logging(trials: int, as_json: bool) -> None:
    """Count points a second into MLflow, beside Ray's own callback.

    On sqlite and over http.
    """
    from zotune.bench import logging

    _measure(logging, logging.logging, as_json, trials=trials)


@bench_group.command(
    "blackbox",
    epilog=examples(
        "zotune bench blackbox --half judge",
        "zotune bench blackbox --suite largescale --dims 40 --json",
    ),
)
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
    """Solve functions that nobody here wrote, beside peers.

    SciPy's solvers, COBYQA and CMA-ES get the same evaluations. Takes minutes.
    """
    from zotune.bench.blackbox import command

    command.blackbox(suite, dims, output=output, freeze=freeze, measure=_measure, **options)


if __name__ == "__main__":
    main()
