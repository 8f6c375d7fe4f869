"""Commands about what studies have recorded: report, ui, sync and export."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from zotune.cli.group import JSON, LAUNCHES, TRACKING_URI, StudyName, examples, main


@main.command(
    "export",
    epilog=examples(
        "zotune export results/tiny-lm -o my-model",
        "zotune export results/tiny-lm -o my-model --best",
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
@click.option(
    "--best", is_flag=True, help="The weights with the lowest validation loss, not the last."
)
@JSON
def export_command(source: str, output: Path, best: bool, as_json: bool) -> None:
    """Write the language model of a run as a folder.

    Says which function loads it.

    SOURCE is a launch's folder (its best trial is taken), a study's (its newest launch), a
    trial's, a checkpoint, or the id of an MLflow run.
    """
    from dataclasses import asdict

    from zotune.language import export_run

    exported = export_run(source, output, best=best)
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
@JSON
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
        "zotune ui my-study --launch all",
    ),
)
@click.argument("studies", nargs=-1, metavar="[STUDY]...", type=StudyName(recorded=True))
@LAUNCHES
@click.option("--all", "shows_all", is_flag=True, help="Show hidden runs, too.")
@TRACKING_URI
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
@click.argument("study", type=StudyName(recorded=True))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the report; reports/<study> unless given.",
)
@TRACKING_URI
@LAUNCHES
@click.option(
    "--attach/--no-attach",
    default=True,
    show_default=True,
    help="Store the report with the launch's summary run.",
)
@click.option(
    "--latex", "for_latex", is_flag=True, help="Every figure as a PDF too, as wide as a column."
)
@JSON
def report_command(**typed: Any) -> None:
    """Make figures, tables and a page of STUDY from MLflow's records."""
    from zotune.cli.report_command import ReportRequest, report

    report(ReportRequest(**typed))
