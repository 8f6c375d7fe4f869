"""Resolve ``auto`` for estimator, q and update, if a run does not use the automatic descent.

Settings that are not given are chosen to match those that are. The choice is a function of the
configuration, the dimension and the kind of objective, made before anything is evaluated: a resumed
run makes the same choice, and budgets and memory can be planned for it. The required properties of
estimators and updates are in their registries.
"""

from __future__ import annotations

from zotune import blocksizes
from zotune.config import Config
from zotune.core.budget import EVALUATIONS
from zotune.core.differences import get_difference
from zotune.errors import ConfigError
from zotune.estimators import ESTIMATORS
from zotune.methods import BLOCKS, GAUSS_NEWTON, Choice
from zotune.steps import AUTO, LEVEL
from zotune.updates import PLAIN, QUASI_NEWTON, UPDATES, WITH_MOMENTUM

PROJECTION, AVERAGE = "align", "avg"
"""Candidates for the estimator."""


def resolve(
    config: Config, dim: int, *, batches: bool, residuals: bool = False
) -> tuple[Config, tuple[Choice, ...]]:
    """Replace ``auto`` for estimator, q and update; return the configuration and the choices.

    Methods for vectors have none of these settings. On mini-batches and weights the automatic
    method is steps along blocks; for residuals it is Gauss-Newton.

    Args:
        config: the configuration as given.
        dim: dimension of the vector.
        batches: whether every step has another mini-batch.
        residuals: whether the function returns residuals.
    """
    chosen: list[Choice] = []
    if config.replays:
        if not batches and residuals and config.method == AUTO:
            said = Choice("method", GAUSS_NEWTON, "the function returns residuals")
            return config.model_copy(update={"method": GAUSS_NEWTON}), (said,)
        if not batches:
            return config, ()
        if config.method != AUTO:
            raise ConfigError(
                f"method {config.method!r} is for functions of vectors, and this objective has "
                f"weights of a model or mini-batches; leave method out, or give method={BLOCKS!r}"
            )
        config = config.model_copy(update={"method": BLOCKS})
    choosers = {"estimator": _estimator, "q": _block_size, "update": _update}
    for key, chooser in choosers.items():
        if getattr(config, key) == AUTO:
            value, reason = chooser(config, dim, batches)
            config = config.model_copy(update={key: value})
            chosen.append(Choice(key, str(value), reason))
    if config.step == AUTO:
        chosen.append(Choice("step", AUTO, "the values at the next point say how far to go"))
    return config, tuple(chosen)


def _estimator(config: Config, dim: int, batches: bool) -> tuple[str, str]:
    """The projection, unless blocks may have more than d directions or v is clipped."""
    if config.clip is not None:
        return AVERAGE, "clipped differences are not those of one gradient"
    if config.q != AUTO and config.block_rule.most > dim:
        return AVERAGE, f"blocks may have more than d = {dim} directions"
    return PROJECTION, "the most that a block of differences tells of the gradient"


def _block_size(config: Config, dim: int, batches: bool) -> tuple[int, str]:
    estimator, difference = ESTIMATORS[config.estimator], get_difference(config.difference)
    quasi_newton = config.update != AUTO and UPDATES[config.update].needs_gradient
    return blocksizes.choose(
        dim,
        _evaluations(config),
        each=difference.per_direction,
        full=estimator.exact,
        small=estimator.preferred_q,
        several=blocksizes.FEW_BLOCKS if quasi_newton or batches else blocksizes.SEVERAL,
        batches=batches,
    )


def _update(config: Config, dim: int, batches: bool) -> tuple[str, str]:
    """Plain descent; quasi-Newton if full blocks are combined with a line search."""
    if config.momentum:
        return WITH_MOMENTUM, f"momentum is {config.momentum:g}"
    if config.step != AUTO:
        return PLAIN, f"step {config.step} is a step of plain descent"
    if config.schedule != LEVEL or config.warmup:
        return PLAIN, "a schedule is of plain descent"
    measured = ESTIMATORS[config.estimator].exact and config.q == dim and not batches
    if measured and config.clip is None:
        return QUASI_NEWTON, "full blocks measure the gradient itself"
    return PLAIN, "estimates of this size are too noisy for quasi-Newton pairs"


def _evaluations(config: Config) -> int:
    """The budget in evaluations."""
    if config.count == EVALUATIONS:
        return config.budget
    return get_difference(config.difference).per_direction * config.budget
