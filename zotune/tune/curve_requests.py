"""Flags by which a callback in the driver requests curve points from the experiment's workers."""

from __future__ import annotations

from contextlib import suppress

from zotune.tune import driver_notes

CURVES, WANTED = "curves", "1"


def ask_for_curves(experiment: str) -> None:
    """Request that zotune's trainables of an experiment send their curve points."""
    driver_notes.leave(WANTED, CURVES, experiment)


def stop_asking(experiment: str) -> None:
    """Withdraw the request: workers send rows without curve points."""
    with suppress(Exception):
        driver_notes.remove(CURVES, experiment)


def curves_wanted(experiment: str) -> bool:
    """Whether the driver of this worker has requested curve points; False without Ray."""
    with suppress(Exception):
        return driver_notes.read(CURVES, experiment) == WANTED
    return False
