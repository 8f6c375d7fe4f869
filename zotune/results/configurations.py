"""Group trials by configuration, compare configurations, and find the best."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, fsum, log
from typing import TYPE_CHECKING, Any

from zotune.core.aim import Aim
from zotune.core.names import DIVERGED
from zotune.core.ranking import LOSS, rank, remarks
from zotune.core.settings import PROBLEM, flat, has_method, short, spender
from zotune.results.trial import WHOLE, Trial, is_metric

if TYPE_CHECKING:
    import pandas as pd

REPEATED = {"replicate", "replicates", "seed"}
"""Settings in which repetitions of one configuration differ."""
NOT_A_CHOICE = {"report_every", "diagnostics", "block_bytes", "curve", *REPEATED}
"""Settings that do not distinguish configurations."""
PANELS = ("estimator", "update", "step", "directions", "difference")
"""Settings that are compared in separate panels; other searched settings (except options of the
problem) count as tuned."""
VISIBLE = 0.02
"""Share by which two means must differ to be told apart in figures and tables."""
FURTHEST = ("spent", "steps")
"""Values for which a configuration shows the maximum over its trials."""


@dataclass(frozen=True)
class Configuration:
    """One configuration, with means and standard deviations over its replicates."""

    trials: tuple[Trial, ...]
    """One trial, or several that are its replicates, without duplicates."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings of its first trial."""
        return self.trials[0].config

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The same by their dotted names."""
        return dict(flat(self.config))

    @property
    def replicates(self) -> int:
        """Number of independent runs."""
        return sum(trial.replicates for trial in self.trials)

    @property
    def status(self) -> str:
        """The status of its trials, or all of them if they differ."""
        return ", ".join(sorted({trial.status for trial in self.trials}))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its trials."""
        return tuple(trial.name for trial in self.trials)

    @property
    def q(self) -> int | None:
        """Directions per step; None for other trainables."""
        q = self.config.get("q")
        return q if isinstance(q, int) else None

    @property
    def block(self) -> int | str | None:
        """The same, or the name of the rule that chooses it."""
        q = self.config.get("q")
        return str(q.get("rule")) if isinstance(q, Mapping) else q

    @property
    def eta(self) -> float | None:
        """The step size or its factor."""
        eta = self.config.get("eta")
        return float(eta) if isinstance(eta, int | float) else None

    @property
    def spent(self) -> int:
        """Its spent budget."""
        return int(self.row["spent"])

    @property
    def budget(self) -> int:
        """The budget of each of its trials; the spent budget if not known."""
        return int(self.config.get("budget") or self.spent)

    @property
    def is_whole(self) -> bool:
        """Whether all of its trials are complete."""
        return all(trial.status in WHOLE for trial in self.trials)

    @property
    def estimated_smoothness(self) -> float | None:
        """The estimated L of the step; None if it was not estimated."""
        return self.last("L") if any(t.smoothness_estimated for t in self.trials) else None

    @property
    def gamma(self) -> float | None:
        """The strong convexity of the function, if it was recorded."""
        return self.trials[0].course.gamma

    @property
    def start_loss(self) -> float | None:
        """The loss before the first step."""
        known = [(t.start_loss, t.replicates) for t in self.trials]
        return _mean(known)

    @property
    def remarks(self) -> list[str]:
        """Remarks to show with the result."""
        return remarks(self.last("loss"), self.start_loss, self.estimated_smoothness)

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Its sort key; the best has the lowest."""
        return rank(self.status, self.last(self.aim.metric), self.spent, self.aim)

    @property
    def aim(self) -> Aim:
        """What decides whether it is better than others."""
        return self.trials[0].aim

    @property
    def metrics(self) -> dict[str, float]:
        """Final values of further metrics that its trials report."""
        return {key: value for key, value in self.row.items() if is_metric(key)}

    def last(self, key: str) -> float | None:
        """A final value; None if not known."""
        value = self.row.get(key)
        return None if value is None else float(value)

    @cached_property
    def geometric_mean(self) -> float | None:
        """The geometric mean over replicates of the final gap, or loss, which claims compare.

        None for one replicate, if losses are not recorded or not positive, or if one has diverged.
        """
        courses = [trial.course for trial in self.trials]
        above = measure_of([self]) == "gap"
        ends = [
            loss - (course.minimum or 0.0 if above else 0.0)
            for course in courses
            for loss in course.losses or ()
        ]
        lost = any(any(course.diverged) for course in courses)
        if lost or len(ends) < max(2, self.replicates) or min(ends) <= 0:
            return None
        return exp(fsum(map(log, ends)) / len(ends))

    @cached_property
    def row(self) -> dict[str, Any]:
        """The final values of its trials, merged to one row."""
        first, *others = (trial.row for trial in self.trials)
        if not others:
            return dict(first)
        sizes = [trial.replicates for trial in self.trials]
        keys = [key for key in first if all(row.get(key) is not None for row in others)]
        values = {key: [row[key] for row in (first, *others)] for key in keys}
        pooled = {
            key: max(each) if key in FURTHEST else _mean(list(zip(each, sizes, strict=True)))
            for key, each in values.items()
        }
        if "diverged" in values:
            pooled["diverged"] = sum(values["diverged"])
        if {"loss", "loss_std"} <= values.keys():
            pooled["loss_std"] = _spread(values["loss"], values["loss_std"], pooled["loss"], sizes)
        return pooled

    @cached_property
    def points(self) -> pd.DataFrame:
        """The curve: ``spent``, ``loss`` and ``loss_std`` over replicates, and further metrics."""
        parts = [_held(t, self.trials) for t in self.trials]
        return pool(parts, [t.replicates for t in self.trials], self.aim.metric)


def _mean(values: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(value, size) for value, size in values if value is not None]
    return sum(value * size for value, size in known) / sum(s for _, s in known) if known else None


def _spread(means: Sequence[Any], spreads: Sequence[Any], mean: Any, sizes: Sequence[int]) -> Any:
    """The standard deviation of all N replicates from means and standard deviations of parts.

    √((Σ (n − 1) s² + Σ n (m − M)²) / (N − 1)), as if they had been one part.
    """
    within = sum((n - 1) * s**2 for s, n in zip(spreads, sizes, strict=True))
    between = sum(n * (m - mean) ** 2 for m, n in zip(means, sizes, strict=True))
    return ((within + between) / max(1, sum(sizes) - 1)) ** 0.5


def _held(trial: Trial, group: Sequence[Trial]) -> pd.DataFrame:
    """The curve of a trial; if it diverged, extended by its last value to the end of the others."""
    curve = trial.course.curve
    if trial.status != DIVERGED or len(group) == 1:
        return curve
    spent = max(group, key=lambda one: one.spent).course.curve["spent"]
    return curve.set_index("spent").reindex(spent, method="ffill").reset_index()


def pool(
    curves: Sequence[pd.DataFrame], sizes: Sequence[int], measure: str = "loss"
) -> pd.DataFrame:
    """Merge curves of parts of the replicates, at points where all parts have a value.

    Means are weighted by the sizes of the parts. Diverged replicates are counted.

    >>> import pandas as pd
    >>> parts = [pd.DataFrame({"spent": [0], "loss": [x], "loss_std": [0.0]}) for x in (1.0, 3.0)]
    >>> pool(parts, [1, 1])["loss_std"].tolist() == [2**0.5]
    True
    """
    if len(curves) == 1:
        return curves[0]
    indexed = [curve.set_index("spent") for curve in curves]
    many = list(zip(indexed, sizes, strict=True))
    mean = sum((n * curve for curve, n in many[1:]), many[0][0] * many[0][1]) / sum(sizes)
    mean = mean.dropna(subset=measure)
    values, spreads = ([curve[key] for curve in indexed] for key in (measure, "loss_std"))
    mean["loss_std"] = _spread(values, spreads, mean[measure], sizes)
    if "diverged" in mean:
        mean["diverged"] = sum(curve["diverged"] for curve in indexed)
    return mean.reset_index()


def configurations(trials: Iterable[Trial]) -> list[Configuration]:
    """Every configuration that has a loss, with its trials grouped."""
    groups: defaultdict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.has_loss:
            key = {k: v for k, v in flat(trial.config) if k not in REPEATED}
            groups[json.dumps(key, sort_keys=True, default=str)].append(trial)
    found = (Configuration(tuple(without_copies(group))) for group in groups.values())
    return sorted(found, key=_order)


def without_copies(trials: Sequence[Trial]) -> list[Trial]:
    """The trials in order, with duplicates of a run removed; the one with most budget is kept."""
    furthest: dict[str, int] = {}
    for at, trial in enumerate(trials):
        kept = furthest.setdefault(_whole(trial), at)
        if trial.spent > trials[kept].spent:
            furthest[_whole(trial)] = at
    return [trials[at] for at in sorted(furthest.values())]


def _whole(trial: Trial) -> str:
    """A key of the whole configuration with its seed; unique for trials without a seed."""
    if "seed" not in trial.config:
        return f"{trial.id} {trial.run_id}"
    return json.dumps(dict(flat(trial.config)), sort_keys=True, default=str)


def _order(one: Configuration) -> tuple[Any, ...]:
    return str(spender(one.config)), one.q or 0, one.eta or 0.0, str(one.config)


def searched(some: Sequence[Configuration]) -> list[str]:
    """Settings in which configurations differ."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for one in some:
        for key, value in one.settings.items():
            values[key].add(repr(value))
    return [k for k, found in values.items() if len(found) > 1 and k not in NOT_A_CHOICE]


