"""``Drawing``: a figure with the positions and texts of its points, for interactive pages.

The same drawing is saved as PNG and SVG, and is the SVG of an interactive page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zotune.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "savefig.facecolor": "white",
    "pdf.fonttype": 42,  # fonts that journals accept
    "svg.fonttype": "none",  # text stays text, to be searched and edited
    "svg.hashsalt": "zotune",  # the same figure is the same file
    "text.parse_math": False,  # a name with a dollar is a name
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Markers by rank, so that curves are distinguishable without colour."""
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Colours that are distinguishable for colour-blind readers."""
PER_ROW, PANEL = 3, (3.5, 2.9)
"""Panels per row, and the size of one in inches."""
COLUMN, TEXT_WIDTH = 3.4, 7.0
"""Width of a PDF in inches for one panel (a column of a paper), and for several (two columns)."""
LOWEST = 2.2
"""Minimum height of a PDF in inches."""
RESOLUTION = 200
LABELS = {
    "gap": "f(x) − f*",
    "loss": "f(x)",
    "best_gap": "f(x) − f* at the answer so far",
    "best_loss": "f(x) at the answer so far",
    "grad_norm2": "least ‖∇f(x)‖² so far",
    "average_gap": "f(x̄) − f* of the averaged iterate",
}
"""Readable names of zotune's measures."""
ANONYMOUS = dict.fromkeys(["Date", "Creator", "Format", "Type"])
"""No metadata in an SVG, so that the same figure is the same file."""


@dataclass(frozen=True)
class Mark:
    """A curve whose points have a tooltip."""

    axes: Axes
    name: str
    x: Sequence[float]
    y: Sequence[float]
    said: Sequence[str]
    """The tooltip of each point."""
    keys: Sequence[str]
    """Keys of its legend entries; it is visible while all of them are switched on."""
    parts: Sequence[str]
    """Ids of its SVG elements: line, band."""


