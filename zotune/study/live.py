"""What is shown while a study runs: one live table, or plain lines."""

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
"""Seconds between two looks at the trials."""
LINE_EVERY = 10.0
"""Seconds between two lines where nothing has ended."""
COUNTS, LONG = 0.05, 60.0
"""The part of what was to be done, or the seconds, after which time left is estimated."""
MOST_BESTS = 3
"""Instances of the problem whose best is told."""


class Display(Protocol):
    """Something that shows snapshots."""

    def show(self, snapshot: Snapshot) -> None:
        """Show how far the study is."""

    def close(self) -> None:
        """Show nothing more."""


current: ContextVar[Display | None] = ContextVar("zotune-display", default=None)
"""Where the Progress callback of this process shows its snapshots."""


class _Clock:
    """Time that has passed, and what is left of it by the share that is done."""

    def __init__(self) -> None:
        self.start = monotonic()
        self._first: tuple[float, float] | None = None
        self._share, self._rises = 0.0, 0

    @property
    def passed(self) -> float:
        return monotonic() - self.start

    def left(self, share: float) -> float | None:
        """Seconds, at the pace since the first snapshot; a resumed launch starts half done.

        None until the pace means something: a part of the work that counts is done, or two reports
        have come in a time beside which the start of the workers is short.
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
        """Wipe the table; the summary takes its place."""
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
    """A line for every trial that ends, and now and then how far the study is."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._clock = console, _Clock()
        self._said, self._last = set[str](), monotonic()
        self._console.print(title, soft_wrap=True, highlight=False, markup=False)

    def show(self, snapshot: Snapshot) -> None:
        """Say what has ended."""
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
        """Nothing to wipe."""


def _counts(now: Snapshot) -> str:
    counts = [f"{count} {state}" for state, count in now.states.items() if count]
    return ", ".join(counts) + f" of {now.total}"


def _best(now: Snapshot) -> str:
    """The best final value, or what is known before the first trial has ended."""
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
    """Seconds for a person."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
