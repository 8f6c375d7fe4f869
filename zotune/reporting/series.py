"""Series: what is drawn and tabulated. One configuration, the mean and spread of its replicates."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from zotune.core.names import DIVERGED, EXHAUSTED, FINISHED
from zotune.results.dedupe import without_copies
from zotune.results.remarks import remarks

if TYPE_CHECKING:
    import pandas as pd

    from zotune.reporting.records import TrialRecord
    from zotune.runs.run import Run

REPEATED = {"replicate", "replicates", "seed"}
"""Settings in which repetitions of one configuration differ."""
NOT_A_CHOICE = {"report_every", "diagnostics", "block_bytes", "curve", *REPEATED}
"""Settings that do not tell two configurations apart."""
PANELS = ("estimator", "directions", "difference")
"""Settings that are compared side by side; what else is searched is tuned, problems apart."""
WHOLE = {EXHAUSTED, DIVERGED, FINISHED}
"""Words for a run that had all of its budget, or needed no more of it."""


@dataclass(frozen=True)
class Series:
    """One configuration over its budget."""

    config: Mapping[str, Any]
    points: pd.DataFrame
    """``spent``, ``loss`` and ``loss_std`` over replicates, and what else is known."""
    replicates: int
    status: str
    names: tuple[str, ...] = ()
    """Of the trials behind it."""
    estimated_smoothness: float | None = None
    """The L that the step was divided by where it was estimated; None where it was not."""

    @property
    def q(self) -> int | None:
        """Directions a step; None for a trainable that has no such thing."""
        q = self.config.get("q")
        return q if isinstance(q, int) else None

    @property
    def eta(self) -> float | None:
        """The step size or its factor."""
        eta = self.config.get("eta")
        return float(eta) if isinstance(eta, int | float) else None

    @property
    def spent(self) -> int:
        """How far it is."""
        return int(self.points["spent"].iloc[-1])

    @property
    def budget(self) -> int:
        """How far it goes; as far as it is where nothing is said."""
        return int(self.config.get("budget") or self.spent)

    @property
    def is_whole(self) -> bool:
        """Whether it is all that there will be of it."""
        return set(self.status.split(", ")) <= WHOLE

    @property
    def has_diverged(self) -> bool:
        """Whether any trial behind it has."""
        return DIVERGED in self.status.split(", ")

    @property
    def remarks(self) -> list[str]:
        """What is to be said wherever it may be called the best."""
        start = float(self.points["loss"].iloc[0])
        return remarks(self.last("loss"), start, self.estimated_smoothness)

    def last(self, column: str) -> float | None:
        """The last value of a column, None where it is not known."""
        if column not in self.points:
            return None
        known = self.points[column].dropna()
        return float(known.iloc[-1]) if len(known) else None


def from_run(run: Run) -> Series:
    """The series of a run of this process."""
    points = run.curve.astype({"gap": float}).select_dtypes("number").dropna(axis=1)
    from zotune.runs.run import Run

    known = run.smoothness if isinstance(run, Run) and run.smoothness_estimated else None
    return Series(
        config=run.config.model_dump(),
        points=points,
        replicates=run.config.replicates,
        status=run.status,
        estimated_smoothness=None if known is None else float(known.mean()),
    )


def from_trials(trials: Iterable[TrialRecord]) -> list[Series]:
    """A series for each configuration that has a loss; trials that repeat one are one series."""
    groups: defaultdict[str, list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        if len(trial.curve) and trial.status != "failed":
            key = {k: v for k, v in flat(trial.config) if k not in REPEATED}
            groups[json.dumps(key, sort_keys=True, default=str)].append(trial)
    kept = (without_copies(group, same=_whole, spent=_spent) for group in groups.values())
    return sorted(map(_pooled, kept), key=_order)


def _whole(trial: TrialRecord) -> str:
    """The whole configuration with its seed; trials without a seed may differ."""
    if "seed" not in trial.config:
        return trial.run_id
    return json.dumps(dict(flat(trial.config)), sort_keys=True, default=str)


def _spent(trial: TrialRecord) -> float:
    return float(trial.curve["spent"].iloc[-1])


def _pooled(group: list[TrialRecord]) -> Series:
    sizes = [int(trial.config.get("replicates") or 1) for trial in group]
    words = sorted({trial.status for trial in group})
    estimates = [t.smoothness for t in group if t.smoothness_estimated and t.smoothness is not None]
    return Series(
        config=group[0].config,
        points=pool([_held(trial, group) for trial in group], sizes),
        replicates=sum(sizes),
        status=words[0] if len(words) == 1 else ", ".join(words),
        names=tuple(trial.name for trial in group),
        estimated_smoothness=fmean(estimates) if estimates else None,
    )


def _held(trial: TrialRecord, group: list[TrialRecord]) -> pd.DataFrame:
    """The curve of a trial; a diverged one keeps its last value for as long as others go on."""
    if trial.status != DIVERGED:
        return trial.curve
    spent = max(group, key=_spent).curve["spent"]
    return trial.curve.set_index("spent").reindex(spent, method="ffill").reset_index()


def pool(curves: Sequence[pd.DataFrame], sizes: Sequence[int]) -> pd.DataFrame:
    """Curves of parts of the replicates as the curve of all, where all parts have a value.

    Means are weighted by the sizes n of the parts; the standard deviation of all N is
    √((Σ (n − 1) s² + Σ n (m − M)²) / (N − 1)), as if they had been one part. Diverged
    replicates are counted.

    >>> import pandas as pd
    >>> parts = [pd.DataFrame({"spent": [0], "loss": [x], "loss_std": [0.0]}) for x in (1.0, 3.0)]
    >>> pool(parts, [1, 1])["loss_std"].tolist() == [2**0.5]
    True
    """
    if len(curves) == 1:
        return curves[0]
    indexed = [curve.set_index("spent") for curve in curves]
    total, many = sum(sizes), list(zip(indexed, sizes, strict=True))
    mean = sum((n * curve for curve, n in many[1:]), many[0][0] * many[0][1]) / total
    mean = mean.dropna(subset="loss")
    within = sum((n - 1) * curve["loss_std"] ** 2 for curve, n in many)
    between = sum(n * (curve["loss"] - mean["loss"]) ** 2 for curve, n in many)
    if "diverged" in mean:
        mean["diverged"] = sum(curve["diverged"] for curve in indexed)
    mean["loss_std"] = ((within + between) / max(1, total - 1)) ** 0.5
    return mean.reset_index()


def _order(series: Series) -> tuple[Any, ...]:
    config = series.config
    return (str(config.get("estimator")), series.q or 0, series.eta or 0.0, str(config))


def flat(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their dotted names."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def searched(series: Sequence[Series]) -> list[str]:
    """Settings in which the series differ."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for one in series:
        for key, value in flat(one.config):
            values[key].add(repr(value))
    return [k for k, found in values.items() if len(found) > 1 and k not in NOT_A_CHOICE]


