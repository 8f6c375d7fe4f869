"""``zotune report``: figures, tables and a page from a study's records."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from zotune.claims import AS_RUN
from zotune.core.folders import require_writable
from zotune.core.names import FAILED, RUNNING
from zotune.core.ranking import LOSS
from zotune.errors import ConfigError
from zotune.reporting.report import PAGE, Report, build
from zotune.results.store import ALL, LaunchRecord, Store
from zotune.study.studyfile import SUFFIXES, read_document

FOLDER = "reports"


@dataclass(frozen=True)
class ReportRequest:
    """The arguments of the command."""

    study: str
    output: Path | None = None
    tracking_uri: str | None = None
    launches: Sequence[str] = ()
    """Launch ids, or ``all``; default: the newest launch."""
    attach: bool = True
    as_json: bool = False
    for_latex: bool = False
    """Whether to write every figure also as a PDF of column width."""


def report(request: ReportRequest) -> None:
    """Read the records, write the report, attach it, and print where it is."""
    name = _name(request.study)
    folder = request.output or Path(FOLDER) / re.sub(r"[^-.\w]", "-", name)
    require_writable(folder)
    store = Store.open(request.tracking_uri)
    launches = store.read(name, request.launches)
    if ALL in request.launches:
        launches = _those_with_curves(launches)
    _require_curves(launches)
    found = build(launches)
    files = found.write(folder, for_latex=request.for_latex)
    attached, why_not = _attach(store, launches, folder, request.attach)
    if request.as_json:
        told = _as_dict(found, launches, folder, files)
        told |= {"attached": attached, "not_attached": why_not}
        click.echo(json.dumps(told, indent=2, ensure_ascii=False, default=str))
        return
    _say(found, launches, folder)
    click.echo("attached to the launch's summary run" if attached else f"not attached: {why_not}")
    others = [launch for launch in store.launches(name) if launch not in _ids(launches)]
    if others and not request.launches:
        click.echo(f"older launches, for --launch: {', '.join(others[:5])}, or all")


def report_on(launch: LaunchRecord, folder: Path) -> Path:
    """Write the report of one launch into a folder, and return its page."""
    _require_curves([launch])
    build([launch]).write(folder)
    return folder / PAGE


def _name(study: str) -> str:
    """The name of a study given by name or file."""
    return str(read_document(study).data["name"]) if Path(study).suffix in SUFFIXES else study


def _those_with_curves(launches: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Launches with something to report, the others named; all of them where none has."""
    lacks = {launch.launch: _lack(launch) for launch in launches}
    some = [launch for launch in launches if not lacks[launch.launch]]
    for why in filter(None, lacks.values() if some else ()):
        click.echo(f"left out: {why}", err=True)
    return some or list(launches)


def _require_curves(launches: Sequence[LaunchRecord]) -> None:
    for launch in launches:
        if why := _lack(launch):
            raise ConfigError(f"{why}, so there is nothing to report; name another with --launch")


def _lack(launch: LaunchRecord) -> str:
    """Why there is nothing to report of a launch; empty where there is."""
    if launch.trials and all(trial.status == FAILED for trial in launch.trials):
        return f"no trial of launch {launch.launch} of {launch.study} finished"
    if not any(trial.has_loss for trial in launch.trials):
        metric = launch.trials[0].aim.metric if launch.trials else LOSS.metric
        other = "" if launch.file else "; MLflowCurves(metric=, mode=) names another metric"
        return f"launch {launch.launch} of {launch.study} has no trial with a {metric} yet{other}"
    return ""


def _attach(
    store: Store, launches: Sequence[LaunchRecord], folder: Path, wanted: bool
) -> tuple[bool, str]:
    """Attach the report to the launch's run; returns whether it succeeded, and why not."""
    if not wanted:
        return False, "not wanted"
    if len(launches) > 1:
        return False, "it is about several launches"
    why_not = store.attach(launches[0], folder)
    return not why_not, why_not


def _ids(launches: Sequence[LaunchRecord]) -> list[str]:
    return [launch.launch for launch in launches]


def _say(found: Report, launches: Sequence[LaunchRecord], folder: Path) -> None:
    for line in [*found.lead, *(text for section in found.sections for text in section.text)]:
        click.echo(line)
    for verdict in found.verdicts:
        step = verdict.step if verdict.step == AS_RUN else f"at the {verdict.step} step"
        click.echo(f"{verdict.verdict} {step}: {verdict.says} {verdict.why}")
    for launch in launches:
        for trial in launch.trials:
            if trial.status == RUNNING:
                click.echo(f"running: {trial.name} at {trial.spent:,} of {trial.budget or '?'}")
    click.echo(f"report: {folder / PAGE}")


def _as_dict(
    found: Report, launches: Sequence[LaunchRecord], folder: Path, files: Sequence[Path]
) -> dict[str, Any]:
    return {
        "study": launches[0].study,
        "launches": [
            {
                "id": launch.launch,
                "running": launch.is_running,
                "unfinished": launch.is_unfinished,
                "planned": launch.planned,
                "trials": [
                    {
                        "name": trial.name,
                        "trial": trial.id,
                        "run_id": trial.run_id,
                        "status": trial.status,
                        "spent": trial.spent,
                        "budget": trial.budget,
                    }
                    for trial in launch.trials
                ],
            }
            for launch in launches
        ],
        "folder": str(folder),
        "files": [path.name for path in files],
        "table": json.loads(found.table.to_json(orient="records")),
        "spent": {launch: asdict(spent) for launch, spent in found.spending.items()},
        "verdicts": [asdict(verdict) for verdict in found.verdicts],
    }
