"""Importance of searched settings for the final loss, by Optuna if it is installed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from math import isfinite, log
from typing import Any

from zotune.core.ranking import LOSS
from zotune.core.settings import PROBLEM
from zotune.reporting.heat import capped
from zotune.results.configurations import Configuration, measure_of, searched

FEWEST = 8
"""Minimum number of configurations."""


def importances(some: Sequence[Configuration]) -> tuple[dict[str, float], str]:
    """The importance of each searched setting for the final loss, largest first.

    Returns also the name of the method: fANOVA, or PED-ANOVA if scikit-learn is not installed.
    Empty if Optuna is not installed or there are too few configurations; all zero if all values are
    equal.
    """
    keys = [key for key in searched(some) if not key.startswith(PROBLEM)]
    if len(some) < FEWEST or len(keys) < 2 or find_spec("optuna") is None:
        return {}, ""
    values = _values(some)
    if len(set(values)) == 1:  # Optuna raises an error
        return dict.fromkeys(keys, 0.0), ""
    import optuna

    with _quiet():
        study = optuna.create_study()
        kinds = {key: _distribution([one.settings.get(key) for one in some]) for key in keys}
        for one, value in zip(some, values, strict=True):
            params = {key: _plain(one.settings.get(key), kinds[key]) for key in keys}
            study.add_trial(
                optuna.trial.create_trial(params=params, distributions=kinds, value=value)
            )
        exact = find_spec("sklearn") is not None
        evaluator: Any = (
            optuna.importance.FanovaImportanceEvaluator(seed=0, n_trees=_trees(len(some)))
            if exact
            else optuna.importance.PedAnovaImportanceEvaluator()
        )
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    shares = {key: share for key, share in found.items() if isfinite(share)}
    return shares if sum(shares.values()) > 0 else {}, "fANOVA" if exact else "PED-ANOVA"


def _trees(many: int) -> int:
    """Number of trees of the forest: Optuna's 64, fewer if there are many configurations.

    >>> _trees(20), _trees(1000)
    (64, 16)
    """
    return 64 if many <= 250 else 16


def importance_sentence(some: Sequence[Configuration]) -> list[str]:
    """A sentence on the most important setting; empty if not known."""
    shares, method = importances(some)
    if not shares:
        return []
    if not any(shares.values()):
        return [f"All {len(some)} configurations end at the same value: no setting mattered."]
    first, *others = (f"{key} ({share:.0%})" for key, share in shares.items())
    then = f", then {', '.join(others)}" if others else ""
    metric = some[0].aim.metric
    return [
        f"The setting that mattered most for the final {metric} is {first}{then}: shares of how "
        f"{len(some)} configurations differ, by {method} of Optuna."
    ]


def _values(some: Sequence[Configuration]) -> list[float]:
    """Final values limited by the start's, as logarithms if all are positive.

    Those of a metric of the user's own are taken as they are, so that the lowest is the best.
    """
    if (aim := some[0].aim) != LOSS or "loss" not in some[0].points:
        return [aim.cost(one.last(aim.metric)) or 0.0 for one in some]
    values = [capped(one, measure_of(some)) for one in some]
    return [log(value) for value in values] if min(values) > 0 else values


def _distribution(values: Sequence[Any]) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if all(isinstance(value, int | float) for value in values):
        low, high = float(min(values)), float(max(values))
        return FloatDistribution(low, high, log=low > 0)
    return CategoricalDistribution(sorted({str(value) for value in values}))


def _plain(value: Any, kind: Any) -> Any:
    return str(value) if hasattr(kind, "choices") else float(value)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Optuna's log messages about the temporary study."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)
