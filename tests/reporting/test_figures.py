"""Figures show the series, differ without colour, and say what bands and bounds are."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import zotune
from tests.instrument import minimize
from tests.reporting.conftest import PROBLEM, series_of
from zotune.reporting import figures
from zotune.reporting.axes import name_axes
from zotune.reporting.bounds import NoBoundError, bound_of, bounds_of, notes_on
from zotune.reporting.choosing_figures import drawings
from zotune.reporting.footnotes import Footnotes
from zotune.reporting.heat import heat_map
from zotune.reporting.importance import importance_sentence, importances
from zotune.reporting.page import Section, Table, markdown, page
from zotune.reporting.price import best_so_far
from zotune.results.checkpoints import from_run
from zotune.results.configurations import Configuration, best, by_problem, configurations
from zotune.results.trial import Course, Trial

STOCHASTIC = {"name": "stochastic-logistic", "dim": 10, "samples": 60, "batch": 8}


def lines_of(axis: Any, *, dashed: bool = False) -> list[Any]:
    return [line for line in axis.lines if (line.get_linestyle() == "--") is dashed]


def test_curves_have_a_panel_an_estimator_a_logarithmic_axis_and_the_values_of_the_series() -> None:
    series = series_of(PROBLEM)
    drawing = figures.curves(series)
    axes = drawing.figure.axes
    assert [axis.get_title() for axis in axes] == ["avg", "align"]
    assert axes[0].get_yscale() == "log"
    assert axes[0].get_xlim()[1] >= 200
    drawn = [line.get_xydata() for axis in axes for line in lines_of(axis)]
    for points, one in zip(drawn, series, strict=True):
        assert points.tolist() == one.points[["spent", "gap"]].to_numpy().tolist()
    assert list(drawing.legend) == ["q = 1", "q = 10"]
    assert "standard deviation over 4 replicates" in drawing.notes[-1]


def test_curves_of_different_q_differ_in_marker_and_in_grey() -> None:
    axis = figures.curves(series_of(PROBLEM, q=(1, 2, 5, 10))).figure.axes[0]
    lines = lines_of(axis)
    assert len({line.get_marker() for line in lines}) == 4
    grey = [float(np.dot(to_rgb(line.get_color()), (0.299, 0.587, 0.114))) for line in lines]
    assert np.diff(grey).min() > 0.1


def test_a_gap_that_is_not_known_and_a_loss_below_zero_are_drawn_on_a_linear_axis() -> None:
    unknown = zotune.objective(lambda x: (x**2).sum() - 5, dim=4, L=2.0)
    run = minimize(unknown, x0=[1.0] * 4, q=2, budget=40)
    drawing = figures.curves([Configuration((from_run(run),))])
    assert drawing.figure.axes[0].get_yscale() == "linear"
    assert drawing.title.startswith("f(x) against")
    assert "run once" in drawing.notes[-1]


def test_more_curves_than_can_be_told_apart_are_left_out_and_that_is_said() -> None:
    series = series_of(PROBLEM, q=range(1, 11), budget=40)
    drawing = figures.curves(series)
    assert len(lines_of(drawing.figure.axes[0])) == figures.MOST
    assert drawing.notes[0] == "avg: the 8 lowest of 10 curves are drawn; curves.csv has all."


@pytest.mark.parametrize(
    ("problem", "settings", "measure"),
    [
        (PROBLEM, {}, "gap"),
        ({"name": "logistic", "dim": 10, "samples": 30}, {}, "gap"),
        ({"name": "rosenbrock", "dim": 10}, {}, "grad_norm2"),
        (STOCHASTIC, {"step": "sqrt-decay", "eta": 0.001}, "average_gap"),
    ],
)
def test_bounds_of_every_regime_lie_above_what_they_bound(
    problem: Any, settings: dict[str, Any], measure: str
) -> None:
    for series in series_of(problem, q=(1, 5, 10), budget=400, replicates=8, **settings):
        bound = bound_of(series)
        assert bound.measure == measure
        assert bound.spent[-1] == 400
        values = figures.values_of(series, measure)
        measured = np.interp(bound.spent, series.points["spent"], values)
        assert (np.array(bound.values) >= measured).all()


def test_a_bound_is_dashed_beside_its_curve_and_one_for_all_where_all_are_one() -> None:
    series = series_of(PROBLEM)
    bounds, reasons = bounds_of(series)
    assert not reasons
    avg, align = figures.curves(series, bounds=bounds).figure.axes
    dashed = lines_of(avg, dashed=True)
    assert [line.get_ydata()[-1] for line in dashed] == [bounds[0].values[-1], bounds[1].values[-1]]
    assert [line.get_color() for line in dashed] == [line.get_color() for line in lines_of(avg)]
    logistic = series_of({"name": "logistic", "dim": 10, "samples": 30}, budget=2000)
    align = figures.curves(logistic, bounds=bounds_of(logistic)[0]).figure.axes[1]
    assert [line.get_color() for line in lines_of(align, dashed=True)] == ["black"]


def test_a_bound_takes_the_start_from_the_records_and_calls_no_function_of_the_user() -> None:
    calls = []

    def bowl(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x.square().sum()

    @zotune.objectives.register("counted-bowl")
    def counted_bowl(dim: int = 4) -> zotune.Objective:
        made = zotune.objective(bowl, dim, L=2.0, optimum=0.0, start=torch.ones(dim))
        made.gamma = 2.0
        return made

    run = minimize({"name": "counted-bowl"}, q=2, budget=40)
    before = len(calls)
    bound = bound_of(Configuration((from_run(run),)))
    assert before == len(calls) > 40
    assert bound.values[0] < run.rows[0]["gap"]


def test_a_bound_that_says_nothing_is_called_so() -> None:
    series = series_of({"name": "quadratic", "dim": 20}, q=(1, 20))
    bounds, _ = bounds_of(series)
    assert "a flat line, true and of no use here" in notes_on(series, bounds)[-1]
    assert "because L/γ = " in notes_on(series, bounds)[-1]
    early = series_of({"name": "logistic", "dim": 10, "samples": 30}, q=(1,), budget=12)
    drawing = figures.curves(early, bounds=bounds_of(early)[0])
    assert "above everything that is drawn" in drawing.notes[0]
    assert "theory bound" not in drawing.legend


@pytest.mark.parametrize(
    ("problem", "settings", "reason"),
    [
        (PROBLEM, {"eta": 2.0}, "step size of the theory"),
        (PROBLEM, {"step": "constant", "eta": 0.01}, "step size of the theory"),
        (PROBLEM, {"L": 1.0}, "needs L ≥ 5"),
        (STOCHASTIC, {"step": "sqrt-decay", "eta": 10.0}, "holds for 0 < eta0 ≤"),
        (STOCHASTIC, {}, "eta/√"),
        (zotune.objective(lambda x: (x**2).sum(), dim=3, L=2.0), {}, "f* is not known"),
        ({"name": "simulator", "dim": 3, "seconds": 0.0}, {}, "about grad_norm2, which"),
        (
            zotune.objective(lambda x: (x**2).sum(), dim=3, L=2.0, optimum=0.0, name="mine"),
            {},
            "not one of zotune's problems, and whether it is convex is not recorded (its L is: 2)",
        ),
        (
            zotune.objective(lambda x: (x**2).sum(), dim=3, optimum=0.0, name="mine"),
            {"L": 2.0},
            "not one of zotune's problems, and whether it is convex is not recorded (its L is: 2)",
        ),
        (
            zotune.objective(lambda x: (x**2).sum(), dim=3, optimum=0.0, name="mine"),
            {},
            "not one of zotune's problems, and its L is only estimated",
        ),
    ],
)
def test_where_there_is_no_bound_the_reason_is_in_plain_words(
    problem: Any, settings: dict[str, Any], reason: str
) -> None:
    series = Configuration((from_run(minimize(problem, q=1, budget=20, **settings)),))
    with pytest.raises(NoBoundError) as refused:
        bound_of(series)
    assert reason in str(refused.value)


def test_final_losses_stand_at_their_q_with_bars_of_their_spread() -> None:
    series = series_of(PROBLEM)
    axis = figures.final(series).figure.axes[0]
    ends = [one.last("gap") for one in series]
    drawn = [y for line in axis.lines[:1] for y in line.get_ydata()]
    assert drawn == ends[:2]
    assert axis.get_xscale() == "log"
    bars = axis.containers[0].lines[2][0].get_segments()
    spread = series[1].last("loss_std")
    assert bars[1][1][1] - ends[1] == pytest.approx(spread)


def test_a_run_whose_last_evaluation_buys_no_step_has_spent_its_budget() -> None:
    central = minimize(PROBLEM, budget=41, count="evaluations", q=2, difference="central")
    (series,) = configurations([from_run(central)])
    assert (series.spent, series.status) == (40, "exhausted")
    assert not any("not spent" in note for note in figures.final([series]).notes)


def tuned() -> list[Configuration]:
    return [one for eta in (0.5, 1.0, 2.0) for one in series_of(PROBLEM, eta=eta)]


def test_the_best_step_of_each_q_is_the_one_with_the_lowest_loss() -> None:
    series = tuned()
    for one in best(series):
        same = [
            s for s in series if s.q == one.q and s.config["estimator"] == one.config["estimator"]
        ]
        assert len(same) == 3
        assert one.last("loss") == min(s.last("loss") for s in same)
    chosen = [one.eta for one in best(series)]
    drawing = figures.best_steps(series)
    drawn = [y for line in drawing.figure.axes[0].lines for y in line.get_ydata()]
    assert drawn == chosen
    assert any("At the edge" in note for note in drawing.notes) == bool({0.5, 2.0} & set(chosen))


@pytest.mark.parametrize("q", [(3,), (1, 10)])
@pytest.mark.parametrize("estimators", [["avg"], ["avg", "align"]])
@pytest.mark.parametrize("draw", [figures.best_steps, figures.final])
def test_points_stand_around_the_tick_of_their_q(
    draw: Any, estimators: list[str], q: tuple[int, ...]
) -> None:
    series = series_of(PROBLEM, q=q, eta=1.0)
    drawing = draw([one for one in series if one.config["estimator"] in estimators])
    drawing.settle()
    (axis,) = drawing.figure.axes
    assert axis.get_xticks().tolist() == list(q)
    x = np.array([mark.x for mark in drawing.marks])
    assert np.exp(np.log(x).mean(0)) == pytest.approx(q)
    low, high = np.log(axis.get_xlim())
    assert np.ptp(np.log(x), axis=0).max() < 0.1 * (high - low)
    if len(q) == 1:
        assert (low + high) / 2 == pytest.approx(np.log(q[0]))


def test_loss_by_step_rings_the_lowest_and_ends_at_the_start() -> None:
    drawing = figures.losses_by_step([*tuned(), *series_of(PROBLEM, eta=50.0)])
    axis = drawing.figure.axes[0]
    start = series_of(PROBLEM)[0].points["gap"].iloc[0]
    assert start < axis.get_ylim()[1] < 5 * start
    assert max(y for line in axis.lines for y in line.get_ydata()) > 100 * start
    assert "diverges" in drawing.notes[-1]


def test_the_price_of_tuning_is_the_best_so_far_against_all_that_was_spent() -> None:
    series = tuned()  # 12 configurations of 4 replicates with 200 each
    drawing = best_so_far(series)
    study, alone = ({"x": m.x, "y": m.y} for m in drawing.marks)
    assert (study["x"][-1], alone["x"][-1]) == (12 * 4 * 200, 4 * 200)
    assert study["y"][-1] == alone["y"][-1] == min(one.points["gap"].min() for one in series)
    assert (np.diff(study["y"]) <= 0).all()
    (note,) = drawing.notes
    assert "The study spent 9,600; its best configuration, had it been known" in note
    assert "800: 12 times less." in note


def test_steps_that_were_drawn_at_random_have_names_that_do_not_overlap() -> None:
    drawn = (0.0015199600, 0.0025911234, 0.0027383428, 0.0193021111, 0.0267345071, 0.0610274333)
    series = [one for eta in drawn for one in series_of(PROBLEM, q=(1,), eta=eta)]
    figure = figures.losses_by_step(series).figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    for axis in figure.axes:
        boxes = [one.get_window_extent(renderer) for one in axis.get_xticklabels()]
        assert len(boxes) >= 3
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_the_heat_map_has_the_lowest_end_of_each_q_and_step_and_no_more_than_the_start() -> None:
    series = [*tuned(), *series_of(PROBLEM, eta=50.0)]
    drawing = heat_map(series)
    assert [axis.get_title() for axis in drawing.figure.axes[:2]] == ["avg", "align"]
    said = {mark.name: set(mark.said) for mark in drawing.marks}
    start = series[0].points["gap"].iloc[0]
    for one in series:
        end = min(start, one.last("gap"))
        words = f"q = {one.q}, eta = {one.eta:g}: {end:.4g}"
        assert words in said[one.config["estimator"]]
    assert sum(map(len, said.values())) == len(series) == 16


@pytest.mark.parametrize("high", [0.45, 0.7, 3.0, 40.0])
def test_the_colours_of_a_heat_map_are_named_by_plain_numbers(high: float) -> None:
    def ended(q: int, eta: float, loss: float) -> Configuration:
        row = {"spent": 9, "loss": loss, "loss_std": 0.0}
        points = pd.DataFrame({"spent": [0, 9], "loss": [high, loss], "loss_std": 0.0})
        config = {"estimator": "align", "q": q, "eta": eta}
        return Configuration((Trial(f"{q}", "", "exhausted", config, row, lambda: Course(points)),))

    drawing = heat_map([ended(1, 1.0, 0.38), ended(10, 1.0, high), ended(1, 2.0, 0.4)])
    drawing.figure.canvas.draw()
    bar = drawing.figure.axes[-1].yaxis
    low, top = drawing.figure.axes[-1].get_ylim()
    labels = [*bar.get_ticklabels(), *bar.get_ticklabels(minor=True)]
    shown = [one.get_text() for one in labels if low <= one.get_position()[1] <= top]
    assert [float(text) for text in shown if text]


def test_the_setting_that_decides_is_said_to_matter_most() -> None:
    pytest.importorskip("optuna")

    def ended(q: int, eta: float) -> Configuration:
        row = {"spent": 9, "loss": 10 * eta + 0.01 * q, "loss_std": 0.0}
        points = pd.DataFrame({"spent": [0, 9], "loss": [100.0, row["loss"]], "loss_std": 0.0})
        config = {"estimator": "align", "q": q, "eta": eta}
        return Configuration((Trial(f"{q}", "", "exhausted", config, row, lambda: Course(points)),))

    shares, method = importances([ended(q, eta) for q in (1, 2, 4) for eta in (0.5, 1.0, 2.0)])
    assert list(shares) == ["eta", "q"]
    assert shares["eta"] > 0.9
    assert method in ("fANOVA", "PED-ANOVA")
    assert importances([ended(q, 1.0) for q in range(1, 20)]) == ({}, "")  # nothing to compare with


def test_if_all_end_at_the_same_value_no_setting_is_said_to_matter() -> None:
    pytest.importorskip("optuna")

    def ended(q: int, eta: float) -> Configuration:
        row = {"spent": 9, "loss": 0.4375, "loss_std": 0.0}
        points = pd.DataFrame({"spent": [0, 9], "loss": 0.4375, "loss_std": 0.0})
        config = {"estimator": "align", "q": q, "eta": eta}
        return Configuration((Trial(f"{q}", "", "exhausted", config, row, lambda: Course(points)),))

    series = [ended(q, eta) for q in (1, 2, 4) for eta in (0.5, 1.0, 2.0)]
    assert importance_sentence(series) == [
        "All 9 configurations end at the same value: no setting mattered."
    ]


def test_every_metric_that_changes_has_a_figure() -> None:
    series = series_of(PROBLEM, diagnostics=True)
    names = {drawing.name for drawing in drawings(series, series)}
    assert {"metric-snr", "metric-cosine"} <= names
    assert "metric-unmoved" not in names  # the same number throughout is no curve


def test_losses_of_two_problems_are_not_compared() -> None:
    series = [s for seed in (0, 1) for s in series_of(PROBLEM | {"seed": seed})]
    assert {said: len(group) for said, group in by_problem(series).items()} == {
        "seed = 0": 4,
        "seed = 1": 4,
    }


def test_the_best_has_the_lowest_loss_and_diverged_only_if_it_is_alone() -> None:
    """Whoever was stopped early at a lower loss has it, and spent less."""

    def ended(q: int, eta: float, status: str, loss: float) -> Configuration:
        points = pd.DataFrame({"spent": [0, 9], "loss": [8.0, loss], "loss_std": 0.0})
        config = {"estimator": "align", "q": q, "eta": eta}
        row = {"spent": 9, "loss": loss, "loss_std": 0.0}
        trials = [
            Trial(f"{at}", "", word, {**config, "replicate": at}, row, lambda: Course(points))
            for at, word in enumerate(status.split(", "))
        ]
        return Configuration(tuple(trials))

    series = [
        ended(1, 0.1, "stopped early", 6.0),
        ended(1, 1.0, "stopped early", 2.0),
        ended(1, 30.0, "diverged", 1e25),
        ended(2, 0.1, "stopped early", 1.0),
        ended(2, 1.0, "exhausted", 2.0),
        ended(2, 30.0, "diverged", 0.5),
        ended(4, 0.1, "diverged, exhausted", 1e9),
        ended(4, 1.0, "running", 7.0),
        ended(8, 30.0, "diverged", 1e25),
    ]
    assert [(one.q, one.eta) for one in best(series)] == [(1, 1.0), (2, 0.1), (4, 1.0), (8, 30.0)]
    drawing = figures.best_steps(series)
    assert [y for line in drawing.figure.axes[0].lines for y in line.get_ydata()] == [1, 0.1, 1, 30]
    assert drawing.notes[-1].endswith("may lie outside: align q = 2, align q = 8.")


def test_updates_and_steps_have_panels_of_their_own_and_rules_of_q_a_curve() -> None:
    settings: dict[str, Any] = {"estimator": "align", "budget": 200, "replicates": 2}
    growth = {"rule": "growth", "first": 2, "factor": 2.0, "most": 8}
    points = [{"update": u, "q": q} for u in ("sgd", "momentum") for q in (4, growth)]
    some = [Configuration((from_run(minimize(PROBLEM, **settings, **point)),)) for point in points]
    assert len(best(some)) == 4
    drawing = figures.curves(best(some))
    assert [axis.get_title() for axis in drawing.figure.axes[:2]] == [
        "align, sgd",
        "align, momentum",
    ]
    assert {key for mark in drawing.marks for key in mark.keys} == {"q = 4", "q = growth"}
    text = markdown("title", [Section("all", drawings=drawings(some, best(some)))])
    assert "against q" not in text  # there is one number, and a rule has no place on an axis


def test_remarks_are_footnotes_of_the_table() -> None:
    notes = Footnotes()
    table = Table("t", ["a"], [[f"1 {notes.mark('above its start')}"]], "Note.", notes.lines)
    assert markdown("x", [Section("s", tables=[table])]).endswith(
        "| 1 † |\n\n† above its start\n\nNote.\n"
    )
    assert "<p>† above its start</p>" in page("x", [Section("s", tables=[table])])
    assert [Footnotes().mark("one"), [notes.mark(str(at)) for at in range(5)][-1]] == ["†", "††"]


def test_fractions_on_a_linear_axis_are_written_out() -> None:
    figure = Figure()
    axis = figure.add_subplot()
    axis.plot([0.0, 1.2], [1.0, 2.0])
    name_axes([axis], "seconds", "loss")
    FigureCanvasAgg(figure).draw()
    written = [label.get_text() for label in axis.get_xticklabels()]
    assert len(set(written)) == len(written)
    assert "0.5" in written or "0.3" in written or "0.25" in written


def skewed(losses: tuple[float, ...]) -> Configuration:
    """A configuration whose replicates ended so, above a minimum of 0."""
    mean = sum(losses) / len(losses)
    curve = pd.DataFrame(
        {"spent": [0, 9], "loss": [9.0, mean], "gap": [9.0, mean], "loss_std": 0.0}
    )
    row = {"spent": 9, "loss": mean, "gap": mean, "loss_std": 0.0}
    config = {"estimator": "avg", "q": 1, "replicates": len(losses)}
    trial = Trial("1", "one", "exhausted", config, row, lambda: Course(curve, losses, 0.0))
    return Configuration((trial,))


def test_final_losses_have_the_geometric_means_that_claims_compare_beside_arithmetic_ones() -> None:
    """What is judged is drawn, where the two means can be told apart."""
    drawing = figures.final([skewed((1.0, 1.0, 1000.0))])
    drawn = [float(y) for line in drawing.figure.axes[0].lines for y in np.ravel(line.get_ydata())]
    assert 334.0 in drawn
    assert any(y == pytest.approx(10.0) for y in drawn)
    assert figures.OPEN_MARKS in drawing.notes
    assert figures.OPEN_MARKS not in figures.final([skewed((1.0, 1.0, 1.001))]).notes


def test_geometric_means_are_not_given_where_a_replicate_has_diverged() -> None:
    (trial,) = skewed((1.0, 1.0, 1000.0)).trials
    course = trial.course
    lost = Course(course.curve, course.losses, 0.0, diverged=(False, False, True))
    gone = Configuration((Trial("1", "one", "exhausted", trial.config, trial.row, lambda: lost),))
    assert skewed((1.0, 1.0, 1000.0)).geometric_mean == pytest.approx(10.0)
    assert gone.geometric_mean is None
