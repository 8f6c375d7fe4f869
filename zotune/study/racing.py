"""The plan of a race (successive halving): the rungs, and which configurations survive them.

Half of the total budget is for exploration, in equal parts for each rung: first all configurations
run with a small share each, then the better half with twice as much, and so on. The winner gets the
other half and everything that was not needed before.

The automatic descent (``auto``) measures a whole block before it moves, so early rungs would say
nothing about it. It is compared once: the configurations use a quarter of the total to find the
best of them, and the best and ``auto`` run to a final rung with another quarter. This module does
not depend on Ray; the scheduler and the bench use it to make the same decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, isfinite, log2

from zotune.config import CHOICES, REPORTS
from zotune.errors import ConfigError
from zotune.steps import AUTO

EXPLORING = 2
"""1 / EXPLORING of the total is for finding the winner."""
HEAD_START = 2.0
"""Factor by which a configuration's decrease must exceed that of ``auto`` to win the final.

``auto`` measures whole blocks before it moves, and decreases faster afterwards.
"""
AUTO_SETTINGS = dict.fromkeys(CHOICES, AUTO)
"""Settings of the automatic descent."""


@dataclass(frozen=True)
class RacePlan:
    """The rungs of a race."""

    every: int
    """Spent budget between two reports; all rungs are multiples of it."""
    rungs: tuple[int, ...]
    """Spent budgets at which the worse half ends; empty for a single configuration."""
    racing: tuple[int, ...]
    """How many configurations run up to each rung, without ``auto``."""
    auto: int | None = None
    """The budget of the automatic descent; None: it does not take part.

    It plans with its whole budget, so this is the least that the winner gets.
    """

    @property
    def final(self) -> int | None:
        """The rung at which the best configuration is compared with ``auto``."""
        return None if self.auto is None else len(self.rungs) - 1

    def kept(self, rung: int) -> int:
        """How many configurations continue after a rung."""
        return self.racing[rung + 1] if rung + 1 < len(self.racing) else 1


def plan_race(
    total: int,
    racers: int,
    *,
    step: int = 1,
    first: int | None = None,
    every: int | None = None,
    auto: bool = False,
) -> RacePlan:
    """The rungs for a total, of one replicate.

    Args:
        total: the total budget of all configurations.
        racers: the number of configurations.
        step: maximum cost of one step of any of them.
        first: maximum cost of the first step of any of them, if curvature is probed before it;
            the first rung is no earlier. Default: ``step``.
        every: spent budget between two reports; default: the first rung.
        auto: whether the automatic descent takes part.

    >>> plan_race(4800, 8)
    RacePlan(every=100, rungs=(100, 300, 700), racing=(8, 4, 2), auto=None)
    >>> plan_race(4800, 8, auto=True)
    RacePlan(every=50, rungs=(50, 150, 350, 750), racing=(8, 4, 2, 1), auto=3200)
    """
    first = max(step, first or step)
    found = _halving(total // EXPLORING if auto else total, racers, step, first, every)
    if auto:
        found = _with_final(found, total, racers, step)
    needed = _cost(found) + racers * step + (found.rungs[-1] if auto else 0)
    if needed > total:
        raise ConfigError(
            f"a race of {racers} configurations needs a total of at least {needed} for each "
            f"replicate, got {total}: every one takes a step of up to {step}; raise total, lower "
            "q or report_every, or race fewer"
        )
    return found


def _halving(total: int, racers: int, step: int, first: int, every: int | None) -> RacePlan:
    """Rungs that take half of this total, with half of the configurations dropped at each.

    If first steps cost more than their share, later rungs get less or are left out; then more than
    half of the configurations may be dropped at the first rung.
    """
    racing = _racing(racers)
    if not racing:
        return RacePlan(every or max(1, total // REPORTS), (), ())
    exploring = total // EXPLORING
    share = exploring // len(racing)
    every = every or max(1, share // racers, step if share // racers < step else 1)
    at = every * max(1, share // racers // every)
    at = every * -(-max(at, first) // every)
    left, later = exploring - racers * at, list(racing[1:])
    while later and left // len(later) < later[0] * every:  # too little is left for this rung
        del later[0]
    rungs = [at]
    for running in later:
        at += every * max(1, min(share, left // len(later)) // running // every)
        rungs.append(at)
    return RacePlan(every, tuple(rungs), (racers, *later))


def _with_final(plan: RacePlan, total: int, racers: int, step: int) -> RacePlan:
    """The plan with a last rung for its winner and ``auto``; half of the total is left by then."""
    last = plan.rungs[-1] if plan.rungs else 0
    final = (total // EXPLORING - _cost(plan) + last) // 2 // plan.every * plan.every
    final = max(final, last + plan.every)
    with_final = RacePlan(plan.every, (*plan.rungs, final), (*plan.racing, 1))
    return RacePlan(
        with_final.every,
        with_final.rungs,
        with_final.racing,
        auto=total - _cost(with_final) - racers * (step - 1),
    )


def _racing(racers: int) -> tuple[int, ...]:
    """How many run up to each rung: all, the better half, …, two."""
    rungs = ceil(log2(racers)) if racers > 1 else 0
    return tuple(-(-racers // 2**rung) for rung in range(rungs))


def _cost(plan: RacePlan) -> int:
    """Total budget up to the last rung, without steps that go past a rung."""
    before = (0, *plan.rungs[:-1])
    shares = (at - earlier for at, earlier in zip(plan.rungs, before, strict=False))
    return sum(n * share for n, share in zip(plan.racing, shares, strict=True))


def survivors(losses: Mapping[str, float], kept: int) -> list[str]:
    """The configurations with the lowest losses; ties are broken by name.

    The result does not depend on the speed of trials or the order of reports.

    >>> survivors({"c": 1.0, "a": float("nan"), "b": 1.0, "d": 0.5}, 2)
    ['d', 'b']
    """
    ranked = sorted(losses, key=lambda name: (_rank(losses[name]), name))
    return ranked[:kept]


def with_head_start(loss: float, start: float) -> float:
    """The loss by which ``auto`` is compared at the final.

    >>> with_head_start(7.0, start=10.0)
    4.0
    """
    return start - HEAD_START * (start - loss)


def _rank(loss: float) -> float:
    return loss if isfinite(loss) else inf
