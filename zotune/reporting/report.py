"""A report of one or more launches: what was found, in words, figures and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune.claims import Verdict
from zotune.core.names import FAILED, RUNNING
from zotune.core.spending import Spending
from zotune.reporting import figures
from zotune.reporting.bounds import Bound, bounds_of, notes_on
from zotune.reporting.drawing import LABELS, Drawing, number, with_spread
from zotune.reporting.footnotes import Footnotes
from zotune.reporting.heat import heat_map
from zotune.reporting.importance import importance_sentence
from zotune.reporting.page import Section, Table, markdown, page
from zotune.reporting.price import best_so_far
from zotune.reporting.verdicts import verdict_table, verdicts_of
from zotune.results.configurations import (
    PANELS,
    Configuration,
    best,
    by_problem,
    configurations,
    measure_of,
    panels_of,
    searched,
)
from zotune.results.leaders import leaders
from zotune.results.store import LaunchRecord
from zotune.results.trial import Trial, is_metric
from zotune.study.totals import left_out_line

if TYPE_CHECKING:
    import pandas as pd

CURVES, TABLE, TEXT, PAGE = "curves.csv", "table.csv", "report.md", "report.html"
ENDS = ("loss", "loss_std", "gap", "best_loss", "evaluations")
COUNTERS = ("queries", "monitored", "repeated", "steps", "diverged")
"""Columns of the table, at the end of each series; of other trainables COUNTERS are not known."""
MOST_METRICS = 6
"""Metrics besides the loss that are drawn; the tables have all."""
MOST_WHOLE = 2
"""Problems of a launch for which every figure is drawn; instances are many, and much alike."""
BEST_STEPS = ", each q at its best step"


@dataclass(frozen=True)
class Part:
    """A launch on one problem."""

    launch: LaunchRecord
    problem: str
    """What of the problem differs within the launch; empty where nothing does."""
    series: list[Configuration]
    slug: str
    """Before the names of its figures, where there is more than one part."""

    @cached_property
    def searched(self) -> list[str]:
        """Settings in which its series differ."""
        return searched(self.series)


@dataclass(frozen=True)
class Report:
    """Everything that is written, before it is."""

    title: str
    lead: list[str]
    sections: list[Section]
    curves: pd.DataFrame
    table: pd.DataFrame
    verdicts: list[Verdict]
    spending: dict[str, Spending]
    """What each launch spent in all."""

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
    """The report of launches of one study; what is of two launches is never mixed."""
    parts = list(_parts(launches))
    verdicts = {launch.launch: verdicts_of(launch) for launch in launches}
    spending = {
        launch.launch: Spending.of((trial.config, trial.row) for trial in launch.trials)
        for launch in launches
    }
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
        curves=_concat([_curve_rows(part, one) for part in parts for one in part.series]),
        table=_concat([_table_rows(part) for part in parts]),
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
    """How many trials there are, and how far they are together."""
    begun, planned = len(launch.trials), launch.planned or 0
    many = "1 trial" if max(begun, planned) == 1 else f"{max(begun, planned)} trials"
    if not launch.is_running and not launch.is_unfinished:
        return f"{many}, ended"
    state = "still running" if launch.is_running else "unfinished"
    counts = [f"{begun} begun"] if planned else []  # else nobody knows how many wait
    return f"{many}, {state}: {', '.join([*counts, f'{launch.ended} ended'])}"


def _over_instances(launch: LaunchRecord) -> Iterator[Section]:
    """Who is ahead at which budget, where the launch has several instances of its problem."""
    tables = _leaders(configurations(launch.trials))
    if tables:
        yield Section(f"All instances of launch {launch.launch}", tables=tables)


def _leaders(some: Sequence[Configuration]) -> list[Table]:
    """Who is ahead at which budget, where configurations can be compared."""
    found = list(leaders(some))
    if not found:
        return []
    measure, many = LABELS[measure_of(some)], found[0].instances
    rows = [
        [
            str(one.spent),
            one.name,
            number(one.value),
            one.second,
            "—" if one.ratio is None else f"{one.ratio:.3g} times",
        ]
        for one in found
    ]
    over = f", geometric means over {many} instances" if many > 1 else ""
    columns = ["spent", "lowest", measure, "next", "which is higher by"]
    return [Table(f"Who leads at which budget{over}", columns, rows)]


def _section(part: Part, several: bool, *, whole: bool) -> Section:
    """What was found on one problem; with the curves alone where it is not to be drawn whole."""
    chosen = best(part.series)
    names = [f"launch {part.launch.launch}" if several else "", part.problem]
    draw = drawings if whole else _curves_alone
    return Section(
        title=", ".join(filter(None, names)) or "What was found",
        text=[*findings(part.series), *(importance_sentence(part.series) if whole else ())],
        drawings=draw(part.series, chosen, part.slug),
        tables=[_best_table(part.series, chosen), *_leaders(part.series)],
    )


def findings(series: Sequence[Configuration]) -> Iterator[str]:
    """One sentence for each panel: its best q, and how far behind its worst one is."""
    measure = measure_of(series)
    chosen = best(series)
    panels = panels_of(chosen)
    for title in dict.fromkeys(panels):
        mine = [one for one, panel in zip(chosen, panels, strict=True) if panel == title]
        mine.sort(key=_rank)
        first, last = mine[0], mine[-1]
        said = f"{title}: lowest final {LABELS[measure]}, {_final(first, measure)}"
        if first.block is not None:
            said += f", with q = {first.block}{_tuned(first, series)}"
        said += "".join(f", {remark}" for remark in first.remarks)
        if len(mine) > 1:
            worst = f"with q = {last.block}{_tuned(last, series)}"
            said += f"; highest, {_final(last, measure)}, {worst}"
        yield said + "."


def _tuned(series: Configuration, among: Sequence[Configuration]) -> str:
    return f" and eta = {number(series.eta)}" if series.eta and "eta" in searched(among) else ""


def _final(series: Configuration, measure: str) -> str:
    value, spread = series.last(measure), series.last("loss_std") or 0.0
    return "unknown" if value is None else with_spread(value, spread)


def drawings(
    series: Sequence[Configuration], chosen: Sequence[Configuration], slug: str = ""
) -> list[Drawing]:
    """Every figure that the series allow; ``chosen`` is the best of each panel and q."""
    bounds, reasons = bounds_of(series)
    with_bound = best([series[at] for at in bounds])
    measure = measure_of(chosen)
    of_chosen = _bounds_of(chosen, series, bounds)
    beside = bool(of_chosen) and len(of_chosen) == len(chosen) and of_chosen[0].measure == measure
    first = figures.curves(chosen, name=f"{slug}curves", bounds=of_chosen if beside else None)
    if "eta" in searched(series):
        first.title += BEST_STEPS
    found = [first]
    if with_bound and not beside:
        theirs = _bounds_of(with_bound, series, bounds)
        second = figures.curves(
            with_bound, name=f"{slug}guarantee", measure=theirs[0].measure, bounds=theirs
        )
        if "eta" in searched(series) and theirs[0].measure == measure:
            second.title += ", at the theory's step"
        second.notes += notes_on(with_bound, theirs)
        found.append(second)
    first.notes += notes_on(chosen, of_chosen) if beside else []
    if not with_bound:
        first.notes += [f"No bound is drawn: {reason}." for reason in reasons]
    if len(series) > 1:
        found.append(best_so_far(series, name=f"{slug}price"))
    if all(figures.SECONDS in one.points for one in chosen):
        found.append(figures.curves(chosen, name=f"{slug}time", against=figures.SECONDS))
    if len({one.q for one in chosen if one.q}) > 1:
        found.append(figures.final(chosen, name=f"{slug}final"))
    if "eta" in searched(series):
        if any(one.q and one.eta is not None for one in series):
            found.append(figures.best_steps(series, name=f"{slug}best-step"))
        found.append(figures.losses_by_step(series, name=f"{slug}loss-by-step"))
        if len({one.q for one in series if one.q}) > 1:
            found.append(heat_map(series, name=f"{slug}heat-map"))
    return [*found, *_of_metrics(chosen, first, slug)]


def _curves_alone(
    series: Sequence[Configuration], chosen: Sequence[Configuration], slug: str
) -> list[Drawing]:
    """The curves of one problem among many."""
    drawing = figures.curves(chosen, name=f"{slug}curves")
    if "eta" in searched(series):
        drawing.title += BEST_STEPS
    drawing.notes.append(
        f"Every figure is drawn for the first {MOST_WHOLE} problems of a launch; curves.csv and "
        "table.csv have all of them."
    )
    return [drawing]


def _of_metrics(chosen: Sequence[Configuration], first: Drawing, slug: str) -> list[Drawing]:
    """A figure for each metric that the trials report besides losses; too many are named."""
    drawn = list(dict.fromkeys(str(name) for one in chosen for name in one.points))
    drawn = [name for name in drawn if is_metric(name)]
    known = {name: [one for one in chosen if name in one.points] for name in drawn}
    drawn = [name for name in drawn if _changes(one.points[name] for one in known[name])]
    if len(drawn) > MOST_METRICS:
        left_out = ", ".join(drawn[MOST_METRICS:])
        first.notes.append(f"Recorded and not drawn, but in curves.csv: {left_out}.")
    return [
        figures.curves(known[name], name=f"{slug}metric-{_file_name(name)}", measure=name)
        for name in drawn[:MOST_METRICS]
    ]


def _changes(columns: Iterable[pd.Series]) -> bool:
    return len({value for column in columns for value in column.dropna()}) > 1


def _file_name(name: str) -> str:
    return re.sub(r"[^-.\w]", "-", name)


def _bounds_of(
    some: Sequence[Configuration], series: Sequence[Configuration], bounds: dict[int, Bound]
) -> dict[int, Bound]:
    """Bounds by the position among some of the series."""
    known = {id(series[at]): bound for at, bound in bounds.items()}
    return {at: known[id(one)] for at, one in enumerate(some) if id(one) in known}


def _best_table(series: Sequence[Configuration], chosen: Sequence[Configuration]) -> Table:
    """The best of each panel and q; those that are best of their panel are marked."""
    measure = measure_of(chosen)
    more = [key for key in searched(series) if key not in (*PANELS, "q")]
    more = [key for key in more if not key.startswith(("problem.", "q."))]
    footnotes = Footnotes()
    metrics = list(dict.fromkeys(name for one in chosen for name in one.metrics))
    value = f"final {LABELS[measure]}"
    columns = ["estimator", "q", *more, value, *metrics, "spent per trial", "state", ""]
    rows = []
    panels = panels_of(chosen)
    leaders = {
        panel: min((o for o, p in zip(chosen, panels, strict=True) if p == panel), key=_rank)
        for panel in panels
    }
    for one, panel in zip(chosen, panels, strict=True):
        marks = [footnotes.mark(remark) for remark in one.remarks]
        rows.append(
            [
                panel,
                "" if one.block is None else str(one.block),
                *(_word(one.settings.get(key)) for key in more),
                _final(one, measure),
                *(_word(one.metrics.get(name)) for name in metrics),
                f"{one.spent:,} of {one.budget:,}",
                one.status,
                " ".join([*(["best"] if one is leaders[panel] else []), *marks]),
            ]
        )
    tried = len(series) // max(1, len(chosen))
    chosen_by = (
        f"Each row is the lowest of about {tried} configurations, chosen by the loss that it "
        "shows, which flatters it a little; table.csv has all."
    )
    note = chosen_by if tried > 1 else ""
    return Table("Best by estimator and q", columns, rows, note, footnotes.lines)


def _rank(one: Configuration) -> tuple[bool, float, float]:
    return one.rank


def _word(value: Any) -> str:
    return number(value) if isinstance(value, float) else "" if value is None else str(value)


def _state(
    launch: LaunchRecord, verdicts: list[Verdict], why_not: str, several: bool
) -> list[Section]:
    """What became of the trials, where that is not plain, and the verdicts on the claims."""
    which = f" of launch {launch.launch}" if several else ""
    sections = []
    if verdicts or why_not:
        tables = [verdict_table(verdicts)] if verdicts else []
        sections.append(Section(f"Claims{which}", [why_not] if why_not else [], tables=tables))
    unfinished = [trial for trial in launch.trials if trial.status == RUNNING]
    if unfinished:
        sections.append(Section(f"Still running{which}", tables=[_progress(unfinished)]))
    failed = [trial for trial in launch.trials if trial.status == FAILED]
    if failed:
        said = [f"{trial.name} ({trial.id}): {trial.error or 'unknown'}" for trial in failed]
        sections.append(Section(f"Failed{which}", said))
    return sections


def _progress(trials: Iterable[Trial]) -> Table:
    rows = [
        [
            trial.name,
            f"{trial.spent:,}",
            f"{trial.budget:,}" if trial.budget else "",
            f"{trial.spent / trial.budget:.0%}" if trial.budget else "",
            _word(trial.row.get("loss")),
        ]
        for trial in trials
    ]
    return Table("How far each trial is", ["trial", "spent", "budget", "", "loss"], rows)


def _curve_rows(part: Part, series: Configuration) -> pd.DataFrame:
    rows = series.points.rename(columns={"q": "block"})  # q is the setting
    for at, (key, value) in enumerate(_identity(part, series).items()):
        rows.insert(at, key, value)
    return rows


def _identity(part: Part, series: Configuration) -> dict[str, Any]:
    """What tells a series from all others of the report."""
    settings = series.settings
    keys = dict.fromkeys(["estimator", "q", *part.searched])
    problem = {"problem": part.problem} if part.problem else {}
    return {"launch": part.launch.launch, **problem, **{key: settings.get(key) for key in keys}}


def _table_rows(part: Part) -> pd.DataFrame:
    import pandas as pd

    chosen = {id(one) for one in best(part.series)}
    return pd.DataFrame(
        [
            _identity(part, one)
            | {
                "replicates": one.replicates,
                "spent": one.spent,
                "budget": one.budget,
                "status": one.status,
                **{key: one.last(key) for key in ENDS},
                "estimated_L": one.estimated_smoothness,
                **{key: one.last(key) for key in COUNTERS if key in one.row},
                **one.metrics,
                "best": id(one) in chosen,
            }
            for one in part.series
        ]
    )


def _concat(frames: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(frames, ignore_index=True)
