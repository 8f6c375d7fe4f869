"""Results show themselves: plots in the report's style, and summaries in notebooks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zotune
from zotune.errors import ConfigError
from zotune.reporting.drawing import COLUMN, TEXT_WIDTH
from zotune.reporting.plots import plot_results, plot_runs

INCH = 72


@pytest.fixture(scope="module")
def run() -> zotune.Run:
    return zotune.minimize("quadratic", x0=None, budget=400, q=5, estimator="align", replicates=3)


def test_a_run_plots_its_curve_against_spent_budget(run: zotune.Run, tmp_path: Path) -> None:
    drawing = run.plot()
    (mark,) = drawing.marks
    assert list(mark.x) == run.curve["spent"].tolist()
    assert list(mark.y) == run.curve["gap"].tolist()
    assert drawing.save_as(tmp_path / "run.png").stat().st_size > 1000


def test_a_descent_that_starts_again_is_drawn_with_the_loss_of_its_answer_so_far() -> None:
    """It searches again where it has converged, and keeps its answer until there is a better."""
    noise = np.random.default_rng(0)

    def noisy(x: np.ndarray) -> float:
        return float((np.arange(1, 9) * x**2).sum() + 0.05 * noise.standard_normal())

    run = zotune.minimize(noisy, [1.0] * 8, budget=400)
    assert run.curve["best_loss"].diff().max() < 0.3  # six times the noise
    drawing = run.plot()
    assert list(drawing.marks[0].y) == run.curve["best_loss"].tolist()
    assert drawing.title == "f(x) at the answer so far against the budget spent"
    assert list(run.plot(measure="loss").marks[0].y) == run.curve["loss"].tolist()
    known = zotune.minimize("rosenbrock", budget=100)
    lowest = known.curve["best_loss"] - (known.curve["loss"] - known.curve["gap"])
    assert list(known.plot().marks[0].y) == lowest.tolist()


def test_a_metric_of_yours_is_a_curve_too() -> None:
    run = zotune.minimize(
        lambda x: (x**2).sum(), [1.0, 2.0], budget=60, metrics={"size": lambda x: x.max()}
    )
    assert list(run.plot(measure="size").marks[0].y) == run.curve["size"].tolist()


def test_a_drawing_says_what_it_is_in_a_line_and_goes_to_a_file_by_name(
    run: zotune.Run, tmp_path: Path
) -> None:
    drawing = run.plot()
    assert repr(drawing) == (
        "Drawing('f(x) − f* against the budget spent'; .save_as('curves.png') writes it)"
    )
    assert drawing.save_as(f"{tmp_path}/run.pdf").is_file()
    assert drawing.save_for_latex(f"{tmp_path}/column.pdf").is_file()
    assert drawing.figure.legends == []  # one curve needs none
    assert plot_runs({"one": run, "other": run}).figure.legends


def test_runs_are_told_apart_by_the_names_that_they_are_given(run: zotune.Run) -> None:
    drawing = plot_runs({"one": run, "other": run}, measure="loss")
    assert [axis.get_title() for axis in drawing.figure.axes] == ["one", "other"]


def width_of(pdf: Path) -> float:
    box = pdf.read_bytes().split(b"/MediaBox [")[1].split(b"]")[0].split()
    return float(box[2]) / INCH


def test_a_pdf_is_as_wide_as_a_column_and_leaves_the_other_files_as_they_were(
    run: zotune.Run, tmp_path: Path
) -> None:
    drawing, plain = run.plot(), run.plot()
    png, svg, pdf = drawing.save(tmp_path)
    assert width_of(pdf) == pytest.approx(COLUMN, abs=0.01)
    assert (png.suffix, svg.suffix) == (".png", ".svg")
    assert svg.read_text("utf-8") == plain.svg
    assert drawing.interaction() == plain.interaction()
    wide = plot_runs({"one": run, "other": run}).save_for_latex(tmp_path / "two.pdf")
    assert width_of(wide) == pytest.approx(TEXT_WIDTH, abs=0.01)


def test_a_notebook_shows_what_came_out_and_the_curve() -> None:
    run = zotune.minimize(lambda x: ((x - 1) ** 2).sum(), [0.0] * 3, budget=60)
    shown = run._repr_html_()
    assert f"{run.spent} of 60" in shown
    assert run.message in shown
    assert "<svg" in shown
    assert "<script" not in shown


def test_results_without_a_checkpoint_say_so() -> None:
    with pytest.raises(ConfigError, match="no trial has a checkpoint to plot"):
        plot_results([])
