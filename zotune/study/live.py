"""What is shown while a study runs: one live table, or plain lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from zotune.curve import DIVERGED, EXHAUSTED
from zotune.finding import STUDY_FILE
from zotune.study.points import PROBLEM, label, setting
from zotune.study.studyfile import parse_document

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STATES = {"RUNNING": "running", "PENDING": "waiting", "PAUSED": "waiting", "TERMINATED": "done"}
REFRESH = 0.25
"""Seconds between two looks at the trials."""
LINE_EVERY = 10.0
"""Seconds between two lines where nothing has ended."""
COUNTS, LONG = 0.05, 60.0
"""The part of what was to be done, or the seconds, after which time left is estimated."""
MOST_BESTS = 3
"""Instances of the problem whose best is told."""


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment."""

    total: int
    states: Mapping[str, int]
    spent: int
    budget: int
    bests: tuple[tuple[float, str], ...]
    """The lowest loss of each instance of the problem, and whose it is."""
    ended: Mapping[str, str] = field(default_factory=dict)
    """A line for each trial that has ended, by its id."""

    @property
    def share(self) -> float:
        """The part of all budgets that is spent, counting what ended early as spent."""
        return self.spent / self.budget if self.budget else 0.0


class Display(Protocol):
    """Something that shows snapshots."""

    def show(self, snapshot: Snapshot) -> None:
        """Show how far the study is."""

    def close(self) -> None:
        """Show nothing more."""


current: ContextVar[Display | None] = ContextVar("zotune-display", default=None)
"""Where the Progress callback of this process shows its snapshots."""


def snapshot(trials: Iterable[Any], total: int) -> Snapshot:
    """What Tune's trials say."""
    states = {"running": 0, "waiting": 0, "done": 0, "stopped early": 0, "failed": 0}
    spent = budget = 0
    bests: dict[str, tuple[float, str]] = {}
    ended = {}
    seen = list(trials)
    for trial in seen:
        last, limit = trial.last_result or {}, trial.config.get("budget", 0)
        early = trial.status == "TERMINATED" and last.get("status") not in (EXHAUSTED, DIVERGED)
        state = "stopped early" if early else STATES.get(trial.status, "failed")
        states[state] += 1
        over = state not in ("running", "waiting")
        spent += limit if over else last.get("spent", 0)
        budget += limit
        loss, options = last.get("loss"), _options_of(trial)
        named = trial_label(trial.config, options)
        if loss is not None:
            which = repr([setting(trial.config, key) for key in options])
            bests[which] = min(bests.get(which, (loss, named)), (loss, named), key=lambda b: b[0])
        if over:
            shown = "" if loss is None else f", loss {loss:.6g}"
            if shown and trial.config.get("replicates", 1) > 1:
                shown += f" ± {last['loss_std']:.2g}"
            word = DIVERGED if last.get("status") == DIVERGED else state
            ended[trial.trial_id] = f"{named}: {word}{shown}"
    waiting = max(0, total - len(seen))
    states["waiting"] += waiting
    budget += waiting * (budget // max(1, len(seen)))
    return Snapshot(max(total, len(seen)), states, spent, budget, tuple(bests.values()), ended)


def _options_of(trial: Any) -> tuple[str, ...]:
    """The options of the problem that the trial's study searches; none of a trial without one."""
    place = getattr(trial, "path", None)
    return _searched_options(Path(place).parent / STUDY_FILE) if place else ()


@cache
def _searched_options(file: Path) -> tuple[str, ...]:
    """Those with several values in the study of a launch's folder: Tune's trials do not tell."""
    if not file.is_file():
        return ()
    space = parse_document(file.read_text(encoding="utf-8"), str(file)).data.get("space") or {}
    several = (key for key, axis in space.items() if not isinstance(axis, list) or len(axis) > 1)
    return tuple(key for key in several if key.startswith(PROBLEM))


def trial_label(config: Mapping[str, Any], options: Iterable[str] = ()) -> str:
    """A trial for a person, with those options of its problem."""
    keys = ("estimator", "q", "eta", *options, "replicate")
    point = {key: setting(config, key) for key in keys}
    return label({key: value for key, value in point.items() if value is not None})


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
        table.add_row("best loss", _best(now) or "…")
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
            f"{before}/{total} {snapshot.share:.0%} spent, "
            f"best {_best(snapshot) or 'not known yet'}, {_remaining(left)}"
        ]
        for line in lines:
            self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def close(self) -> None:
        """Nothing to wipe."""


def _counts(now: Snapshot) -> str:
    counts = [f"{count} {state}" for state, count in now.states.items() if count]
    return ", ".join(counts) + f" of {now.total}"


def _best(now: Snapshot) -> str:
    told = [f"{loss:.6g} ({named})" for loss, named in now.bests[:MOST_BESTS]]
    rest = len(now.bests) - len(told)
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