def by_problem(some: Sequence[Configuration]) -> dict[str, list[Configuration]]:
    """Configurations grouped by problem, as losses of different problems are not comparable."""
    differing = [key for key in searched(some) if key.startswith(PROBLEM)]
    groups: defaultdict[tuple[Any, ...], list[Configuration]] = defaultdict(list)
    for one in some:
        groups[tuple(_ordered(one.settings.get(key)) for key in differing)].append(one)
    return {instance(groups[key][0], differing): groups[key] for key in sorted(groups)}


def instance(one: Configuration, options: Iterable[str]) -> str:
    """A label of its problem, by the options in which problems differ: ``seed = 3``."""
    said = ((key.removeprefix(PROBLEM), one.settings.get(key)) for key in options)
    return ", ".join(f"{key} = {short(value)}" for key, value in said)


def _ordered(value: Any) -> tuple[bool, float, str]:
    """Sort key: numbers first, by size; then other values by their text."""
    numeric = isinstance(value, int | float)
    return (False, value, "") if numeric else (True, 0.0, repr(value))


def panel_of(one: Configuration, among: Sequence[Configuration]) -> str:
    """The label of its panel: its estimator, with update, step and others if they differ."""
    return _panel(one, _differing_panels(among))


def _panel(one: Configuration, differing: Sequence[str]) -> str:
    apart = () if has_method(one.config) else differing  # settings of blocks
    named = [spender(one.config), *(one.config.get(key) for key in apart)]
    known = [str(part) for part in named if part is not None]
    return ", ".join(known) or " ".join(one.names)


