"""A callback for every step of a run: updates the progress bar and saves checkpoints over time."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from zotune.core.state import State
from zotune.loop import Loop
from zotune.runs.bar import Bar

EVERY, SHARE = 1.0, 0.02
"""Minimum seconds between two checkpoints; maximum share of the run's time spent on saving."""


class StepWatcher:
    """Called after every step of a loop.

    Args:
        loop: the loop whose newest state is shown and saved.
        bar: the progress bar.
        save: saves a state.
    """

    def __init__(self, loop: Loop, bar: Bar | None, save: Callable[[State], None] | None) -> None:
        self._loop, self._bar, self._save = loop, bar, save
        self._due = monotonic() + EVERY

    def __call__(self) -> None:
        """Update the bar; save a checkpoint if one is due."""
        if self._save is None and (self._bar is None or not self._bar.is_shown):
            return
        state = self._loop.newest
        if len(state.lanes) < len(self._loop.lanes):
            return
        if self._bar is not None and self._bar.is_shown:
            self._bar.show(self._loop.spent(state), float(state.best_loss.min()))
        if self._save is not None and monotonic() >= self._due:
            began = monotonic()
            self._save(state)
            now = monotonic()
            self._due = now + max(EVERY, (now - began) / SHARE)
