"""How a driver's callback asks the workers of its experiment for their curve points."""

from __future__ import annotations

from contextlib import suppress

from zotune.tune import driver_notes

CURVES, WANTED = "curves", "1"


def ask_for_curves(experiment: str) -> None:
    """Let our trainables of an experiment send their curve points, wherever they run."""
    driver_notes.leave(WANTED, CURVES, experiment)


def stop_asking(experiment: str) -> None:
    """Rows alone from now on."""
    with suppress(Exception):
        driver_notes.remove(CURVES, experiment)


def curves_wanted(experiment: str) -> bool:
    """Whether the driver of this worker asked; False where nobody can be asked."""
    with suppress(Exception):
        return driver_notes.read(CURVES, experiment) == WANTED
    return False
