"""The display while a study runs: a live table, or plain lines."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from zotune.study.snapshot import Snapshot

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

REFRESH = 0.25
"""Seconds between two updates."""
LINE_EVERY = 10.0
"""Seconds between two lines if no trial has ended."""
COUNTS, LONG = 0.05, 60.0
"""The remaining time is estimated after this share of the work, or this many seconds."""
MOST_BESTS = 3
"""Maximum number of problem instances whose best result is shown."""


class Display(Protocol):
    """Something that shows snapshots."""

    def show(self, snapshot: Snapshot) -> None:
        """Show the progress of the study."""

    def close(self) -> None:
        """End the display."""


current: ContextVar[Display | None] = ContextVar("zotune-display", default=None)
"""The display of the Progress callback in this process."""


class _Clock:
    """Elapsed time, and an estimate of the remaining time."""

    def __init__(self) -> None:
        self.start = monotonic()
        self._first: tuple[float, float] | None = None
        self._share, self._rises = 0.0, 0

    @property
    def passed(self) -> float:
        return monotonic() - self.start

    def left(self, share: float) -> float | None:
        """Remaining seconds at the pace since the first snapshot (of a resumed launch, too).

        None until the pace is meaningful: ``COUNTS`` of the work is done, or two reports have come
        and ``LONG`` seconds have passed, compared with which the start of the workers is short.
        """
        now = self.passed
        if self._first is None:
            self._first, self._share = (now, share), share
        self._rises += share > self._share
        self._share = share
        at, done = self._first
        counts = share - done >= COUNTS * (1 - done)
        known = share > done and (counts or (now - at >= LONG and self._rises > 1))
        return (1 - share) * (now - at) / (share - done) if known else None


class LiveTable:
    """One table that is redrawn in place."""

    def __init__(self, console: Console, title: str) -> None:
        from rich.live import Live

        self._title, self._clock = title, _Clock()
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        """Redraw."""
        self._live.update(self._table(snapshot), refresh=True)

    def close(self) -> None:
        """Remove the table; the summary replaces it."""
        self._live.stop()

    def _table(self, now: Snapshot) -> Table:
        from rich.table import Table

        left = self._clock.left(now.share)
        table = Table(title=self._title, title_justify="left", show_header=False, box=None)
        table.add_row("trials", _counts(now))
        table.add_row("spent", f"{now.spent:,} of {now.budget:,} ({now.share:.0%})")
        table.add_row(f"best final {now.measure}", _told(now.bests) or "no trial has ended")
        table.add_row("lowest so far", _told(now.lowest) or "…")
        table.add_row("time", f"{duration(self._clock.passed)}, {_remaining(left)}")
        return table


class Lines:
    """A line for every trial that ends, and regular progress lines."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._clock = console, _Clock()
        self._said, self._last = set[str](), monotonic()
        self._console.print(title, soft_wrap=True, highlight=False, markup=False)

    def show(self, snapshot: Snapshot) -> None:
        """Print lines for trials that have ended, or the progress."""
        new = [line for trial, line in snapshot.ended.items() if trial not in self._said]
        left = self._clock.left(snapshot.share)
        if not new and monotonic() - self._last < LINE_EVERY:
            return
        before, total = len(self._said), snapshot.total
        self._said, self._last = set(snapshot.ended), monotonic()
        lines = [f"{before + 1 + at}/{total} {line}" for at, line in enumerate(new)] or [
            f"{before}/{total} {snapshot.share:.0%} spent, {_best(snapshot)}, {_remaining(left)}"
        ]
        for line in lines:
            self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def close(self) -> None:
        """Does nothing."""


def _counts(now: Snapshot) -> str:
    counts = [f"{count} {state}" for state, count in now.states.items() if count]
    return ", ".join(counts) + f" of {now.total}"


def _best(now: Snapshot) -> str:
    """The best final value; before the first trial has ended, the lowest loss so far."""
    if now.bests:
        return f"best final {now.measure} {_told(now.bests)}"
    return f"lowest loss so far {_told(now.lowest) or 'not known yet'}"


def _told(bests: Sequence[tuple[float, str]]) -> str:
    told = [f"{value:.6g} ({named})" for value, named in bests[:MOST_BESTS]]
    rest = len(bests) - len(told)
    return "; ".join([*told, *([f"and of {rest} more problems"] if rest else [])])


def _remaining(left: float | None) -> str:
    return "time left not known yet" if left is None else f"about {duration(left)} left"


def duration(seconds: float) -> str:
    """Seconds in readable form."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
