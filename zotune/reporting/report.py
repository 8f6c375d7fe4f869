"""Build the report of one or more launches: text, figures and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from zotune.claims import Verdict
from zotune.core.names import FAILED, RUNNING
from zotune.core.spending import Spending
from zotune.reporting.attempts import Attempts
from zotune.reporting.choosing_figures import MOST_WHOLE, curves_alone, drawings
from zotune.reporting.drawing import LABELS, Drawing, number
from zotune.reporting.importance import importance_sentence
from zotune.reporting.others import (
    are_others,
    drawings_of_others,
    findings_on_others,
    table_of_others,
)
from zotune.reporting.page import Section, markdown, page
from zotune.reporting.tables import (
    Part,
    best_table,
    curve_rows,
    final_value,
    joined,
    leader_tables,
    progress_table,
    table_rows,
)
from zotune.reporting.verdicts import verdict_table, verdicts_of
from zotune.results.configurations import (
    Configuration,
    best,
    by_problem,
    configurations,
    measure_of,
    panels_of,
    searched,
)
from zotune.results.store import LaunchRecord
from zotune.study.totals import left_out_line

if TYPE_CHECKING:
    import pandas as pd

CURVES, TABLE, TEXT, PAGE = "curves.csv", "table.csv", "report.md", "report.html"


@dataclass(frozen=True)
class Report:
    """A report, before it is written."""

    title: str
    lead: list[str]
    sections: list[Section]
    curves: pd.DataFrame
    table: pd.DataFrame
    verdicts: list[Verdict]
    spending: dict[str, Spending]
    """Total spending of each launch."""

    def write(self, folder: Path, *, for_latex: bool = False) -> list[Path]:
        """Write figures, tables, the text and the page; figures for LaTeX double the time."""
        folder.mkdir(parents=True, exist_ok=True)
        drawings = [drawing for section in self.sections for drawing in section.drawings]
        written = [path for one in drawings for path in one.save(folder, for_latex=for_latex)]
        self.curves.to_csv(folder / CURVES, index=False)
        self.table.to_csv(folder / TABLE, index=False)
        said = (self.title, self.sections)
        (folder / TEXT).write_text(markdown(*said, lead=self.lead), encoding="utf-8")
        (folder / PAGE).write_text(page(*said, lead=self.lead), encoding="utf-8")
        return [*written, *(folder / name for name in (CURVES, TABLE, TEXT, PAGE))]


def build(launches: Sequence[LaunchRecord]) -> Report:
    """The report of launches of one study, which are never mixed."""
    parts = list(_parts(launches))
    verdicts = {launch.launch: verdicts_of(launch) for launch in launches}
    spending = {launch.launch: launch.spending for launch in launches}
    sections = []
    for launch in launches:
        found, why_not = verdicts[launch.launch]
        sections += _state(launch, found, why_not, len(launches) > 1)
        mine = [part for part in parts if part.launch is launch]
        sections += _over_instances(launch) if len(mine) > 1 else ()
        sections += [
            _section(part, len(parts) > 1, whole=at < MOST_WHOLE) for at, part in enumerate(mine)
        ]
    return Report(
        title=launches[0].study,
        lead=[line for launch in launches for line in _lead(launch, spending[launch.launch])],
        sections=sections,
        curves=curve_rows(parts),
        table=joined([table_rows(part) for part in parts]),
        verdicts=[verdict for found, _ in verdicts.values() for verdict in found],
        spending=spending,
    )


def _parts(launches: Sequence[LaunchRecord]) -> Iterator[Part]:
    groups = [
        (launch, problem, series)
        for launch in launches
        for problem, series in by_problem(configurations(launch.trials)).items()
    ]
    for at, (launch, problem, series) in enumerate(groups):
        yield Part(launch, problem, series, f"part{at + 1}-" if len(groups) > 1 else "")


def _lead(launch: LaunchRecord, spending: Spending) -> list[str]:
    question = launch.file.get("question")
    when = f"{launch.started:%Y-%m-%d %H:%M} UTC"
    said = f"Launch {launch.launch} of {when}: {_progress_of(launch)}."
    lead = [*([str(question)] if question else []), said, f"Spent {spending}."]
    if launch.left_out:
        line = left_out_line(launch.left_out, launch.planned or len(launch.left_out))
        lead.append(f"{line[0].upper()}{line[1:]}.")
    return lead


def _progress_of(launch: LaunchRecord) -> str:
    """The number of trials, and their total progress."""
    begun, planned = len(launch.trials), launch.planned or 0
    many = "1 trial" if max(begun, planned) == 1 else f"{max(begun, planned)} trials"
    if not launch.is_running and not launch.is_unfinished:
        return f"{many}, ended"
    state = "still running" if launch.is_running else "unfinished"
    counts = [f"{begun} begun"] if planned else []  # else it is not known how many wait
    return f"{many}, {state}: {', '.join([*counts, f'{launch.ended} ended'])}"


def _over_instances(launch: LaunchRecord) -> Iterator[Section]:
    """The leaders at several budgets, if the launch has several problem instances."""
    tables = leader_tables(configurations(launch.trials))
    if tables:
        yield Section(f"All instances of launch {launch.launch}", tables=tables)


def _section(part: Part, several: bool, *, whole: bool) -> Section:
    """What was found on one problem; with the curves alone where it is not to be drawn whole."""
    series, chosen, attempt = part.series, best(part.series), Attempts()
    names = [f"launch {part.launch.launch}" if several else "", part.problem]
    if are_others(part.series):
        return Section(
            title=", ".join(filter(None, names)) or "What was found",
            text=[*findings_on_others(part.series), *importance_sentence(part.series)],
            drawings=drawings_of_others(part.series, part.slug),
            tables=[table_of_others(part.series)],
        )
    text = attempt("what was found", lambda: findings(series))
    if whole:
        text += attempt("the importance of settings", lambda: importance_sentence(series))
    draw = drawings if whole else curves_alone
    drawn = list[Drawing]()
    for drawing in draw(series, chosen, part.slug, attempt):
        drawn += attempt(f"the figure {drawing.name}", partial(_rendered, drawing))
    tables = attempt("the table of the best", lambda: [best_table(series, chosen)])
    tables += attempt("the table of leaders", lambda: leader_tables(series))
    return Section(
        title=", ".join(filter(None, names)) or "What was found",
        text=[*text, *attempt.failed],
        drawings=drawn,
        tables=tables,
    )


def _rendered(drawing: Drawing) -> list[Drawing]:
    """The drawing after it was rendered once, which is kept: its file and the page show it."""
    _ = drawing.svg
    return [drawing]


def findings(series: Sequence[Configuration]) -> Iterator[str]:
    """One sentence for each panel: its best q, and how far behind its worst one is."""
    measure = measure_of(series)
    chosen = best(series)
    panels = panels_of(chosen)
    for title in dict.fromkeys(panels):
        mine = [one for one, panel in zip(chosen, panels, strict=True) if panel == title]
        mine.sort(key=attrgetter("rank"))
        first, last = mine[0], mine[-1]
        said = f"{title}: lowest final {LABELS[measure]}, {final_value(first, measure)}"
        if first.block is not None:
            said += f", with q = {first.block}{_tuned(first, series)}"
        said += "".join(f", {remark}" for remark in first.remarks)
        if len(mine) > 1:
            worst = f"with q = {last.block}{_tuned(last, series)}"
            said += f"; highest, {final_value(last, measure)}, {worst}"
        yield said + "."


def _tuned(series: Configuration, among: Sequence[Configuration]) -> str:
    return f" and eta = {number(series.eta)}" if series.eta and "eta" in searched(among) else ""


def _state(
    launch: LaunchRecord, verdicts: list[Verdict], why_not: str, several: bool
) -> list[Section]:
    """Verdicts on the claims, and trials that are still running or have failed."""
    which = f" of launch {launch.launch}" if several else ""
    sections = []
    if verdicts or why_not:
        tables = [verdict_table(verdicts)] if verdicts else []
        sections.append(Section(f"Claims{which}", [why_not] if why_not else [], tables=tables))
    unfinished = [trial for trial in launch.trials if trial.status == RUNNING]
    if unfinished:
        sections.append(Section(f"Still running{which}", tables=[progress_table(unfinished)]))
    failed = [trial for trial in launch.trials if trial.status == FAILED]
    if failed:
        said = [f"{trial.name} ({trial.id}): {trial.error or 'unknown'}" for trial in failed]
        sections.append(Section(f"Failed{which}", said))
    return sections
