"""One page of all experiments: verdicts first, then every study as its own report has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zotune.claims import AS_RUN, FAILS, HOLDS, THEORY, TUNED, UNDECIDED, Verdict
from zotune.reporting.page import Section, Table, markdown, page
from zotune.reporting.report import Report
from zotune.reporting.verdicts import share

HEADINGS = {THEORY: "at the theory step", TUNED: "with the step tuned", AS_RUN: "as run"}
"""Of the columns of verdicts, by the step that they are about."""
PAGE, TEXT, VERDICTS = "reproduction.html", "reproduction.md", "verdicts.csv"


def write_page(
    folder: Path, size: str, reports: Sequence[Report], measured: Sequence[Section]
) -> Path:
    """Write the page, its text, the table of verdicts and every figure."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [overview(reports), *measured]
    for report in reports:
        parts += [_named(section, report.title) for section in report.sections]
    for drawing in (drawing for part in parts for drawing in part.drawings):
        drawing.save(folder)
    lead = [
        "The experiments of “The Multi-Query Paradox in Zeroth-Order Optimization”, and what it "
        f"leaves open, at the {size} size. Where the step is tuned, replicates or instances that "
        "do not judge choose it, and each claim is judged at the step size of the theory as well."
    ]
    title = f"The paper, reproduced ({size})"
    (folder / TEXT).write_text(markdown(title, parts, lead=lead), encoding="utf-8")
    (folder / VERDICTS).write_text(_csv(reports), encoding="utf-8")
    path = folder / PAGE
    path.write_text(page(title, parts, lead=lead), encoding="utf-8")
    return path


def overview(reports: Sequence[Report]) -> Section:
    """Every claim of every study in one table, with the verdict at every step that was judged."""
    judged = {verdict.step for report in reports for verdict in report.verdicts}
    shown = [step for step in HEADINGS if step in judged]
    rows = []
    for report in reports:
        by_name: dict[str, dict[str, Verdict]] = {}
        for verdict in report.verdicts:
            by_name.setdefault(verdict.name, {})[verdict.step] = verdict
        for at, steps in enumerate(by_name.values()):
            says = next(iter(steps.values())).says
            study = "" if at else report.title
            rows.append([study, says, *(word(steps.get(step)) for step in shown)])
    found = [v.verdict for report in reports for v in report.verdicts]
    counts = ", ".join(f"{found.count(word)} {word}" for word in (HOLDS, FAILS, UNDECIDED))
    columns = ["study", "claim", *(HEADINGS[step] for step in shown)]
    return Section("Verdicts", [f"{counts}."], tables=[Table("All claims", columns, rows, NOTE)])


MARKS = {
    "may lie beyond": "†",
    "may lie between": "†",
    "outlier": "‡",
    "other way round": "§",
}
"""Marks of a verdict by what its sentence says; ``NOTE`` explains them."""
NOTE = (
    "Beside each verdict: how far the configuration that is said to be worse ends above the other "
    "(negative: below), in geometric means unless stated, with a 95 % interval. † a chosen step at "
    "the end of those tried, or beside a gap; ‡ outliers, where interval and test are rough; § "
    "arithmetic means are the other way round. “Diverged: 3 of 8 against 0” counts the pairs in "
    "which the one said to be worse diverged, and the other; medians are then compared, by signs."
)


def word(verdict: Verdict | None) -> str:
    """A verdict with its estimate, its interval, counts of divergence and marks."""
    if verdict is None:
        return "—"
    marks = "".join(dict.fromkeys(mark for said, mark in MARKS.items() if said in verdict.why))
    told = [verdict.verdict, _apart(verdict), marks]
    return " ".join(filter(None, told))


def _apart(verdict: Verdict) -> str:
    """How far apart two configurations end, or how often they diverge."""
    text = "" if verdict.estimate is None else _number(verdict, verdict.estimate)
    if any(verdict.diverged):
        lower, higher = verdict.diverged
        counts = f"diverged: {higher} of {verdict.pairs} against {lower}"
        return f"{text} in the median ({counts})" if text else counts
    if verdict.low is None or verdict.high is None:
        return text
    return f"{text} ({_number(verdict, verdict.low)} … {_number(verdict, verdict.high)})"


def _number(verdict: Verdict, value: float) -> str:
    """An estimate or a limit of its interval, in two digits."""
    if verdict.unit == "difference" or value > 10:
        return share(verdict, value)
    return f"{100 * value:+.2g} %" if abs(value) < 0.1 else f"{100 * value:+.0f} %"


def _named(section: Section, study: str) -> Section:
    """The section with its study's name, in its title and in the names of its figures."""
    for drawing in section.drawings:
        drawing.name = f"{study}-{drawing.name}"
    return replace(section, title=f"{study}: {section.title}")


def _csv(reports: Sequence[Report]) -> str:
    import pandas as pd

    rows = [
        {"study": report.title, **vars(verdict)}
        for report in reports
        for verdict in report.verdicts
    ]
    return pd.DataFrame(rows).to_csv(index=False)
