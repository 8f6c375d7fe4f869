"""Studies: one question, a problem, a budget and a space, run by Ray Tune."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import yaml

from zotune.config import Config, parse_config
from zotune.core.settings import label, place
from zotune.study.points import (
    Axis,
    Distribution,
    Point,
    block_problem,
    combinations,
    dimension,
    located,
    pair_problem,
    parse_axis,
    resolved,
    step_cost,
)
from zotune.study.shape import STUDY_FORMAT, TOP, Shape, checked
from zotune.study.studyfile import (
    OPTUNA,
    RACE,
    RANDOM,
    TRIALS,
    Complaint,
    Document,
    Path_,
    StudyError,
    apply_settings,
    read_document,
)
from zotune.study.totals import auto_point, plan_of_race

if TYPE_CHECKING:
    from ray import tune

    from zotune.study.result_grid import StudyResults

STORAGE = "results"
"""Where launches go unless told otherwise."""


class Skipped(NamedTuple):
    """A combination of the grid that no run can have, and why."""

    point: Point
    reason: str

    def __str__(self) -> str:
        return f"{label(self.point)}: {self.reason}" if self.point else self.reason


class Study(Shape):
    """A study, checked whole: what is wrong with it is told at once, before Ray starts.

    The keys are those of a study file. In Python::

        study = zotune.Study(
            name="mine",
            problem={"name": "quadratic", "dim": 50},
            budget=2000,
            space={"estimator": ["avg", "align"], "q": [1, 10]},
        )
        results = study.run(storage_path="results")

    >>> study = Study(name="s", problem="quadratic", budget=500, space={"q": [1, 1000]})
    >>> [str(skipped) for skipped in study.skipped], study.size
    (['q=1000: one step costs 1002 of a budget of 500 evaluations'], 1)
    """

    _lost_claims: tuple[str, ...] = ()

    def __init__(self, **settings: Any) -> None:
        self.__setstate__(_checked(Document(settings)).__getstate__())

    @classmethod
    def of(cls, shape: Shape) -> Study:
        """A study whose keys have the right shape, and which may still be impossible."""
        return cls.model_construct(_fields_set=shape.model_fields_set, **shape.__dict__)

    @property
    def lost_claims(self) -> tuple[str, ...]:
        """Names of claims of the file that ``--set`` has made meaningless."""
        return self._lost_claims

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Study:
        """A study from the mapping that a file would hold."""
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """The mapping that a file would hold, without what was left out."""
        return self.model_dump(exclude_unset=True)

    def to_yaml(self, *, complete: bool = False) -> str:
        """The study as a file.

        Args:
            complete: with every key that decides what runs, also where it has its default.
        """
        said = {"claims", "tuning"}
        whole = self.model_dump(exclude=said) if complete else {}
        data = {"format": STUDY_FORMAT} | whole | self.to_dict() | {"format": STUDY_FORMAT}
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """Values of every key of the space."""
        return {key: self._axis(key, written) for key, written in self.space.items()}

    @cached_property
    def config(self) -> dict[str, Any]:
        """What all trials share."""
        shared = {"problem", "budget", "count", "replicates", "seed", "points"}
        given = self.model_dump(include=shared)
        given |= {"problem": located(self.problem), "report_every": self.reports_at}
        fixed = {key: checked(key, value, self.problem) for key, value in self.fixed.items()}
        if self.replicates_as == TRIALS:
            given["replicates"] = 1
        if self.resources.workers:
            given["workers"] = self.resources.workers
        named = {key: Config.model_fields[key].default for key in COMPARED}
        if {"eta", "L"} & {*self.fixed, *self.space}:  # which say what the step is
            del named["step"]
        return place(named | given, fixed)

    @property
    def reports_at(self) -> int:
        """Spent budget between two reports of a trial; in a race the first share."""
        if self.search.algorithm == RACE and self.report_every is None:
            return plan_of_race(self).every
        return parse_config({"budget": self.budget, "report_every": self.report_every}).reports_at

    @cached_property
    def trials(self) -> list[Point]:
        """The points of a grid or a random search, in order; Optuna chooses its own."""
        points = self.partition[0]
        if self.search.algorithm == RANDOM or (self.search.algorithm == RACE and self.sampled):
            points = list(self._drawn(points))
        if self.replicates_as == TRIALS:
            points = [p | {"replicate": r} for p in points for r in range(self.replicates)]
        if self.search.algorithm == RACE and (auto := auto_point(self)):
            points = [*points, auto]
        return [] if self.search.algorithm == OPTUNA else points

    @property
    def skipped(self) -> list[Skipped]:
        """Combinations of the grid that dimension or budget do not allow."""
        return self.partition[1]

    @property
    def size(self) -> int:
        """The number of trials."""
        return self.search.trials or 0 if self.search.algorithm == OPTUNA else len(self.trials)

    @property
    def most_workers(self) -> int:
        """The most evaluation workers that a trial has."""
        axis = self.axes.get("workers", [self.config.get("workers", 0)])
        return int(max(axis.ends if isinstance(axis, Distribution) else axis))

    @property
    def largest_step(self) -> int:
        """The most that one step of any trial takes from the budget."""
        return max(_cost(c) for p in self.partition[0] for c in self.extremes(p))

    def configuration(self, point: Mapping[str, Any]) -> Config:
        """The configuration of the trial at a point."""
        return parse_config(place(self.config, point))

    def smoke(self) -> Study:
        """The same study at a size that takes seconds."""
        from zotune.study.smoke import smoked

        return Study(**smoked(self))

    def tuner(
        self,
        *,
        storage_path: str | Path = STORAGE,
        name: str | None = None,
        callbacks: Sequence[Any] = (),
        trainable: Any = None,
        **tune_config: Any,
    ) -> tune.Tuner:
        """An unfitted ``tune.Tuner`` for the study, to change and fit in ``zotune.local_ray()``.

        Args:
            storage_path: trials go to ``<storage_path>/<study>/<name>/``.
            name: of the launch; a new one unless given.
            callbacks: Tune callbacks; they see results before Tune's own loggers.
            trainable: ``zotune.ZOTrainable`` unless given.
            tune_config: further options of ``tune.TuneConfig``, before all others.
        """
        from zotune.study.tuning import build_tuner

        return build_tuner(
            self,
            storage_path=Path(storage_path),
            name=name,
            callbacks=callbacks,
            trainable=trainable,
            **tune_config,
        )

    def run(
        self,
        *,
        tracking_uri: str | None = None,
        storage_path: str | Path = STORAGE,
        callbacks: Sequence[Any] = (),
        address: str | None = None,
    ) -> StudyResults:
        """Run the study to its end, in its own launch folder, and return Tune's results.

        They are a ``tune.ResultGrid`` with ``.best``, ``.runs`` and ``.plot()``.

        Ctrl-C stops the trials and returns what there is. So do SIGTERM and a closed terminal, but
        they raise KeyboardInterrupt when everything is saved: the process was asked to end.

        Args:
            tracking_uri: the MLflow store that the curves go to; ``MLFLOW_TRACKING_URI``, else
                ``mlflow.db`` in this folder, unless given. ``"none"``: nowhere.
            storage_path: the launch goes to ``<storage_path>/<study>/<launch>/``.
            callbacks: Tune callbacks of yours.
            address: of a running Ray cluster; this machine unless given, or the Ray of this
                process if it has one.
        """
        from zotune.study.launch import new_launch
        from zotune.study.result_grid import of_study
        from zotune.study.running import curves, run_launch, store_of, with_store

        def watching() -> Iterator[Any]:
            yield from callbacks
            yield from curves(self, tracking_uri)

        store_of(tracking_uri)  # one that cannot be is refused before anything is written
        with new_launch(self, Path(storage_path)) as launch:
            launch = with_store(launch, tracking_uri)
            outcome = run_launch(launch, callbacks=watching(), address=address)
        if outcome.signal not in (0, signal.SIGINT):
            raise KeyboardInterrupt
        return of_study(outcome.results)

    def _axis(self, key: str, written: Any) -> Axis:
        axis = parse_axis(key, written)
        if isinstance(axis, Distribution):
            if axis.kind != "choice":
                return axis
            return Distribution("choice", tuple(checked(key, v, self.problem) for v in axis.values))
        return [checked(key, value, self.problem) for value in axis]

    @cached_property
    def grid(self) -> dict[str, list[Any]]:
        """Keys of the space that are lists."""
        return {key: axis for key, axis in self.axes.items() if isinstance(axis, list)}

    @cached_property
    def sampled(self) -> dict[str, Distribution]:
        """Keys of the space that are drawn."""
        return {key: axis for key, axis in self.axes.items() if isinstance(axis, Distribution)}

    def extremes(self, point: Point) -> Iterator[Config]:
        """Configurations that stand for all that can be drawn beside a point of the grid."""
        ends = {
            key: sampler.ends if key in DECISIVE else sampler.ends[:1]
            for key, sampler in self.sampled.items()
        }
        return (self.configuration(point | drawn) for drawn in combinations(ends))

    @cached_property
    def partition(self) -> tuple[list[Point], list[Skipped]]:
        """Points of the grid that can be run, and those that cannot."""
        kept, skipped = [], []
        for point in combinations(self.grid):
            reason = pair_problem(point) or self._block_problem(point)
            if reason:
                skipped.append(Skipped(point, reason))
            else:
                kept.append(point)
        return kept, skipped

    def _block_problem(self, point: Point) -> str | None:
        """Why nothing that can be drawn beside a point can be run; None if something can."""
        reasons = [block_problem(config) for config in self.extremes(point)]
        return reasons[0] if all(reasons) else None

    def _drawn(self, points: list[Point]) -> Iterator[Point]:
        """Points of a random search: the grid in turn, every turn with draws of its own."""
        rng = np.random.default_rng([self.seed % 2**64, *self.name.encode()])
        drawn: Point = {}
        for at in range(self.search.trials or 0):
            if at % len(points) == 0:
                drawn = {key: sampler.draw(rng) for key, sampler in self.sampled.items()}
            yield points[at % len(points)] | drawn


COMPARED = ("estimator", "directions", "difference", "step", "q", "update")
"""Settings that every trial names, also where they have their defaults."""
DECISIVE = ("estimator", "q", "directions", "difference", "step", "eta", "problem.dim")
"""Settings on which it depends whether a run is possible."""


def _cost(config: Config) -> int:
    """The most that one step takes; the descent that chooses everything measures whole blocks."""
    if resolved(config).chooses:
        return min(config.budget, 2 * dimension(config.problem))
    return step_cost(config)


def load_study(name_or_path: str | Path, *, settings: Iterable[str] = ()) -> Study:
    """A study that comes with zotune, or one in a file of yours.

    Args:
        name_or_path: such as ``"strongly-convex"``, or the path of a ``.yaml`` file.
        settings: changes as on the command line: ``["budget=500", "space.q=[1,10]"]``. Claims
            that a changed study no longer decides are left out.

    >>> load_study("strongly-convex").budget
    20000
    """
    written = read_document(name_or_path)
    return _checked(apply_settings(written, settings, TOP), written)


def _checked(document: Document, written: Document | None = None) -> Study:
    """The study of a document; what is wrong is told, but for claims lost since it was written."""
    from zotune.study.checks import examined

    study, found = examined(document.data)
    if study is None or (found and not _only_lost_claims(found, document, written)):
        raise StudyError(document.lines(found))
    if found:
        _checked(written or document)  # a claim that the file itself cannot decide is a mistake
        study = _without_claims(study, {complaint.path for complaint in found})
    return study


def _only_lost_claims(
    found: Iterable[Complaint], document: Document, written: Document | None
) -> bool:
    """Whether ``--set`` has changed the study, and its claims, unchanged, are all that suffers."""
    if written is None or written.data == document.data:
        return False
    same = written.data.get("claims") == document.data.get("claims")
    return same and all(complaint.path[0] == "claims" for complaint in found)


def _without_claims(study: Study, lost: Collection[Path_]) -> Study:
    """The study without claims that ``--set`` has made meaningless, such as a q that is gone."""
    gone = [
        claim
        for at, claim in enumerate(study.claims)
        if ("claims",) in lost or ("claims", str(at)) in lost
    ]
    changed = study.model_copy(
        update={"claims": [claim for claim in study.claims if claim not in gone]}
    )
    changed._lost_claims = tuple(claim.name for claim in gone)
    return changed
