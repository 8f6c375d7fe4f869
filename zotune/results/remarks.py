"""What is to be said of a run wherever it may be called the best."""

from __future__ import annotations


def remarks(
    loss: float | None, start: float | None, estimated_smoothness: float | None = None
) -> list[str]:
    """That it ends above its start, and that its step is not the theory's.

    Args:
        loss: at its end.
        start: the loss before its first step.
        estimated_smoothness: the L that the step was divided by, if it was estimated.

    >>> remarks(2.0, 1.0, 0.44)
    ['above its start', 'L estimated (0.44)']
    """
    said = []
    if loss is not None and start is not None and loss > start:
        said.append("above its start")
    if estimated_smoothness is not None:
        said.append(f"L estimated ({estimated_smoothness:.3g})")
    return said
