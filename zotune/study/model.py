"""The class ``Study``, and ``load_study``."""

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
    Subspace,
    block_problem,
    combinations,
    dimension,
    key_of,
    located,
    pair_problem,
    parse_axis,
    resolved,
    step_cost,
)
from zotune.study.shape import STUDY_FORMAT, TOP, Shape, checked
from zotune.study.studyfile import (
    GRID,
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
"""Default folder of launches."""


class Skipped(NamedTuple):
    """An infeasible combination of the grid, and the reason."""

    point: Point
    reason: str

    def __str__(self) -> str:
        return f"{label(self.point)}: {self.reason}" if self.point else self.reason


class Study(Shape):
    """A study, fully validated: all errors are reported at once, before Ray starts.

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
        """A study from keys of the right types, without further validation."""
        return cls.model_construct(_fields_set=shape.model_fields_set, **shape.__dict__)

    @property
    def lost_claims(self) -> tuple[str, ...]:
        """Names of claims of the file that no longer apply after ``--set``."""
        return self._lost_claims

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Study:
        """A study from a mapping as in a study file."""
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """The mapping as in a study file, without keys that were left out."""
        return self.model_dump(exclude_unset=True)

    def to_yaml(self, *, complete: bool = False) -> str:
        """The text of a study file.

        Args:
            complete: include all keys that affect the runs, even those with default values.
        """
        said = {"claims", "tuning"}
        whole = self.model_dump(exclude=said) if complete else {}
        data = {"format": STUDY_FORMAT} | whole | self.to_dict() | {"format": STUDY_FORMAT}
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """The values or distributions of every key of the space."""
        return {key: self._axis(key, written) for key, written in self.searched.items()}

    @cached_property
    def subspaces(self) -> list[Subspace]:
        """The spaces, each with its lists and its distributions."""
        return [
            Subspace({key: self._axis(key, written) for key, written in space.items()})
            for space in self.spaces
        ]

    @cached_property
    def config(self) -> dict[str, Any]:
        """The configuration shared by all trials."""
        shared = {"problem", "budget", "count", "replicates", "seed", "points"}
        given = self.model_dump(include=shared)
        given |= {"problem": located(self.problem), "report_every": self.reports_at}
        fixed = {key: checked(key, value, self.problem) for key, value in self.fixed.items()}
        if self.replicates_as == TRIALS:
            given["replicates"] = 1
        if self.resources.workers:
            given["workers"] = self.resources.workers
        named = {key: Config.model_fields[key].default for key in COMPARED}
        if {"eta", "L"} & {*self.fixed, *self.searched}:  # these imply the step rule
            del named["step"]
        return place(named | given, fixed)

    @property
    def reports_at(self) -> int:
        """Spent budget between two reports of a trial; in a race the size of the first rung."""
        if self.search.algorithm == RACE and self.report_every is None:
            return plan_of_race(self).every
        return parse_config({"budget": self.budget, "report_every": self.report_every}).reports_at

    @cached_property
    def trials(self) -> list[Point]:
        """The points of a grid or a random search, in order; Optuna generates its own."""
        points = self.partition[0]
        if self.search.algorithm == RANDOM or (self.search.algorithm == RACE and self.sampled):
            points = list(self._drawn())
        if self.replicates_as == TRIALS:
            points = [p | {"replicate": r} for p in points for r in range(self.replicates)]
        if self.search.algorithm == RACE and (auto := auto_point(self)):
            points = [*points, auto]
        return [] if self.search.algorithm == OPTUNA else points

    @property
    def skipped(self) -> list[Skipped]:
        """Combinations of the grid that are infeasible for the dimension or the budget."""
        return self.partition[1]

    @property
    def size(self) -> int:
        """The number of trials, without those by which a grid is refined."""
        return self.search.trials or 0 if self.search.algorithm == OPTUNA else len(self.trials)

    @property
    def refines(self) -> bool:
        """Whether values of the tuned setting are added beside the best ones of the grid."""
        if self.tuning is None or not self.tuning.refine or not self.claims:
            return False
        return self.search.algorithm == GRID and len(self.grid.get(self.tuning.over, ())) > 1

    @property
    def most_workers(self) -> int:
        """Maximum number of evaluation workers of a trial."""
        axis = self.axes.get("workers", [self.config.get("workers", 0)])
        return int(max(axis.ends if isinstance(axis, Distribution) else axis))

    @property
    def largest_step(self) -> int:
        """Maximum cost of one step of any trial."""
        return max(_cost(c) for p in self.partition[0] for c in self.extremes(p))

    def configuration(self, point: Mapping[str, Any]) -> Config:
        """The configuration of the trial at a point."""
        return parse_config(place(self.config, point))

    def smoke(self) -> Study:
        """The same study at a reduced size that runs in seconds."""
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
            storage_path: trials are stored in ``<storage_path>/<study>/<name>/``.
            name: name of the launch; default: a new one.
            callbacks: Tune callbacks, called before Tune's own loggers.
            trainable: the trainable; default: ``zotune.ZOTrainable``.
            tune_config: further options of ``tune.TuneConfig``, which take precedence.
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

        The results are a ``tune.ResultGrid`` with ``.best``, ``.runs`` and ``.plot()``.

        Ctrl-C stops the trials and returns the results so far. SIGTERM and a closed terminal also
        stop the trials, but raise KeyboardInterrupt once everything is saved.

        Args:
            tracking_uri: the MLflow store for the curves; default: ``MLFLOW_TRACKING_URI``, else
                ``mlflow.db`` in this folder. ``"none"`` disables recording.
            storage_path: the launch is stored in ``<storage_path>/<study>/<launch>/``.
            callbacks: additional Tune callbacks.
            address: address of a running Ray cluster; default: the Ray of this process if it has
                one, else this machine.
        """
        from zotune.study.launch import new_launch
        from zotune.study.result_grid import of_study
        from zotune.study.running import curves, run_launch, store_of, with_store

        def watching() -> Iterator[Any]:
            yield from callbacks
            yield from curves(self, tracking_uri)

        store_of(tracking_uri)  # raises for an invalid store before anything is written
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
        """Keys of the space that are distributions."""
        return {key: axis for key, axis in self.axes.items() if isinstance(axis, Distribution)}

    def extremes(self, point: Point) -> Iterator[Config]:
        """Configurations at a grid point with the extreme values of all distributions."""
        for space in self.subspaces:
            if space.has(point):
                for drawn in combinations(space.ends):
                    yield self.configuration(point | drawn)

    @cached_property
    def combined(self) -> list[Point]:
        """Every combination of the lists of a space, each once."""
        every = (point for space in self.subspaces for point in combinations(space.grid))
        return list({key_of(point): point for point in every}.values())

    @cached_property
    def partition(self) -> tuple[list[Point], list[Skipped]]:
        """Feasible and infeasible points of the grid."""
        kept, skipped = [], []
        for point in self.combined:
            reason = pair_problem(point) or self._block_problem(point)
            if reason:
                skipped.append(Skipped(point, reason))
            else:
                kept.append(point)
        return kept, skipped

    def _block_problem(self, point: Point) -> str | None:
        """Why no draw at a grid point is feasible; None if some draw is."""
        reasons = [block_problem(config) for config in self.extremes(point)]
        return reasons[0] if all(reasons) else None

    def _drawn(self) -> Iterator[Point]:
        """Points of a random search: repeated passes over the grid, with new draws each time."""
        rng = np.random.default_rng([self.seed % 2**64, *self.name.encode()])
        kept = {key_of(point) for point in self.partition[0]}
        places = [
            (space, point)
            for space in self.subspaces
            for point in combinations(space.grid)
            if key_of(point) in kept
        ]
        for at in range(self.search.trials or 0):
            if at % len(places) == 0:
                drawn = [space.draw(rng) for space in self.subspaces]
            space, point = places[at % len(places)]
            yield point | drawn[self.subspaces.index(space)]


COMPARED = ("estimator", "directions", "difference", "step", "q", "update")
"""Settings that every trial states, even if they have default values."""


def _cost(config: Config) -> int:
    """Maximum cost of one step; for methods that yield points the cost of a full block."""
    if resolved(config).replays:
        return min(config.budget, 2 * dimension(config.problem))
    return step_cost(config)


def load_study(name_or_path: str | Path, *, settings: Iterable[str] = ()) -> Study:
    """A study that comes with zotune, or one in a file of yours.

    Args:
        name_or_path: such as ``"strongly-convex"``, or the path of a ``.yaml`` file.
        settings: changes as on the command line: ``["budget=500", "space.q=[1,10]"]``. Claims
            that no longer apply after the changes are left out.

    >>> load_study("strongly-convex").budget
    20000
    """
    written = read_document(name_or_path)
    return _checked(apply_settings(written, settings, TOP), written)


def _checked(document: Document, written: Document | None = None) -> Study:
    """The study of a document; raises all errors, except claims that ``--set`` has invalidated."""
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
    """Whether all complaints are about unchanged claims of a study changed by ``--set``."""
    if written is None or written.data == document.data:
        return False
    same = written.data.get("claims") == document.data.get("claims")
    return same and all(complaint.path[0] == "claims" for complaint in found)


def _without_claims(study: Study, lost: Collection[Path_]) -> Study:
    """The study without claims invalidated by ``--set``, such as one about a removed q."""
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