def by_problem(series: Sequence[Series]) -> dict[str, list[Series]]:
    """Series of one problem each: losses of two problems are not compared."""
    groups: defaultdict[str, list[Series]] = defaultdict(list)
    differing = [key for key in searched(series) if key.startswith("problem.")]
    for one in series:
        settings = dict(flat(one.config))
        said = ", ".join(f"{k.removeprefix('problem.')} = {settings.get(k)}" for k in differing)
        groups[said].append(one)
    return dict(groups)


def panel_of(series: Series, among: Sequence[Series]) -> str:
    """Which panel a series is drawn in: its estimator, with its directions if they differ."""
    return _panel(series, _panel_keys(among))


def panels_of(series: Sequence[Series]) -> list[str]:
    """The panel of each of the series, among all of them."""
    differing = _panel_keys(series)
    return [_panel(one, differing) for one in series]


def _panel_keys(among: Sequence[Series]) -> list[str]:
    found = searched(among)
    return [key for key in PANELS[1:] if key in found]


def _panel(series: Series, differing: Sequence[str]) -> str:
    named = [series.config.get("estimator"), *(series.config.get(key) for key in differing)]
    known = [str(part) for part in named if part is not None]
    return ", ".join(known) or " ".join(series.names)


def best(series: Sequence[Series]) -> list[Series]:
    """The lowest loss of each panel and q: of those that came to their end, else of those that
    did not, and a diverged one only where there is no other.
    """
    groups: defaultdict[tuple[str, int | None], list[Series]] = defaultdict(list)
    for panel, one in zip(panels_of(series), series, strict=True):
        groups[panel, one.q].append(one)
    return [min(group, key=_rank) for group in groups.values()]


def _rank(series: Series) -> tuple[bool, bool, float]:
    """Diverged ones last: they are all that there will be of them, and nothing that one wants."""
    loss = series.last("loss")
    return series.has_diverged, not series.is_whole, float("inf") if loss is None else loss


def measure_of(series: Sequence[Series]) -> str:
    """What is drawn: the gap where it is known of all, else the loss."""
    known = all("gap" in one.points and one.points["gap"].notna().all() for one in series)
    return "gap" if known and series else "loss"
