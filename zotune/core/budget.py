"""Count directions and evaluations, and enforce the budget.

A direction is one uᵢ along which a difference is taken; an evaluation is one call of f. The paper
counts directions, while users pay for evaluations. Both are always counted; ``count`` says which of
them the budget limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from zotune.core.differences import Difference
from zotune.errors import ConfigError, one_of

DIRECTIONS, EVALUATIONS = "directions", "evaluations"
COUNTS = (DIRECTIONS, EVALUATIONS)


@dataclass(frozen=True)
class Ledger:
    """Counters of one replicate."""

    queries: int = 0
    """Directions probed."""
    evaluations: int = 0
    """Calls of f that were charged."""
    monitored: int = 0
    """Evaluations that monitored the loss and were not charged; validation data count by rows."""

    def spent(self, count: str) -> int:
        """The spent budget in the unit of ``count``."""
        return self.queries if count == DIRECTIONS else self.evaluations

    def charge(self, queries: int, evaluations: int) -> Ledger:
        """The ledger after a step or an estimate of curvature."""
        return Ledger(self.queries + queries, self.evaluations + evaluations, self.monitored)

    @classmethod
    def mean(cls, ledgers: Sequence[Ledger]) -> Ledger:
        """The mean of several, rounded down."""
        if len(ledgers) == 1:
            return ledgers[0]
        totals = (sum(each) // len(ledgers) for each in zip(*map(astuple, ledgers), strict=True))
        return cls(*totals)

    def monitor(self, looks: int = 1) -> Ledger:
        """The ledger after uncharged evaluations."""
        return Ledger(self.queries, self.evaluations, self.monitored + looks)


@dataclass(frozen=True)
class Budget:
    """A limit on directions or evaluations that is never overspent.

    >>> from zotune.core.differences import get_difference
    >>> budget = Budget(10, "evaluations", get_difference("forward"))
    >>> budget.block(Ledger(), q=6), budget.block(Ledger(queries=6, evaluations=7), q=6)
    (6, 2)
    """

    limit: int
    count: str
    difference: Difference

    def __post_init__(self) -> None:
        one_of("count", self.count, COUNTS)

    def cost(self, q: int) -> int:
        """The cost of a step with q directions, in the unit of ``count``."""
        return q if self.count == DIRECTIONS else self.difference.evaluations(q)

    def spent(self, ledger: Ledger) -> int:
        """The spent budget."""
        return ledger.spent(self.count)

    def left(self, ledger: Ledger) -> int:
        """The remaining budget."""
        return self.limit - self.spent(ledger)

    def block(self, ledger: Ledger, q: int, *, kept: int = 0, known: bool = False) -> int:
        """The size of the next block: q, or as many as the remaining budget covers, maybe 0.

        Args:
            ledger: what has been spent.
            q: the size that is wanted.
            kept: what has to remain after the block.
            known: whether f(x) is known already, so that it is not charged again.
        """
        left = self.left(ledger) - kept
        if self.count == DIRECTIONS:
            return max(0, min(q, left))
        saved = self.difference.per_step if known else 0
        return max(0, min(q, self.difference.affordable(left + saved)))

    def buys_value(self, ledger: Ledger, *, kept: int = 0) -> bool:
        """Whether one more value of f is within the budget; it is no direction."""
        return self.count == DIRECTIONS or self.left(ledger) > kept

    def require(self, needed: int, what: str) -> None:
        """Raise an error if the budget does not cover the beginning of a run."""
        if self.limit < needed:
            raise ConfigError(
                f"budget must cover {what}: that needs {needed} {self.count}, "
                f"got budget={self.limit}; lower q or raise the budget"
            )
