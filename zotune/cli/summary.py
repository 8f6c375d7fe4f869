"""The summary of a launch: the best of each estimator and q, failed trials, and the total cost.

Losses of different problems are not compared: if options of the problem are searched, results are
shown for each instance separately.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune.claims import AS_RUN, Verdict, assumptions
from zotune.core.account import spent_in
from zotune.core.names import EXHAUSTED, FAILED
from zotune.core.settings import PROBLEM, has_method, setting, short, spender
from zotune.core.spending import Spending
from zotune.methods import AUTO
from zotune.results.checkpoints import from_outcome, spent_by
from zotune.results.configurations import (
    Configuration,
    best,
    by_problem,
    configurations,
    instance,
    measure_of,
)
from zotune.results.trial import Trial
from zotune.results.verdicts import verdicts_on
from zotune.study.totals import left_out

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from zotune.study.running import Outcome

FIGURE = "curves.png"
UNMOVED = "unmoved"
"""The share of weights that rounding left unchanged; shown if it is above zero."""
WIDEST = 1000
"""Maximum width of a table in a pipe, in characters."""
MOST_DRAWN = 6
"""Maximum number of problem instances in the figure; the table and the report have all."""
STYLES = {"holds": "green", "fails": "red", "undecided": "yellow"}
SHOWN = ("method", "estimator", "q")
"""Settings that the first columns of tables show."""


@dataclass(frozen=True)
class Summary:
    """The results of a launch, computed once for the terminal and for ``--json``."""

    outcome: Outcome
    trials: list[Trial]

    @classmethod
    def of(cls, outcome: Outcome) -> Summary:
        """The summary from Tune's results and the checkpoints of a launch."""
        return cls(outcome, from_outcome(outcome))

    @cached_property
    def best(self) -> list[Configuration]:
        """The best of each estimator and q on each instance of the problem, in this order."""
        return [
            one for some in by_problem(configurations(self.trials)).values() for one in best(some)
        ]

    @cached_property
    def failed(self) -> list[Trial]:
        """Trials that failed."""
        return [trial for trial in self.trials if trial.status == FAILED]

    @cached_property
    def verdicts(self) -> tuple[list[Verdict], str]:
        """Verdicts on the study's claims, and the reason if claims were not judged."""
        study = self.outcome.launch.study
        tuning = study.tuning
        if tuning is not None and not study.refines:
            tuning = tuning.model_copy(update={"refine": False})
        return verdicts_on(self.trials, study.claims, tuning, study.size)

    @property
    def refined(self) -> int:
        """The number of trials by which the grid was refined."""
        study = self.outcome.launch.study
        return max(0, len(self.trials) - study.size) if study.refines else 0

    @property
    def refined_line(self) -> str:
        """A line about them; empty if there are none."""
        tuning = self.outcome.launch.study.tuning
        if not self.refined or tuning is None:
            return ""
        return (
            f"refined: {self.refined} further trials, with values of {tuning.over} between the "
            "best ones of the grid and neighbours that end higher or diverge"
        )

    @cached_property
    def spending(self) -> Spending:
        """Total spending of all trials."""
        return spent_in(self.outcome.launch.folder).or_of(spent_by(self.trials))

    @cached_property
    def left_out(self) -> list[str]:
        """Trials that were not begun, because the total was spent."""
        begun = (trial.config for trial in self.trials if "spent" in trial.row)
        return left_out(self.outcome.launch.study, begun)

    @cached_property
    def searched(self) -> list[str]:
        """Searched settings besides those that the first columns show."""
        return [key for key in self.outcome.launch.study.searched if key not in SHOWN]

    @property
    def spent(self) -> str:
        """The price of tuning in one sentence."""
        return f"spent {self.spending}"

    def as_dict(self, figure: Path | None) -> dict[str, Any]:
        """The results for JSON output."""
        launch, study = self.outcome.launch, self.outcome.launch.study
        verdicts, not_judged = self.verdicts
        return {
            "study": study.name,
            "question": study.question,
            "launch": launch.id,
            "folder": str(launch.folder),
            "figure": None if figure is None else str(figure),
            "state": launch.state,
            "seconds": round(self.outcome.seconds, 3),
            "trials": len(self.trials),
            "refined": self.refined,
            "spent": self.spending.as_record(),
            "left_out": self.left_out,
            "best": [self._entry(one) for one in self.best],
            "verdicts": [asdict(verdict) for verdict in verdicts],
            "not_judged": not_judged,
            "failed": [self._failure(trial) for trial in self.failed],
            "skipped": [{"point": s.point, "reason": s.reason} for s in study.skipped],
        }

    def _failure(self, trial: Trial) -> dict[str, Any]:
        keys = ["estimator", "q", *self.searched, *(["replicate"] * ("replicate=" in trial.name))]
        point = {key: setting(trial.config, key) for key in keys}
        return {"trial": trial.id, "point": point, "error": trial.error}

    def _entry(self, one: Configuration) -> dict[str, Any]:
        last = {key: one.last(key) for key in ("loss", "loss_std", "gap")}
        return {
            "estimator": spender(one.config),
            "q": one.config.get("q"),
            "searched": {key: one.settings.get(key) for key in self.searched},
            **last,
            "spent": one.spent,
            "steps": int(one.row.get("steps") or 0),
            "status": one.status,
            "trials": [trial.id for trial in one.trials],
            "replicates": one.replicates,
            "metrics": one.metrics,
            "start_loss": one.start_loss,
            "smoothness": one.last("L"),
            "smoothness_estimated": any(trial.smoothness_estimated for trial in one.trials),
        }

    def table(self) -> Table:
        """The best of each estimator and q; the best of each estimator is marked."""
        study = self.outcome.launch.study
        title = f"best by estimator and q, with {study.budget} {study.count} per trial"
        return best_table(self.best, title, self.searched)

    def draw(self, same: Path | None = None) -> Path | None:
        """Draw the curves of the best configurations into the launch's folder; None without any.

        Each instance of the problem has its own panels, with its name in their titles.

        Args:
            same: the same figure, if the report has drawn it already; it is copied.
        """
        kept = self.outcome.launch.folder / FIGURE
        if same is not None and same.is_file():
            return Path(shutil.copyfile(same, kept))
        from zotune.reporting.figures import curves

        options = _differing(self.best)
        instances = list(dict.fromkeys(instance(one, options) for one in self.best))
        drawn = [
            _titled(one, instance(one, options))
            for one in self.best
            if instance(one, options) in instances[:MOST_DRAWN] and len(one.points)
        ]
        if not drawn:
            return None
        drawing = curves(drawn)
        if len(instances) > MOST_DRAWN:
            drawing.figure.suptitle(f"the first {MOST_DRAWN} of {len(instances)} problems")
        return drawing.save_as(kept)


