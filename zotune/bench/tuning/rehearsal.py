"""A race in this process, without Ray, with the same decisions as the study's scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zotune.config import Config
from zotune.core.account import Account
from zotune.core.names import DIVERGED, RUNNING
from zotune.core.state import State
from zotune.loop import Loop
from zotune.loop.joining import joined
from zotune.study.racing import RacePlan, survivors, with_head_start
from zotune.study.reserving import reserve_next


@dataclass
class Racer:
    """One configuration and its progress."""

    name: str
    loop: Loop
    state: State | None = None
    row: Mapping[str, Any] | None = None

    @property
    def running(self) -> bool:
        """Whether it can go on."""
        return self.row is None or self.row["status"] == RUNNING

    @property
    def loss(self) -> float:
        """The last loss; infinite where it has diverged."""
        lost = self.row is None or self.row["status"] == DIVERGED
        return float("inf") if lost or self.row is None else float(self.row["loss"])

    @property
    def loss_ahead(self) -> float:
        """The loss with the head start that ``auto`` has at the final."""
        if self.state is None:
            return self.loss
        return with_head_start(self.loss, self.loop.facts(self.state)["start_loss"])

    @property
    def best_loss(self) -> float:
        """The lowest loss, the mean over replicates; infinite before the first report."""
        return float("inf") if self.row is None else float(self.row["best_loss"])

    @property
    def position(self) -> int:
        """Total budget spent by its replicates."""
        return 0 if self.state is None else self.loop.charged(self.state)


@dataclass(frozen=True)
class Raced:
    """The result of a race."""

    account: Account
    racers: Mapping[str, Racer]
    winner: Racer

    @property
    def best_loss(self) -> float:
        """The lowest loss of the whole race."""
        return min(racer.best_loss for racer in self.racers.values())


def race(configs: Sequence[Config], objective: Any, plan: RacePlan, total: int) -> Raced:
    """Race configurations on one objective, as ``search: {algorithm: race}`` does.

    Args:
        configs: one for each racer, in the order of the study's trials; where the plan has
            ``auto``, the last one chooses everything by itself.
        objective: what they minimise.
        plan: the rungs.
        total: what all replicates of all racers may spend together.
    """
    account = Account(limit=total)
    racers = {f"{at:05d}": Racer(f"{at:05d}", Loop(c, objective)) for at, c in enumerate(configs)}
    left = list(racers)
    auto = [] if plan.final is None else [left.pop()]
    for rung, goal in enumerate(plan.rungs):
        left += auto if rung == plan.final else []
        for name in left:
            _run(account, racers[name], goal)
        losses = {name: racers[name].loss for name in left}
        losses |= {name: racers[name].loss_ahead for name in auto if name in left}
        left = survivors(losses, plan.kept(rung))
    winner = racers[left[0]]
    for racer in racers.values():
        if racer is not winner:
            account.release(racer.name)
    _send_to_best_point(winner, racers)
    _run(account, winner, None)
    return Raced(account, racers, winner)


def _send_to_best_point(winner: Racer, racers: Mapping[str, Racer]) -> None:
    """Let the winner continue from the point with the lowest loss of any racer."""
    (best,) = survivors({name: racer.best_loss for name, racer in racers.items()}, 1)
    donor = racers[best].state
    if winner.state is not None and donor is not None and racers[best] is not winner:
        winner.state = joined(winner.loop, winner.state, donor)


def _run(account: Account, racer: Racer, goal: int | None) -> None:
    """Continue to a rung, or to the end of the remaining budget."""
    while racer.running and (goal is None or racer.row is None or racer.row["spent"] < goal):
        if not advance(account, racer):
            return


def advance(account: Account, racer: Racer) -> bool:
    """Advance by one report, if budget for it can be reserved."""
    loop, before = racer.loop, racer.position
    if not reserve_next(account, racer.name, loop.config, before, fresh=racer.state is None):
        return False
    entry = account.of(racer.name)
    loop.limit_to(entry.may_reach if entry.last else None)
    state = loop.init() if racer.state is None else racer.state
    racer.state, racer.row = loop.report(loop.advance_to_report(state))
    account.report(racer.name, before, racer.position)
    return True
