"""What ``auto`` becomes where a run does not leave everything to the descent.

The choice is a function of the configuration, the dimension and the kind of objective, made before
anything is evaluated: a resumed run makes it again, and budgets and memory can be planned for it.
"""

from __future__ import annotations

from zotune import blocksizes
from zotune.config import Config
from zotune.core.budget import EVALUATIONS
from zotune.core.differences import get_difference
from zotune.steps import AUTO

Reasons = dict[str, str]
"""Setting → what it became, and why."""


def resolve(config: Config, dim: int, *, batches: bool) -> tuple[Config, Reasons]:
    """The configuration without ``auto`` for estimator, q and update, and what was chosen.

    A run that leaves all of them to the descent stays as it is, unless its objective draws
    mini-batches, for which the descent has no use.

    Args:
        config: as asked for.
        dim: of the vector.
        batches: whether every step sees another function.
    """
    if config.chooses and not batches:
        return config, {}
    chosen, why = dict[str, object](), Reasons()
    if config.estimator == AUTO or config.chooses:
        chosen["estimator"] = "align"
        why["estimator"] = "align: the most that a block of differences tells of the gradient"
    estimator = str(chosen.get("estimator", config.estimator))
    if config.q == AUTO or config.chooses:
        chosen["q"], reason = blocksizes.choose(
            dim, _evaluations(config), full=estimator.startswith("align") and not batches
        )
        why["q"] = f"{chosen['q']}: {reason}"
    if config.update == AUTO:
        q = chosen.get("q", config.q)
        full = estimator == "align" and q == dim and not batches
        chosen["update"] = "lbfgs" if full else "sgd"
        why["update"] = (
            "lbfgs: full blocks measure the gradient itself"
            if full
            else "sgd: estimates of this size are too noisy for quasi-Newton pairs"
        )
    return (config.model_copy(update=chosen) if chosen else config), why


def _evaluations(config: Config) -> int:
    """What the budget covers, in evaluations."""
    if config.count == EVALUATIONS:
        return config.budget
    return get_difference(config.difference).per_direction * config.budget
