"""What a study costs as it grows: trials a second at its start and its end, memory, disk, rows.

Every case runs in a process of its own, so that one does not carry the memory of another. The same
study runs the stock way beside it: Ray's Tuner, its default callbacks and its MLflow callback.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zotune.core.processes import supervised
from zotune.errors import ZotuneError

if TYPE_CHECKING:
    from rich.table import Table

OURS, STOCK = "zotune", "stock Tune"
MANY, LAUNCHES, REPLICATES, DIMENSION = "many", "launches", "replicates", "dimension"
LEAST_RATE, MOST_MEGABYTES, MOST_SECONDS = 0.8, 100.0, 15.0
"""To reach with 1000 trials: late rate over early, growth of the driver, seconds of the report."""


@dataclass(frozen=True)
class ScaleFigures:
    """One study, run one way."""

    case: str
    way: str
    trials: int
    seconds: float
    """Wall time of the trials, from the first that began to the last that ended."""
    early: float
    """Trials a second of the first tenth, a hundred at most."""
    late: float
    """Trials a second of the last tenth, a hundred at most."""
    first_megabytes: float
    """Memory of the driver when the first trial ended."""
    last_megabytes: float
    """Memory of the driver when the last one ended."""
    report_seconds: float
    """Time for reading all results back and writing the report; 0 for the stock way."""
    report_megabytes: float
    """Largest memory of the driver, the report included."""
    disk_megabytes: float
    """Files of the study, without MLflow's."""
    store_megabytes: float
    """MLflow's database."""
    runs: int
    """Runs in MLflow that have ended."""
    rows: int
    """Points of curves in MLflow."""


class CaseError(ZotuneError, RuntimeError):
    """A case whose process failed."""


def scale(
    *,
    sizes: tuple[int, ...] = (10, 100, 1000),
    stock: int = 10,
    wide: bool = True,
    on_case: Callable[[str], None] = lambda case: None,
) -> Iterator[ScaleFigures]:
    """Measure every case in a new process.

    Args:
        sizes: numbers of small trials.
        stock: the largest of them that is run the stock way, too; it takes long.
        wide: also few trials that are large, and many launches in one store.
        on_case: told what is measured next.
    """
    for trials in sizes:
        ways = [OURS, STOCK] if trials <= stock else [OURS]
        for way in ways:
            on_case(f"{trials} trials, {way}")
            yield _measured(MANY, way, trials)
    for case, trials in [(REPLICATES, 4), (DIMENSION, 4), (LAUNCHES, 100)] if wide else []:
        on_case(f"{case}, {OURS}")
        yield _measured(case, OURS, trials)


def _measured(case: str, way: str, trials: int) -> ScaleFigures:
    """What a new process has measured; it and all that it starts end with this one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        answer, said = folder / "answer.json", folder / "said.txt"
        words = [sys.executable, "-m", "zotune.bench.scale_case", case, way, str(trials)]
        with (
            said.open("wb") as out,
            supervised(
                [*words, str(answer)], stdout=out.fileno(), stderr=subprocess.STDOUT, cwd=folder
            ) as process,
        ):
            process.wait()
        if process.returncode != 0:
            lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            last = lines[-1] if lines else f"exit code {process.returncode}"
            raise CaseError(f"{case} of {trials} trials, {way}, failed: {last}")
        return ScaleFigures(**json.loads(answer.read_text(encoding="utf-8")))


def table(measurements: list[ScaleFigures]) -> Table:
    """Measurements for a person; what was to be reached stands in the caption."""
    from rich.table import Table

    shown = Table("case", "way", title="studies as they grow", title_justify="left")
    for column in (
        *("trials", "seconds", "early /s", "late /s", "driver MB", "report s", "most MB"),
        *("disk MB", "store MB", "runs", "rows"),
    ):
        shown.add_column(column, justify="right")
    for m in measurements:
        shown.add_row(
            *(m.case, m.way, str(m.trials), f"{m.seconds:.1f}", f"{m.early:.2f}", f"{m.late:.2f}"),
            f"{m.first_megabytes:.0f} → {m.last_megabytes:.0f}",
            *(f"{m.report_seconds:.1f}", f"{m.report_megabytes:.0f}", f"{m.disk_megabytes:.1f}"),
            *(f"{m.store_megabytes:.1f}", str(m.runs), str(m.rows)),
        )
    shown.caption = (
        f"to reach with 1000 trials: late ≥ {LEAST_RATE:g} × early, driver + "
        f"{MOST_MEGABYTES:g} MB at most, report within {MOST_SECONDS:g} s"
    )
    shown.caption_justify = "left"
    return shown
