"""Scales, limits and tick labels of axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 8
"""Maximum number of values that an axis labels individually."""
LONGEST = 6
"""Maximum number of characters of a tick label; longer numbers are rounded."""
LETTER = 0.025
"""Width of a character, as a fraction of a narrow axis."""
POWERS = 1000
"""A metric has a logarithmic axis if its values have at least this ratio."""


def scale(
    axes: Sequence[Axes], lines: Sequence[Any], top: float | None = None, *, linear: bool = False
) -> None:
    """Set a logarithmic y axis if all values are positive, with a margin, limited by a top if any.

    With ``linear`` it is logarithmic only over several powers of ten.
    """
    everything = np.concatenate([np.asarray(line, dtype=float) for line in lines])
    everything = everything[np.isfinite(everything)]
    low, high = float(everything.min()), float(everything.max())
    high = high if top is None or low >= top else min(high, top)
    if low > 0 and not (linear and high < POWERS * low):
        margin = (high / low) ** 0.05 * 1.02
        axes[0].set_yscale("log")
        axes[0].set_ylim(low / margin, high * margin)
        label_few_decades(axes, high / low)
    else:
        margin = 0.05 * (high - low) or 1.0
        axes[0].set_ylim(low - margin, high + margin)


def label_few_decades(axes: Sequence[Axes], ratio: float) -> None:
    """Label values between powers of ten if the axis has few of these."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    subs = [1.0, 2.0, 5.0] if ratio < 300 else [1.0]
    if ratio < 8:
        subs = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
    if ratio < 2.5:
        subs = [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    for axis in axes:
        axis.yaxis.set_major_locator(LogLocator(subs=subs))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        axis.yaxis.set_minor_formatter(NullFormatter())


def tick(value: float) -> str:
    """A number on an axis.

    >>> tick(20000.0), tick(0.05), tick(1e-6), tick(3e9)
    ('20,000', '0.05', '1e-6', '3e9')
    """
    if 1e-3 <= value < 1e6:
        return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def on_line(value: float) -> str:
    """A number on a linear axis, with decimals if it has any.

    >>> on_line(0.0), on_line(0.5), on_line(20000.0), on_line(-1.0)
    ('0', '0.5', '20,000', '-1')
    """
    whole = round(value, 6)
    return f"{whole:,.0f}" if whole == int(whole) else f"{whole:g}"


def name_axes(axes: Sequence[Axes], below: str, beside: str) -> None:
    """Set axis labels once per figure, and format large numbers."""
    from matplotlib.ticker import FuncFormatter

    figure = axes[0].figure
    figure.supxlabel(below, fontsize="medium")
    figure.supylabel(beside, fontsize="medium")
    for axis in axes:
        axis.tick_params(labelbottom=True)
        if axis.get_xscale() == "linear":
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: on_line(value)))
            axis.locator_params(axis="x", nbins=5)


def log_x(axis: Axes, values: Iterable[float | None]) -> None:
    """Set a logarithmic x axis that labels the actual values if they are few."""
    from matplotlib.ticker import FixedLocator, NullLocator

    known = sorted({value for value in values if value})
    if not known:
        return
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: short_tick(value))
    axis.xaxis.set_minor_locator(NullLocator())
    if len(known) <= FEW or known[-1] < 10 * known[0]:
        axis.xaxis.set_major_locator(FixedLocator(apart(known)))


def short_tick(value: float) -> str:
    """A number below a narrow axis: one that was drawn loses most of its digits.

    >>> short_tick(1000.0), short_tick(0.05), short_tick(0.00151996)
    ('1000', '0.05', '0.0015')
    """
    whole = f"{value:g}"
    return whole if len(whole) <= LONGEST else f"{value:.2g}"


def apart(known: Sequence[float]) -> list[float]:
    """Those of sorted values whose names do not overlap on a logarithmic axis over all of them.

    >>> apart([1, 4, 6, 10, 11]), apart([1, 10, 100])
    ([1, 4, 6, 10], [1, 10, 100])
    """
    chosen = list(known[:1])
    span = np.log(known[-1] / known[0])
    for value in known[1:]:
        letters = (len(short_tick(chosen[-1])) + len(short_tick(value))) / 2 + 1
        if np.log(value / chosen[-1]) > LETTER * letters * span:
            chosen.append(value)
    return chosen
