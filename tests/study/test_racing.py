"""Shares and reservations, without Ray: never more than the total, and nobody judged too early."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import zotune
from tests.instrument import parse_config, plain_study
from zotune import config as of_zotune
from zotune.bench.tuning.rehearsal import race
from zotune.core.account import Account, Entry, spent_in
from zotune.core.names import ACCOUNT_FILE, RUNNING
from zotune.errors import ConfigError
from zotune.loop import Loop
from zotune.loop.joining import joined
from zotune.objectives import build_any_problem
from zotune.study.racing import plan_race, survivors, with_head_start
from zotune.study.reserving import reach, reserve_next, upto
from zotune.study.totals import hints, plan_of_race

MODEL = {"name": "language-model", "model": "tiny-qwen3", "dataset": "made-reviews"}
RACE: dict[str, Any] = {
    "name": "race",
    "problem": {"name": "quadratic", "dim": 12},
    "total": 1203,
    "replicates": 2,
    "space": {"estimator": ["avg", "align"], "eta": [0.5, 2]},
    "search": {"algorithm": "race"},
}


@given(st.integers(1, 10**6), st.integers(2, 100), st.integers(1, 300), st.booleans())
def test_a_plan_fits_into_its_total_and_lets_everybody_step_before_the_first_rung(
    total: int, racers: int, step: int, auto: bool
) -> None:
    try:
        found = plan_race(total, racers, step=step, auto=auto)
    except ConfigError:
        assume(False)
    shares = [b - a for a, b in zip((0, *found.rungs[:-1]), found.rungs, strict=True)]
    spent = sum(n * share for n, share in zip(found.racing, shares, strict=True))
    assert spent + racers * step <= total
    if auto:
        assert found.auto is not None
        assert found.rungs[-1] <= found.auto <= total - spent - racers * (step - 1)
        smallest = found.every == step  # shares of a step each may take more than a half
        assert smallest or found.auto + racers * step >= total // 2
    assert all(share > 0 for share in shares)
    assert all(at % found.every == 0 for at in found.rungs)
    assert found.rungs[0] >= step
    assert found.kept(len(found.racing) - 1) == 1


def test_first_steps_that_take_the_part_of_the_rungs_leave_later_ones_out() -> None:
    dear = plan_race(800, 8, step=9, first=27, auto=True)
    assert (dear.rungs[0], dear.racing) == (27, (8, 1))
    assert [dear.kept(rung) for rung in range(2)] == [1, 1]
    cheap = plan_race(800, 8, step=9, auto=True)
    assert cheap.racing == (8, 4, 2, 1)
    assert dear.auto is not None
    assert dear.auto >= 800 // 2


def test_the_winner_has_half_of_the_total_to_itself() -> None:
    found = plan_race(4800, 8)
    others = sum(found.rungs[rung] * (n - found.kept(rung)) for rung, n in enumerate(found.racing))
    assert 4800 - others >= 2400


@given(st.dictionaries(st.text("abc", max_size=3), st.floats(), min_size=1), st.randoms())
def test_who_survives_does_not_depend_on_who_reported_first(
    losses: dict[str, float], random: Any
) -> None:
    shuffled = list(losses.items())
    random.shuffle(shuffled)
    assert survivors(dict(shuffled), 2) == survivors(losses, 2)


@given(
    q=st.integers(1, 9),
    every=st.integers(1, 40),
    budget=st.integers(30, 120),
    count=st.sampled_from(["directions", "evaluations"]),
    difference=st.sampled_from(["forward", "central"]),
    known=st.booleans(),
)
def test_no_report_is_further_than_what_was_reserved_for_it(
    q: int, every: int, budget: int, count: str, difference: str, known: bool
) -> None:
    """With L known what is reserved is exactly what is spent, where looks are not charged."""
    smoothness = 2.0 if known else None
    bowl = zotune.objective(lambda x: ((x - 1) ** 2).sum(), 9, L=smoothness, cheap=True)
    settings = {"q": q, "report_every": every, "budget": budget, "count": count}
    config = parse_config({**settings, "difference": difference, "replicates": 2})
    loop = Loop(config, bowl)
    position, most = 0, upto(config, 0, fresh=True)
    state = loop.init()
    while loop.status(state) == RUNNING:
        state = loop.advance_to_report(state)
        assert position < loop.charged(state) <= most
        if known and position:
            assert loop.charged(state) in (most, most - 2)  # a last evaluation buys nothing
        position = loop.charged(state)
        most = upto(config, position)


def test_a_trial_that_chooses_by_itself_reserves_its_whole_budget() -> None:
    config = of_zotune.parse_config({"budget": 500})
    assert reach(config, 31) == 500


def test_what_is_reported_again_after_a_kill_is_repeated_and_not_charged() -> None:
    entry = Entry()
    for start, end in ((0, 10), (10, 21), (0, 10), (10, 21), (21, 30)):
        entry.report(start, end, monitored=1)
    assert (entry.charged, entry.repeated) == (30, 21)


def test_an_account_is_read_as_it_was_written_even_if_its_last_line_is_torn(tmp_path: Path) -> None:
    account = Account(tmp_path / ACCOUNT_FILE)
    account.set_limit(100)
    account.add_trial("a", "same", [])
    assert account.reserve("a", 40)
    assert account.reserve("b", 60)
    assert not account.reserve("c", 1)
    account.report("a", 0, 35, monitored=2)
    account.rung("a", 0, float("inf"))
    with (tmp_path / ACCOUNT_FILE).open("ab") as file:
        file.write(b'{"trial": "a", "from": 35')
    again = Account(tmp_path / ACCOUNT_FILE)
    assert again.entries == account.entries
    assert (again.left, again.limit) == (5, 100)
    again.report("a", 35, 40)
    assert spent_in(tmp_path).charged == 40
    assert spent_in(tmp_path).left == 60


def test_a_trial_that_tune_has_lost_hands_its_entry_to_its_like() -> None:
    account = Account(limit=100)
    account.add_trial("old_0", "same", ["old_0"])
    account.reserve("old_0", 30)
    account.report("old_0", 0, 20)
    account.add_trial("new_0", "same", ["new_0"])
    account.report("new_0", 10, 20)
    account.report("new_0", 20, 30)
    assert (account.charged, account.spending.repeated, list(account.entries)) == (
        30,
        10,
        ["new_0"],
    )


def test_a_trial_that_repeats_reports_after_a_kill_ends_where_the_total_is_spent() -> None:
    uneven = {"estimator": "avg", "q": 4, "update": "sgd", "step": "auto", "replicates": 2}
    config = parse_config({**uneven, "budget": 3000})
    account, ends = Account(limit=1200), [0, 380, 752, 1124]
    for start, end in pairwise(ends):
        assert reserve_next(account, "a", config, start, fresh=not start)
        account.report("a", start, end)
    assert not reserve_next(account, "a", config, ends[-1])
    for start, end in pairwise(ends):  # from its start, as it was killed
        assert reserve_next(account, "a", config, start, fresh=not start)
        account.report("a", start, end)
    assert not reserve_next(account, "a", config, ends[-1])
    assert (account.charged, account.spending.reserved) == (ends[-1], 0)


def test_what_an_earlier_launch_has_spent_of_a_trial_is_not_reserved_again() -> None:
    config = parse_config({"estimator": "avg", "q": 4, "L": 2.0, "budget": 3000})
    account = Account(limit=400)
    account.begin("a", 2000)
    assert reserve_next(account, "a", config, 2000, fresh=True)
    assert account.spending.reserved == upto(config, 2000) - 2000


def test_a_trial_that_a_kill_takes_back_behind_a_change_pays_for_what_it_spends() -> None:
    config = parse_config({"estimator": "avg", "q": 4, "L": 2.0, "budget": 3000})
    account = Account(limit=600)
    account.report("a", 0, 600)
    account.move("a", 1500)  # to the checkpoint of a better one, which Tune has forgotten
    account.begin("a", 600)
    assert not reserve_next(account, "a", config, 600, fresh=True)


def test_a_race_in_process_spends_its_total_and_no_more() -> None:
    study = plain_study(**RACE)
    configs = [study.configuration(point) for point in study.trials]
    problem = build_any_problem(study.config["problem"])
    raced = race(configs, problem, plan_of_race(study), 1203)
    assert raced.account.charged <= 1203
    assert raced.winner.loss == min(racer.loss for racer in raced.racers.values())
    spent = sorted(racer.position for racer in raced.racers.values())
    assert raced.winner.position == spent[-1] > 1202 / 2


def test_a_race_without_auto_spends_its_total_to_the_last_step() -> None:
    study = plain_study(**RACE | {"search": {"algorithm": "race", "auto": False}})
    configs = [study.configuration(point) for point in study.trials]
    problem = build_any_problem(study.config["problem"])
    raced = race(configs, problem, plan_of_race(study), 1203)
    assert raced.account.charged == 1202  # two replicates spend alike


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total": None}, r"shares one total among its configurations; give total: N"),
        ({"total": 4}, r"a race of 4 configurations needs a total of at least 8"),
        ({"scheduler": "asha"}, r"a race is its own scheduler; leave asha out"),
        ({"replicates_as": "trials"}, r"a race compares configurations whole; use rows"),
        ({"search": {"algorithm": "grid"}, "budget": 160, "total": 9}, r"that needs 20 directions"),
        ({"search": {"algorithm": "grid"}, "budget": 9, "total": "x"}, r"total must be a number"),
    ],
)
def test_a_total_that_cannot_be_is_refused_in_one_line(
    changes: dict[str, Any], message: str
) -> None:
    settings = {key: v for key, v in (RACE | {"budget": 600} | changes).items() if v is not None}
    with pytest.raises(ConfigError, match=message) as refused:
        plain_study(**settings)
    assert "\n" not in str(refused.value)


def test_the_winner_goes_on_from_the_best_point_of_all_with_what_it_has_spent_itself() -> None:
    bowl = zotune.objective(lambda x: ((x - 1) ** 2).sum(), 9, L=2.0)
    settings = {"budget": 60, "replicates": 2, "count": "evaluations"}
    loop = Loop(parse_config({**settings, "update": "nesterov", "step": "theory"}), bowl)
    behind = loop.advance(loop.init(), 20)
    ahead = Loop(parse_config(settings), bowl)
    best = ahead.advance(ahead.init(), 50)
    state = joined(loop, behind, best)
    assert torch.equal(state.x, best.best_x)
    assert torch.equal(state.loss, best.best_loss)
    assert (state.ledger, state.steps, len(state.curve)) == (
        behind.ledger,
        behind.steps,
        len(behind.curve),
    )
    assert not any(bool(slot.any()) for slot in state.lanes[0].slots.values())
    assert float(loop.advance(state).best_loss.max()) <= float(best.best_loss.max())
    assert joined(ahead, best, behind) == best  # nobody goes back


@pytest.mark.parametrize(
    "changes",
    [
        {"search": {"algorithm": "race", "auto": False}},
        {"problem": MODEL, "replicates": 1, "fixed": {"L": 1}},
        {"total": 16},
        {"space": {"problem.seed": [0, 1]}, "fixed": {"q": 2}},
    ],
)
def test_configurations_race_alone_where_auto_cannot_join(changes: dict[str, Any]) -> None:
    study = plain_study(**RACE | changes)
    assert not any(study.configuration(point).method == "auto" for point in study.trials)
    assert plan_of_race(study).auto is None


def test_auto_joins_a_race_on_mini_batches() -> None:
    study = plain_study(**RACE | {"problem": {"name": "stochastic-logistic", "dim": 12}})
    assert study.configuration(study.trials[-1]).method == "auto"


def test_auto_wins_the_final_unless_a_configuration_is_twice_as_far_below_the_start() -> None:
    ahead = {"auto": with_head_start(7.0, start=10.0)}
    assert survivors({"best": 4.5, **ahead}, 1) == ["auto"]
    assert survivors({"best": 3.5, **ahead}, 1) == ["best"]
    assert with_head_start(12.0, start=10.0) == 14.0  # nothing is given to one that has risen


def test_auto_joins_a_race_with_the_budget_that_a_winner_has_at_least() -> None:
    study = plain_study(**RACE)
    config = study.configuration(study.trials[-1])
    assert config.method == "auto"
    assert config.budget == plan_of_race(study).auto


@pytest.mark.parametrize(
    "settings", [{"step": "auto"}, {"q": {"rule": "growth", "most": 12}}, {"q": "auto"}]
)
def test_steps_that_depend_on_values_reserve_the_most_that_they_can_take(
    settings: dict[str, Any],
) -> None:
    problem = {"name": "quadratic", "dim": 12}
    base = {"problem": problem, "budget": 400, "report_every": 20, "count": "evaluations"}
    config = parse_config({**base, "update": "sgd", "estimator": "align", **settings})
    loop = Loop(config, build_any_problem(problem))
    position, most, state = 0, upto(config, 0, fresh=True), loop.init()
    assert most < 400
    while loop.status(state) == RUNNING:
        state = loop.advance_to_report(state)
        assert position < loop.charged(state) <= most
        position = loop.charged(state)
        most = upto(config, position)


@pytest.mark.parametrize("limit", [22, 23, 24])
def test_a_plain_run_that_is_told_its_end_between_two_points_of_its_curve_shrinks_its_last_block(
    limit: int,
) -> None:
    plain = {"estimator": "align", "q": 4, "update": "sgd", "step": "theory", "budget": 3000}
    loop = Loop(parse_config(plain), build_any_problem({"name": "quadratic", "dim": 12}))
    state = loop.init()
    loop.limit_to(limit)
    assert loop.charged(loop.advance_to_report(state)) == limit


def test_a_run_with_a_line_search_ends_where_it_was_told() -> None:
    settings = {"budget": 400, "step": "auto", "update": "sgd", "count": "evaluations", "q": 4}
    loop = Loop(parse_config(settings), build_any_problem({"name": "quadratic", "dim": 12}))
    loop.limit_to(57)
    assert 50 < loop.charged(loop.advance(loop.init())) <= 57


def test_a_race_needs_no_budget_and_reports_at_its_first_share() -> None:
    study = plain_study(**RACE)
    assert (study.budget, study.reports_at) == (601, plan_of_race(study).rungs[0])


def test_asha_over_several_q_suggests_within() -> None:
    settings = {**RACE, "search": {"algorithm": "grid"}, "budget": 100, "scheduler": "asha"}
    study = plain_study(**settings | {"space": {"q": [1, 5], "eta": [1, 2]}})
    assert "within: [q]" in hints(study)[0]
    assert not hints(plain_study(**study.to_dict() | {"within": ["q"]}))
    assert not hints(plain_study(**settings))
