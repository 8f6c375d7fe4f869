"""Errors and Gram matrices: measured once, kept as a file, drawn and told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from zotune.core.files import write_whole
from zotune.reporting.axes import log_x, name_axes, scale
from zotune.reporting.drawing import MARKERS, Drawing, panels, shade, styled
from zotune.reporting.page import Section, Table
from zotune.reproduction.plan import FULL
from zotune.theory.measurements import Error, Gram, errors_over, gram_deviation

FILE = "measurements.json"
HEAT_DIMS, HEAT_Q = (10, 100, 1000, 10_000), 10


def measure(size: str) -> tuple[list[Error], list[Gram]]:
    """Everything that is measured; the full size has d = 1000 too."""
    dims = (10, 100, 1000) if size == FULL else (10, 30, 100)
    blocks = [q for q in (1, 3, 10, 30, 100, 300, 1000) if q <= dims[-1]]
    errors = errors_over(dims, blocks, ("avg", "align", "align-diag"))
    return errors, [gram_deviation(dim, HEAT_Q) for dim in HEAT_DIMS]


def measured(size: str, folder: Path) -> tuple[list[Error], list[Gram]]:
    """What was measured before, or is now."""
    path = folder / FILE
    if not path.is_file():
        errors, grams = measure(size)
        told = {"errors": [asdict(e) for e in errors], "grams": [asdict(g) for g in grams]}
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(told, indent=1).encode())
    kept = json.loads(path.read_text(encoding="utf-8"))
    return [Error(**e) for e in kept["errors"]], [Gram(**g) for g in kept["grams"]]


def sections(errors: Sequence[Error], grams: Sequence[Gram]) -> list[Section]:
    """Both measurements in words, figures and tables."""
    off = [e for e in errors if not e.agrees]
    said = f"{len(errors) - len(off)} of {len(errors)} measured errors agree with their formula"
    ratios = [g.deviation / g.scale for g in grams]
    return [
        Section(
            "Mean squared error of one estimate",
            [f"{said}, within four standard errors (proposition 3.1; align-diag is our formula)."],
            [draw_errors(errors)],
            [_error_table(errors)],
        ),
        Section(
            "Gram matrices of Gaussian blocks",
            [
                f"For q = {HEAT_Q} the operator norm of UᵀU/d − I is {min(ratios):.2f} to "
                f"{max(ratios):.2f} times √(q/d) from d = {grams[0].dim} to {grams[-1].dim} "
                "(lemma A.1). P_U − UUᵀ/d has the same norm (proposition A.4)."
            ],
            [draw_heatmaps(grams), draw_deviations(grams)],
        ),
    ]


def _error_table(errors: Sequence[Error]) -> Table:
    rows = [
        [
            e.estimator,
            str(e.dim),
            str(e.q),
            f"{e.mse:.4g} ± {e.uncertainty:.1g}",
            f"{e.formula:.4g}",
            "agrees" if e.agrees else "differs",
        ]
        for e in errors
    ]
    columns = ["estimator", "d", "q", "measured", "formula", ""]
    return Table("E‖ĝ − g‖² / ‖g‖², Gaussian directions", columns, rows)


def draw_errors(errors: Sequence[Error]) -> Drawing:
    """Measured errors as points, formulas as lines, over q."""
    names = list(dict.fromkeys(e.estimator for e in errors))
    dims = sorted({e.dim for e in errors})
    figure, axes = panels(len(names))
    drawing = Drawing(
        "mse", "Mean squared error over q: measured (points), formula (lines)", figure
    )
    handles = {}
    with styled():
        for axis, name in zip(axes, names, strict=True):
            for rank, dim in enumerate(dims):
                mine = [e for e in errors if (e.estimator, e.dim) == (name, dim) and e.formula > 0]
                colour, q = shade(rank, len(dims)), [e.q for e in mine]
                axis.plot(q, [e.formula for e in mine], color=colour, lw=1)
                (handles[f"d = {dim}"],) = axis.plot(
                    q, [e.mse for e in mine], MARKERS[rank], color=colour, ms=4
                )
            axis.set_title(name)
            log_x(axis, [10**k for k in range(4) if 10**k <= dims[-1]])
        scale(axes, [[e.formula for e in errors if e.formula > 0]])
        name_axes(axes, "q", "E‖ĝ − g‖² / ‖g‖²")
        figure.legend(list(handles.values()), list(handles), loc="outside right upper")
    return drawing


def draw_heatmaps(grams: Sequence[Gram]) -> Drawing:
    """|UᵀU/d| for each d, one draw."""
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(2.4 * len(grams) + 0.8, 2.7), layout="constrained")
        axes = figure.subplots(1, len(grams), squeeze=False)[0]
        for axis, gram in zip(axes, grams, strict=True):
            image = axis.imshow(gram.typical, vmin=0, vmax=1, cmap="viridis")
            axis.set(title=f"d = {gram.dim:,}", xticks=[], yticks=[])
        figure.colorbar(image, ax=list(axes), shrink=0.8)
    return Drawing("gram", f"|UᵀU/d| for q = {grams[0].q}, one draw each", figure)


def draw_deviations(grams: Sequence[Gram]) -> Drawing:
    """Operator norms against d, beside √(q/d)."""
    figure, (axis,) = panels(1)
    dims = [g.dim for g in grams]
    with styled():
        axis.plot(dims, [g.deviation for g in grams], "o-", label="mean of ‖UᵀU/d − I‖")
        axis.plot(dims, [g.largest for g in grams], "^:", label="largest of all draws")
        axis.plot(dims, [g.scale for g in grams], "k--", lw=1, label="√(q/d)")
        log_x(axis, dims)
        scale([axis], [[g.largest for g in grams], [g.scale for g in grams]])
        name_axes([axis], "d", "operator norm")
        figure.legend(loc="outside right upper")
    return Drawing("gram-deviation", "Distance of the Gram matrix from the identity", figure)
