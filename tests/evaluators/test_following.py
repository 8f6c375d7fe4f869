"""A copy of a run follows it by scalars, and knows when it does not."""

from __future__ import annotations

import torch

from tests.conformance.resuming import on_vectors
from tests.conformance.toys import TOYS, register_toys
from tests.evaluators.test_seam import loop_on_vectors, loop_on_weights
from zotune.evaluators import SERIAL
from zotune.evaluators.dealing import Deal, Pace
from zotune.evaluators.following import Copy, sent
from zotune.evaluators.history import KEPT, NOWHERE, History
from zotune.evaluators.serial import run
from zotune.iterates import Answer, Request
from zotune.loop import Loop


def steps(loop: Loop, history: History, state: object, count: int) -> object:
    """A run that writes its history."""
    lane = loop.lanes[0]

    def answer(request: Request) -> Answer:
        assert request.parts is not None
        parts = request.parts()
        whole = parts.join([parts.evaluate(at) for at in range(parts.count)])
        history.add(sent(whole))
        return whole

    with torch.no_grad():
        for _ in range(count):
            name = "begin" if state is None else "stepping"
            arguments = () if state is None else (state,)
            history.begin(0, name, arguments)
            state = run(getattr(lane, name)(*arguments), answer)
            history.end(state)
    return state


def test_a_copy_that_has_drifted_says_so_and_is_put_right_by_the_state() -> None:
    loop = loop_on_vectors("central", SERIAL)
    history, copy = History(loop), Copy(loop_on_vectors("central", SERIAL))
    state = steps(loop, history, None, 3)
    history.begin(0, "stepping", (state,))
    with torch.no_grad():
        news, position = history.news_for((0, 0), 6)
        assert news.to_join is None
        assert copy.follow(news)
        own = copy._states[0]
        copy._states[0] = own.but(x=own.x * (1 + 1e-15))
        news, _ = history.news_for(position, 6)
        assert not copy.follow(news)
        news, _ = history.news_for(NOWHERE, 6)
        assert news.to_join is not None
        assert copy.follow(news)
        assert torch.equal(copy._states[0].x, state.x)  # type: ignore[attr-defined]


def test_news_have_as_many_numbers_as_the_values_whatever_the_dimension() -> None:
    loop = loop_on_weights("fast", SERIAL)
    history, copy = History(loop), Copy(loop_on_weights("fast", SERIAL))
    state = steps(loop, history, None, 4)
    history.begin(0, "stepping", (state,))
    news, _ = history.news_for((0, 0), 6)
    numbers = [values.size for chapter in news.chapters for values, *_ in chapter.answers]
    assert numbers == [1, 6, 6, 6]
    with torch.no_grad():
        assert copy.follow(news)
    for mine, theirs in zip(
        copy.loop.objective.trained.values(), loop.objective.trained.values(), strict=True
    ):
        assert torch.equal(mine, theirs)


def test_a_copy_that_has_missed_too_much_or_another_run_gets_the_state() -> None:
    loop = loop_on_vectors("central", SERIAL)
    history = History(loop)
    state = steps(loop, history, None, 2)
    history.begin(0, "stepping", (state.but(steps=1),))  # type: ignore[attr-defined]
    assert history.news_for((2, 1), 6)[0].to_join is not None
    for _ in range(KEPT + 2):
        history.begin(0, "begin", ())
    assert history.news_for((0, 0), 6)[0].to_join is not None


def test_a_copy_keeps_to_what_the_run_was_granted() -> None:
    """A limit below the budget shrinks a block; the copy then asks for as many parts."""
    loop = loop_on_vectors("central", SERIAL)
    history, copy = History(loop), Copy(loop_on_vectors("central", SERIAL))
    state = steps(loop, history, None, 2)
    loop.lanes[0].limit_to(5)
    history.begin(0, "stepping", (state,))
    with torch.no_grad():
        assert copy.follow(history.news_for((0, 0), 4)[0])
        assert not copy.follow(history.news_for(NOWHERE, 6)[0])


def test_a_copy_tries_no_more_steps_than_the_run_was_granted() -> None:
    """A search ends where the grant does, in the copy as in the run."""
    register_toys()
    told = {**TOYS["a step that rejects"], "replicates": 1}
    loop = on_vectors(told)
    history, copy = History(loop), Copy(on_vectors(told))
    state = steps(loop, history, None, 1)
    loop.lanes[0].limit_to(6)  # a block of three and two of the four trials
    state = steps(loop, history, state, 1)
    history.begin(0, "ending", (state,))
    with torch.no_grad():
        copy.follow(history.news_for((0, 0), 1)[0])
    assert copy._states[0].ledger == state.ledger  # type: ignore[attr-defined]
    assert state.ledger.evaluations == 6  # type: ignore[attr-defined]


def test_late_parts_are_dealt_again_once_and_found_parts_not_at_all() -> None:
    pace = Pace()
    pace.add(1.0)
    deal = Deal(4, 2, pace)
    assert [deal.take(), deal.take(), deal.take(), deal.take(), deal.take()] == [
        [0],
        [1],
        [2],
        [3],
        [],
    ]
    flying = [(0.0, [0]), (9.0, [1])]
    assert deal.patience(flying, 1.0) == 3.0
    deal.deal_again(flying, 5.0)
    assert deal.take() == [0]
    assert deal.repeated == [0]
    assert deal.patience(flying[:1], 5.0) is None
    deal.add([1], [(torch.ones(1).numpy(), {})], 1.0)
    deal.give_back([1, 2])
    assert deal.take() == [2]


def test_quick_parts_are_dealt_out_evenly_and_slow_ones_singly() -> None:
    quick, slow = Pace(), Pace()
    quick.add(1e-6)
    slow.add(2.0)
    assert len(Deal(32, 2, quick).take()) == 16
    assert len(Deal(32, 2, slow).take()) == 1
    assert len(Deal(32, 2, Pace()).take()) == 1
    assert Pace().patience is None
