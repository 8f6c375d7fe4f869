"""Commands that begin a study: list, doctor, init and run."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Any

import click

from zotune.cli.group import IMPORT, JSON, STORAGE, StudyName, examples, main


@main.command(
    "list",
    epilog=examples(
        "zotune list",
        "zotune list studies",
        "zotune list --import my_problem.py --json",
    ),
)
@click.argument("kind", required=False, metavar="[KIND]")
@IMPORT
@JSON
def list_command(kind: str | None, imports: tuple[str, ...], as_json: bool) -> None:
    """Show what can be named: studies, estimators, problems and more.

    Also directions, differences, updates, steps, blocksizes, and settings with their defaults. KIND
    is one of these words; all of them are shown unless it is given.
    """
    from zotune.cli.catalogue import catalogue, of_kind
    from zotune.study.quiet import answer_kept
    from zotune.tune.plugins import import_plugin

    with answer_kept(as_json):
        for place in imports:
            import_plugin(place)
    entries = catalogue() if kind is None else of_kind(kind)
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
@click.argument("study", type=StudyName())
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
@STORAGE
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
@click.option("--total", type=int, help="What all trials together may spend.")
@click.option(
    "--only",
    type=click.Choice(["best"]),
    help="With --resume and --budget: go on with the best trial alone.",
)
@click.option(
    "--system-metrics",
    is_flag=True,
    help="Record CPU, memory, disk, network and GPUs of this machine in MLflow, with the summary.",
)
@click.option(
    "--report/--no-report",
    default=True,
    show_default=True,
    help="Draw a figure and write a report at the end.",
)
@JSON
def run_command(**typed: Any) -> None:
    """Run STUDY, one of `zotune list` or a .yaml file, with Ray Tune."""
    from zotune.callbacks.deliverer import started_early
    from zotune.callbacks.stores import NOWHERE

    unrecorded = typed["tracking_uri"] == NOWHERE
    with nullcontext() if unrecorded else started_early():  # beside the imports
        from zotune.cli.run_command import run
        from zotune.cli.run_request import RunRequest

        code = run(RunRequest(**typed))
    sys.exit(code)


@main.command("doctor", epilog=examples("zotune doctor", "zotune doctor --json"))
@JSON
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
