"""The summary run of a launch: a note, a table of trials, versions and machine."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune.callbacks.artifacts import keep
from zotune.callbacks.records import (
    ENDED,
    FAILED,
    FINISHED,
    KILLED,
    POINTS,
    STARTED,
    of_last_attempts,
)
from zotune.callbacks.spool import Record
from zotune.core.account import spent_in
from zotune.core.aim import Aim
from zotune.core.names import ACCOUNT_TAG, SPENT_TAG, STATUS_TAG, STUDY_FILE, TRIALS_TAG
from zotune.core.ranking import LOSS, rank
from zotune.core.spending import Spending

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

NOTE = "mlflow.note.content"
VALUES = ("loss", "best_loss", "gap")
COLUMNS = ("name", "trial", "status", "spent")
SHOWN = 40
"""Maximum number of rows of the note; the table has all."""


def rows_of(records: list[Record], aim: Aim = LOSS) -> list[dict[str, Any]]:
    """A row for each trial, best first; a trial without an end was killed."""
    of_trials = [r for r in of_last_attempts(records) if r.get("trial")]
    names = {r["trial"]: r["name"] for r in of_trials if r["kind"] == STARTED}
    ends = {r["trial"]: r for r in of_trials if r["kind"] == ENDED}
    words = {trial: end.get("tags", {}).get(STATUS_TAG, "") for trial, end in ends.items()}
    rows = [_row(trial, name, ends.get(trial), aim) for trial, name in names.items()]
    return sorted(rows, key=lambda row: _place(row, words.get(row["trial"], ""), aim))


def _row(trial: str, name: str, end: Record | None, aim: Aim) -> dict[str, Any]:
    final = end["final"] if end else {}
    values = {key: final.get(key) for key in dict.fromkeys([aim.metric, *VALUES])}
    state = {"status": end["status"] if end else KILLED, "spent": end["step"] if end else None}
    return {"name": name, "trial": trial, **state, **values}


def _place(row: Mapping[str, Any], word: str, aim: Aim) -> tuple[Any, ...]:
    """Sort key: best first, by the common rule; failed trials and those without a value last."""
    value = row[aim.metric]
    last = value is None or row["status"] == FAILED
    return last, rank(word, value, row["spent"] or 0, aim), row["name"]


def spending_of(records: Iterable[Record]) -> Spending:
    """Total spending of all trials, by their ends or else their last points."""
    settings: dict[str, dict[str, str]] = {}
    last: dict[str, dict[str, Any]] = {}
    for record in of_last_attempts(records):
        trial = record.get("trial", "")
        if record["kind"] == STARTED:
            settings[trial] = record.get("params", {})
        elif record["kind"] == POINTS and record["points"]:
            step, values = record["points"][-1]
            last[trial] = {**values, "spent": step}
        elif record["kind"] == ENDED:
            last[trial] = {**record["final"], "spent": record["step"]}
    return Spending.of((params, last.get(trial, {})) for trial, params in settings.items())


def note_of(about: Mapping[str, Any], rows: list[dict[str, Any]], spending: Spending) -> str:
    """The note on the run's page."""
    counts = Counter(row["status"] for row in rows)
    said = ", ".join(f"{n} {status.lower()}" for status, n in sorted(counts.items()))
    aim = Aim.of(about)
    ended = [row for row in rows if row.get(aim.metric) is not None and row["status"] != FAILED]
    best = next(iter(ended), None)
    lines = [f"**{about['experiment']}**, launch `{about['launch_id']}`: {said or 'no trials'}."]
    if spending.charged:
        lines.append(f"Spent {spending}.")
    if about.get("question"):
        lines.append(about["question"])
    if best is not None:
        which = "Highest" if aim.is_max else "Lowest"
        said = f"**{best['name']}** with {best[aim.metric]:.6g}"
        lines.append(f"{which} {aim.metric}: {said}.")
    elif rows:
        lines.append(f"No trial has ended with a {aim.metric}, by which the best is chosen.")
    lines.append(_markdown(rows[:SHOWN]))
    if len(rows) > SHOWN:
        lines.append(f"{len(rows) - SHOWN} more in `trials.csv`.")
    return "\n\n".join(lines)


def _markdown(rows: list[dict[str, Any]]) -> str:
    columns = list(rows[0]) if rows else COLUMNS
    shown = [c for c in columns if c != "trial" and any(r[c] is not None for r in rows)]
    table = ["| " + " | ".join(shown) + " |", "|" + "---|" * len(shown)]
    table += ["| " + " | ".join(_cell(row[c]) for c in shown) + " |" for row in rows]
    return "\n".join(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def table_of(rows: list[dict[str, Any]]) -> str:
    """All trials as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def status_of(rows: list[dict[str, Any]]) -> str:
    """The status of the launch: that of its worst trial."""
    found = {row["status"] for row in rows}
    return FAILED if FAILED in found else KILLED if KILLED in found else FINISHED


def write_summary(
    client: MlflowClient,
    run_id: str,
    about: Mapping[str, Any],
    records: list[Record],
    folder: Path,
) -> None:
    """Write the summary to the launch's run; idempotent.

    Args:
        client: the store.
        run_id: the launch's run.
        about: the header of its spool.
        records: all records of the spool.
        folder: the folder of the launch, which has its account if it is one of a study.
    """
    from mlflow.entities import Param, RunTag

    rows = rows_of(records, Aim.of(about))
    spending = spent_in(folder).or_of(spending_of(records))
    note = note_of(about, rows, spending)
    tags = {NOTE: note[:8000], TRIALS_TAG: str(len(rows)), SPENT_TAG: str(spending)}
    tags[ACCOUNT_TAG] = json.dumps(spending.as_record())
    client.log_batch(
        run_id,
        params=[Param(key, str(value)) for key, value in about.get("versions", {}).items()],
        tags=[RunTag(key, value) for key, value in tags.items()],
    )
    files = {"summary.md": note, "trials.csv": table_of(rows), STUDY_FILE: about.get("study")}
    for name, text in files.items():
        if text:
            keep(client, run_id, partial(client.log_text, run_id, text, name))
    end = max((r["time"] for r in records if r["kind"] != POINTS), default=about["time"])
    client.set_terminated(run_id, status_of(rows), end_time=end)
