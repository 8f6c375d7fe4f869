"""``ZotuneGenerator``: a generator of gest-api, for libEnsemble, Xopt, Optimas and rsopt."""

from __future__ import annotations

import math
from typing import Any

from zotune.errors import ConfigError
from zotune.runs.minimizer import Minimizer
from zotune.runs.parameters import Parameter
from zotune.runs.run import Run

try:
    from gest_api.generator import Generator
except ModuleNotFoundError:  # an optional package
    Generator = None

_Base: Any = object if Generator is None else Generator


class ZotuneGenerator(_Base):  # type: ignore[misc]
    """Suggests the points of a ``Minimizer``, from the middle of the domains or the default values.

    Results are told by their ``_id``, in any order and in parts. A result that is missing, NaN or
    infinite rejects its point. Constraints, discrete and contextual variables are refused.

    Args:
        vocs: the variables and the objective, a ``gest_api.vocs.VOCS``.
        budget: the number of points that are suggested at most.
        settings: as for ``zotune.Minimizer``; without any, the method is chosen automatically.
    """

    returns_id = True

    def __init__(self, vocs: Any, *, budget: int, **settings: Any) -> None:
        if Generator is None:
            raise ModuleNotFoundError(
                "ZotuneGenerator needs the package gest-api; install zotune[gest]"
            )
        super().__init__(vocs)
        self.vocs = vocs
        (self._objective,) = vocs.objective_names
        self._parameters = [Parameter(k, *v.domain) for k, v in vocs.variables.items()]
        defaults = [one.default_value for one in vocs.variables.values()]
        x0 = [
            (p.low + p.high) / 2 if default is None else p.coordinate(default)
            for p, default in zip(self._parameters, defaults, strict=True)
        ]
        bounds = [p.low for p in self._parameters], [p.high for p in self._parameters]
        self._minimizer = Minimizer(x0, budget=budget, bounds=bounds, **settings)
        self._out: set[int] = set()
        """Points that were suggested and have no result yet."""

    def _validate_vocs(self, vocs: Any) -> None:
        """Raise an error for what the search cannot do."""
        kinds = [type(one).__name__ for one in vocs.objectives.values()]
        if kinds not in (["MinimizeObjective"], ["MaximizeObjective"]):
            raise ConfigError(
                f"ZotuneGenerator needs one objective to minimise or maximise, got {kinds}; "
                "combine several into one"
            )
        if vocs.constraints:
            raise ConfigError(
                f"ZotuneGenerator takes no constraints, got {', '.join(vocs.constraint_names)}; "
                "add a penalty to the objective, or return NaN where it is infeasible"
            )
        for name, one in vocs.variables.items():
            kind, domain = type(one).__name__, getattr(one, "domain", [math.nan])
            if kind != "ContinuousVariable" or not all(map(math.isfinite, domain)):
                raise ConfigError(
                    f"{name} must be a ContinuousVariable with finite bounds, got {one!r}; run one "
                    "search for each value of a discrete variable"
                )

    def suggest(self, num_points: int | None = None) -> list[dict[str, Any]]:
        """The points that can be evaluated now, or exactly so many of them.

        Without ``num_points``, the list is empty while results of a batch are missing, and at the
        end of the budget.
        """
        minimizer, free = self._minimizer, []
        if not minimizer.done:
            batch = minimizer.ask()
            free = [(i, x) for i, x in zip(batch.ids, batch, strict=True) if i not in self._out]
        if num_points is not None and num_points > len(free):
            rest = "the budget is spent" if minimizer.done else "ingest the results of the others"
            raise ConfigError(
                f"{len(free)} points can be evaluated now, got num_points={num_points}; {rest}, or "
                "suggest without a number"
            )
        chosen = free[:num_points]
        self._out |= {i for i, _ in chosen}
        constants = {name: one.value for name, one in self.vocs.constants.items()}
        return [constants | self._values(x) | {"_id": i} for i, x in chosen]

    def ingest(self, results: list[dict[str, Any]]) -> None:
        """Tell results of suggested points by their ``_id``."""
        for result in results:
            if result.get("_id") not in self._out:
                raise ConfigError(
                    f"each result needs the _id of a suggested point without a result, got "
                    f"{result.get('_id')!r}; other points cannot be taken"
                )
        for result in results:
            point = int(result["_id"])
            self._out.discard(point)
            self._minimizer.tell([self._value(result)], [point])

    @property
    def run(self) -> Run:
        """The run so far."""
        return self._minimizer.result

    @property
    def best(self) -> dict[str, float]:
        """The variables at the best point."""
        return self._values(self.run.best_x.tolist())

    def _values(self, x: Any) -> dict[str, Any]:
        return {p.name: p.value(float(z)) for p, z in zip(self._parameters, x, strict=True)}

    def _value(self, result: dict[str, Any]) -> float:
        """The value to minimise; NaN if it is missing."""
        told = result.get(self._objective)
        value = math.nan if told is None else float(told)
        rising = type(self.vocs.objectives[self._objective]).__name__ == "MaximizeObjective"
        return -value if rising else value