def _differing(some: Sequence[Configuration]) -> list[str]:
    """The options of the problem in which configurations differ."""
    keys = [key for key in (some[0].settings if some else {}) if key.startswith(PROBLEM)]
    return [key for key in keys if len({repr(one.settings.get(key)) for one in some}) > 1]


def _titled(one: Configuration, which: str) -> Configuration:
    """The configuration with its instance in the name of its panel."""
    panel = ", ".join(filter(None, [str(spender(one.config)), which]))
    first, *others = one.trials
    return Configuration((replace(first, config={**first.config, "estimator": panel}), *others))


def best_table(some: Sequence[Configuration], title: str, searched: Sequence[str]) -> Table:
    """A row for each configuration; options of the problem come first if they differ.

    Args:
        some: the best of each estimator and q.
        title: the title of the table.
        searched: settings to show in addition to estimator and q.
    """
    from rich.table import Table

    apart, measure = [key for key in _differing(some) if key in searched], measure_of(some)
    more = [key for key in searched if key not in apart]
    known = dict.fromkeys(name for one in some for name in one.metrics)
    idle = {UNMOVED} if not any(one.metrics.get(UNMOVED) for one in some) else set()
    metrics = [name for name in known if name not in idle]
    spreads = ["± std"] if any(one.replicates > 1 for one in some) else []
    shown = Table(title=title, title_justify="left")
    for option in apart:
        shown.add_column(option, justify="right", min_width=len(option))
    first = "method" if any(has_method(one.config) for one in some) else "estimator"
    shown.add_column(first, min_width=len("estimator"))
    value = "gap f − f*" if measure == "gap" else "loss"
    for column in ("q", *more, value, *spreads, *metrics, "steps"):
        shown.add_column(column, justify="right", min_width=len(column))
    shown.add_column("")
    for one in some:
        which = [*(short(one.settings.get(key)) for key in apart), str(spender(one.config))]
        which += [_cell(one, key) for key in ("q", *more)]
        spread = f"{one.last('loss_std') or 0:.2g}" if one.replicates > 1 else ""
        numbers = [f"{one.last(measure):.5g}", *([spread] if spreads else [])]
        numbers += [f"{one.metrics[name]:.3g}" if name in one.metrics else "" for name in metrics]
        shown.add_row(*which, *numbers, f"{one.last('steps') or 0:.0f}", _marks(one, some, apart))
    return shown


def _cell(one: Configuration, key: str) -> str:
    """A setting of a configuration; empty for settings that its method does not have."""
    value = one.settings.get(key) if key in one.settings else one.config.get(key)
    return "" if has_method(one.config) and value in (AUTO, None) else short(value)


def print_whole(console: Console, table: Table) -> None:
    """Print a table; in a pipe or a file, which have no width, with all of its columns."""
    from rich.measure import Measurement

    before = console.width
    if not console.is_terminal:
        free = console.options.update(max_width=WIDEST)
        console.width = max(before, Measurement.get(console, free, table).maximum)
    console.print(table)
    console.width = before


def _marks(one: Configuration, some: Sequence[Configuration], apart: Sequence[str]) -> str:
    """Marks: whether it is the best of its estimator, and remarks."""
    same = [
        other
        for other in some
        if spender(other.config) == spender(one.config)
        and instance(other, apart) == instance(one, apart)
    ]
    marks = ["best"] if one is min(same, key=lambda other: other.rank) else []
    return ", ".join([*marks, *one.remarks, *([one.status] if one.status != EXHAUSTED else [])])


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Every claim with its verdict, and below it the explanation."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table

    shown = Table("verdict", "p", "claim", title="claims", title_justify="left")
    shown.columns[0].no_wrap = shown.columns[1].no_wrap = True
    shown.caption, shown.caption_justify = assumptions(verdicts), "left"
    for verdict in verdicts:
        word = f"[{STYLES[verdict.verdict]}]{verdict.verdict}[/]"
        p = "" if verdict.p is None else f"{verdict.p:.2g}"
        step = "" if verdict.step == AS_RUN else f" ({verdict.step} step)"
        claim = f"{verdict.says.removesuffix('.')}{step}."
        why = [Padding(verdict.why, (0, 0, 0, 2))] if verdict.why else []
        shown.add_row(word, p, Group(claim, *why))
    return shown