@dataclass(repr=False)
class Drawing:
    """A figure, its marks and its caption."""

    name: str
    title: str
    figure: Figure
    notes: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    legend: dict[str, list[str]] = field(default_factory=dict)
    """Ids of an entry's line and text in the legend, by its key."""
    _ids: int = 0
    _settled: bool = False

    def __repr__(self) -> str:
        return f"Drawing({self.title!r}; .save_as('{self.name}.png') writes it)"

    def identify(self, artist: Artist) -> str:
        """Give a part of the figure an id."""
        self._ids += 1
        gid = f"part{self._ids}"
        artist.set_gid(gid)
        return gid

    def add_legend(self, entries: Mapping[str, Artist]) -> None:
        """Draw the legend of the figure; a click on an entry toggles the marks with its key."""
        with styled():
            legend = self.figure.legend(
                list(entries.values()), list(entries), loc="outside right upper"
            )
        lines, texts = legend.legend_handles, legend.get_texts()
        for key, line, text in zip(entries, lines, texts, strict=True):
            parts = [part for part in (line, text) if part is not None]
            self.legend[key] = [self.identify(part) for part in parts]

    def settle(self) -> None:
        """Compute the layout of the figure once, and fix it."""
        if self._settled:
            return
        with styled():
            self.figure.set_dpi(72)  # as an SVG is written
            layout = self.figure.get_layout_engine()
            if layout is not None:
                layout.execute(self.figure)
            self.figure.set_layout_engine(None)  # with "none", a file is drawn twice
        self._settled = True

    @cached_property
    def svg(self) -> str:
        """The figure as an SVG element, its ids prefixed by its name."""
        self.settle()
        with styled():
            file = io.StringIO()
            self.figure.savefig(file, format="svg", metadata=ANONYMOUS)
        text = file.getvalue()
        element = text[text.index("<svg") :]
        element = re.sub(r'\bid="', f'id="{self.name}-', element)
        return re.sub(r'(url\(#|href="#)', rf"\g<1>{self.name}-", element)

    def interaction(self) -> dict[str, Any]:
        """Where the marks are in the SVG's coordinates, for the page's script."""
        return self._interaction

    @cached_property
    def _interaction(self) -> dict[str, Any]:
        self.settle()
        return {
            "marks": [self._placed(mark) for mark in self.marks],
            "legend": {
                key: [f"{self.name}-{gid}" for gid in ids] for key, ids in self.legend.items()
            },
        }

    def _placed(self, mark: Mark) -> dict[str, Any]:
        pairs = np.column_stack([mark.x, mark.y])
        places = mark.axes.transData.transform(pairs)
        box, height = mark.axes.bbox, self.figure.bbox.height
        inside = np.isfinite(places).all(1)
        kept = [(x, y, mark.said[at]) for at, (x, y) in enumerate(places) if inside[at]]
        return {
            "name": mark.name,
            "keys": list(mark.keys),
            "parts": [f"{self.name}-{part}" for part in mark.parts],
            "box": [_round(v) for v in (box.x0, height - box.y1, box.x1, height - box.y0)],
            "points": [[_round(x), _round(height - y), said] for x, y, said in kept],
        }

    def save(self, folder: Path, *, for_latex: bool = True) -> list[Path]:
        """Write a PNG, an SVG, and optionally a PDF for LaTeX."""
        folder.mkdir(parents=True, exist_ok=True)
        png, svg, pdf = (folder / f"{self.name}.{kind}" for kind in ("png", "svg", "pdf"))
        self.save_as(png)
        svg.write_text(self.svg, encoding="utf-8")
        return [png, svg, *([self.save_for_latex(pdf)] if for_latex else [])]

    def save_for_latex(self, path: str | Path) -> Path:
        """Write a PDF of column width, or of two columns if there are several panels."""
        path = Path(path)
        _ = self.svg, self._interaction  # as they are now: another size moves everything
        several = len([axis for axis in self.figure.axes if axis.get_visible()]) > 1
        width, height = self.figure.get_size_inches()
        wanted = TEXT_WIDTH if several else COLUMN
        with styled():
            path.parent.mkdir(parents=True, exist_ok=True)
            self.figure.set_layout_engine("constrained")
            self.figure.set_size_inches(wanted, max(height * wanted / width, LOWEST))
            self.figure.savefig(path, format="pdf", metadata={"CreationDate": None})
            self.figure.set_size_inches(width, height)
        self._settled = False  # the next file is laid out at its own size again
        self.settle()
        return path

    def _repr_html_(self) -> str:
        """In a notebook the figure shows itself."""
        return self.svg

    def save_as(self, path: str | Path) -> Path:
        """Write one file; its extension determines the format."""
        path = Path(path)
        known = self.figure.canvas.get_supported_filetypes()
        if path.suffix.lower().removeprefix(".") not in known:
            raise ConfigError(
                f"a figure's name must end in .png, .svg, .pdf or another kind that matplotlib "
                f"writes, got {str(path)!r}"
            )
        self.settle()
        with styled():
            path.parent.mkdir(parents=True, exist_ok=True)
            self.figure.savefig(path, dpi=RESOLUTION)
        return path


def _round(value: float) -> float:
    return round(float(value), 1)


@contextmanager
def styled() -> Iterator[None]:
    """Use zotune's style within the context, and restore the user's settings afterwards."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure with panels that share their axes; never opens a window."""
    from matplotlib.figure import Figure

    columns = min(PER_ROW, count)
    rows = -(-count // columns)
    with styled():
        size = (PANEL[0] * columns + 1.2, PANEL[1] * rows)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
    for unused in grid[count:]:
        unused.set_visible(False)
    return figure, list(grid[:count])


def shade(rank: int, of: int) -> Any:
    """A colour by rank, darker for lower ranks, so that the order is visible in grey."""
    from matplotlib import colormaps

    return colormaps["viridis"](0.88 * rank / max(1, of - 1))


def number(value: float) -> str:
    """A number as short text.

    >>> number(12537.2), number(0.07), number(float("nan"))
    ('1.254e+04', '0.07', '')
    """
    return "" if value != value else f"{value:.4g}"


def with_spread(value: float, spread: float) -> str:
    """A mean and its standard deviation, which has fewer digits.

    >>> with_spread(0.973251, 0.00075716), with_spread(2.0, 0.0)
    ('0.9733 ± 0.00076', '2')
    """
    return number(value) + (f" ± {spread:.2g}" if spread > 0 else "")
