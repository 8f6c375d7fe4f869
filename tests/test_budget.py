"""Queries are counted in one place and never overspent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotune.core.budget import COUNTS, Budget, Ledger
from zotune.core.differences import DIFFERENCES, get_difference
from zotune.errors import ConfigError, UnknownNameError


@given(
    limit=st.integers(1, 500),
    q=st.integers(1, 60),
    count=st.sampled_from(COUNTS),
    difference=st.sampled_from(sorted(DIFFERENCES)),
)
def test_blocks_add_up_to_the_limit_or_to_a_rest_too_small_for_a_direction(
    limit: int, q: int, count: str, difference: str
) -> None:
    budget = Budget(limit, count, get_difference(difference))
    ledger, sizes = Ledger(), []
    while size := budget.block(ledger, q):
        ledger = ledger.charge(size, budget.difference.evaluations(size))
        sizes.append(size)
    rest = limit - budget.spent(ledger)
    assert 0 <= rest < budget.cost(1)
    assert all(size == q for size in sizes[:-1])
    assert ledger.queries == sum(sizes)


@pytest.mark.parametrize(("difference", "cost"), [("forward", [2, 3, 11]), ("central", [2, 4, 20])])
def test_evaluations_of_a_step(difference: str, cost: list[int]) -> None:
    assert [get_difference(difference).evaluations(q) for q in (1, 2, 10)] == cost


def test_looking_at_the_loss_is_counted_apart() -> None:
    ledger = Ledger().charge(3, 4).monitor()
    assert ledger == Ledger(queries=3, evaluations=4, monitored=1)


def test_a_budget_below_one_step_says_what_it_needs() -> None:
    budget = Budget(10, "evaluations", get_difference("central"))
    message = (
        r"budget must cover one step \(central with q=8\): that needs 16 evaluations, "
        r"got budget=10; lower q or raise the budget"
    )
    with pytest.raises(ConfigError, match=message):
        budget.require(budget.cost(8), "one step (central with q=8)")


def test_an_unknown_way_of_counting_offers_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"count 'evaluation' is not known \(did you mean"):
        Budget(10, "evaluation", get_difference("forward"))