def panels_of(some: Sequence[Configuration]) -> list[str]:
    """The panel of each configuration."""
    differing = _differing_panels(some)
    return [_panel(one, differing) for one in some]


def _differing_panels(some: Sequence[Configuration]) -> list[str]:
    found = searched(some)
    return [key for key in PANELS[1:] if key in found]


def best(some: Sequence[Configuration]) -> list[Configuration]:
    """The best of each panel and q on one problem."""
    groups: defaultdict[tuple[str, int | str | None], list[Configuration]] = defaultdict(list)
    for one, panel in zip(some, panels_of(some), strict=True):
        groups[panel, one.block].append(one)
    return [min(group, key=lambda one: one.rank) for group in groups.values()]


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The best trial; by gap if there are several problems and all minima are known."""
    if any(trial.aim != LOSS for trial in trials):
        return min(trials, key=lambda trial: trial.rank)
    several = len(
        {json.dumps(t.config.get("problem"), sort_keys=True, default=str) for t in trials}
    )
    if several > 1 and all(trial.row.get("gap") is not None for trial in trials):
        return min(trials, key=lambda trial: rank(trial.status, trial.row["gap"], trial.spent))
    return min(trials, key=lambda trial: trial.rank)


def means_differ(some: Sequence[Configuration]) -> bool:
    """Whether geometric means, which claims compare, are visibly below the arithmetic ones."""
    measure = measure_of(some)
    known = [(one.geometric_mean, one.last(measure)) for one in some]
    return any(g is not None and a is not None and g < (1 - VISIBLE) * a for g, a in known)


def measure_of(some: Sequence[Configuration]) -> str:
    """The measure to show: the gap if it is known for all, else the loss; or what decides."""
    if some and some[0].aim != LOSS:
        return some[0].aim.metric
    return "gap" if some and all(one.last("gap") is not None for one in some) else "loss"
