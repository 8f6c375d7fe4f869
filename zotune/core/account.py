"""Account of the budget that the trials of a launch have spent, in a file that survives crashes.

A position is the sum of the spent budgets of all replicates of a trial, in the unit of ``count``. A
trial reserves the budget up to its next report, and the reservation is written to disk before the
trial continues. So after any crash, the budget actually spent is at most what the file says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from zotune.core.calls import calls_in
from zotune.core.names import ACCOUNT_FILE, CALLS_FOLDER
from zotune.core.spending import Spending

Event = Mapping[str, Any]
ROW, OVER, POINT, SAVED = "row", "over", "point", "saved"
"""Keys of events about a trial: the row of a report; that it has ended, and how; its point, if a
search has drawn it; the name of a checkpoint."""


@dataclass
class Entry:
    """The account of one trial."""

    identity: str = ""
    """Hash of its configuration, to find the entry of a trial that Tune has lost and restarts."""
    low: int = 0
    high: int = 0
    """First and last reported position; everything below ``high`` is charged."""
    charged: int = 0
    reserved: int = 0
    """Budget that it may spend beyond ``high`` before it reports again."""
    last: bool = False
    """Whether the reservation ends before the next report because no more budget was left."""
    repeated: int = 0
    evaluations: int = 0
    """Calls of the objective that were charged, where reports tell them."""
    monitored: int = 0
    again: int = 0
    """Evaluations that its workers have made again."""
    begun: bool = False
    over: str = ""
    """How the trial has ended; empty if it has not."""
    rungs: dict[int, float] = field(default_factory=dict)
    """The loss at each rung of a race."""
    best: float = inf
    """The lowest loss up to the last of these rungs."""
    joins: tuple[int, str] | None = None
    """The position at which the trial continues from a better point, and the file of the point."""

    @property
    def may_reach(self) -> int:
        """The position up to which the trial may go."""
        return self.high + self.reserved

    def knows(self, position: int) -> bool:
        """Whether the trial has passed a position on its way to ``high``."""
        return self.begun and self.low <= position <= self.high

    def repeated_of(self, calls: int) -> int:
        """What was repeated of so many calls; what was reported of it if calls are not counted (0).

        Calls include those that its workers have made again.
        """
        return calls - self.evaluations - self.monitored if calls else self.repeated + self.again

    def report(
        self, start: int, end: int, monitored: int, evaluations: int = 0, again: int = 0
    ) -> None:
        """Charge the part between two positions that is new; count the rest as repeated.

        Args:
            start: the position at which the report's part began.
            end: its position.
            monitored: uncharged evaluations since the start.
            evaluations: charged evaluations since the start.
            again: evaluations that its workers have made again, since it began.
        """
        known = self.knows(start)
        if not known:
            self.low = self.high = start
        self.repeated += max(0, min(end, self.high) - start)
        new = max(0, end - self.high)
        share = new / (end - start) if end > start else float(not known)
        self.evaluations += round(share * evaluations)
        self.monitored += round(share * monitored)
        self.charged += new
        self.high += new
        if new:  # else it was resumed at an earlier position and may have used its reservation
            self.reserved = 0
        self.again = max(self.again, again)
        self.begun = True


class Account:
    """The spent budget of all trials of a launch, with a log file of one line per event.

    Args:
        file: the log of events; None: no file.
        limit: total budget of all trials; None: no limit.
    """

    def __init__(self, file: Path | None = None, limit: int | None = None) -> None:
        self.file, self.limit = file, limit
        self.before = 0
        self.entries: dict[str, Entry] = {}
        self.closed = False
        """Whether no further trial can begin and none runs."""
        for event in events_in(file):
            self._apply(event)

    @property
    def charged(self) -> int:
        """Total budget charged to all trials of this launch."""
        return sum(entry.charged for entry in self.entries.values())

    @property
    def left(self) -> int | None:
        """Budget that is neither spent nor reserved; None: no limit."""
        if self.limit is None:
            return None
        reserved = sum(entry.reserved for entry in self.entries.values())
        return self.limit - self.before - self.charged - reserved

    @property
    def spending(self) -> Spending:
        """A summary of the account."""
        entries = self.entries.values()
        return Spending(
            trials=sum(entry.begun for entry in entries),
            charged=self.charged,
            evaluations=sum(entry.evaluations for entry in entries),
            monitored=sum(entry.monitored for entry in entries),
            repeated=sum(entry.repeated + entry.again for entry in entries),
            reserved=sum(entry.reserved for entry in entries),
            before=self.before,
            total=self.limit,
        )

    def of(self, trial: str) -> Entry:
        """The entry of a trial, an empty one if there is none yet."""
        return self.entries.get(trial, Entry())

    def set_limit(self, limit: int | None, before: int = 0) -> None:
        """Set the total budget, and the part of it that earlier launches have spent."""
        if (limit, before) != (self.limit, self.before):
            self._record({"limit": limit, "before": before})

    def add_trial(self, trial: str, identity: str, others: Collection[str]) -> None:
        """Add a trial; it takes over the entry of a lost trial of the same configuration, if any.

        Args:
            trial: its id.
            identity: hash of its configuration.
            others: ids of all trials that Tune knows.
        """
        if trial in self.entries:
            return
        lost = (
            old
            for old, entry in self.entries.items()
            if old not in others and entry.identity == identity
        )
        self._record({"trial": trial, "identity": identity, "was": next(lost, None)})

    def reserve(self, trial: str, upto: int, *, last: bool = False) -> bool:
        """Reserve the budget of a trial up to a position; return whether enough is left.

        Args:
            trial: its id.
            upto: the position.
            last: whether the trial ends there, before its next report.
        """
        entry = self.of(trial)
        new, left = upto - entry.may_reach, self.left
        if new <= 0:
            return True
        if left is not None and new > left:
            return False
        self._record({"trial": trial, "upto": upto, "last": last})
        return True

    def report(
        self,
        trial: str,
        start: int,
        end: int,
        monitored: int = 0,
        evaluations: int = 0,
        again: int = 0,
        **facts: Any,
    ) -> None:
        """Charge a trial for the budget between two positions; further facts are only kept."""
        counts = {"monitored": monitored, "evaluations": evaluations}
        counts |= {"again": again} if again else {}
        self._record({"trial": trial, "from": start, "to": end, **counts, **facts})

    def note(self, trial: str, **facts: Any) -> None:
        """Keep facts about a trial, which a resumed launch reads."""
        self._record({"trial": trial, **facts})

    def move(self, trial: str, position: int, **facts: Any) -> None:
        """Record that a trial continues from the checkpoint of another one."""
        self._record({"trial": trial, "at": position, **facts})

    def begin(self, trial: str, position: int) -> None:
        """Record where a trial starts or continues: after an earlier launch or a lost exploit."""
        entry = self.of(trial)
        if position != entry.high and not entry.knows(position):
            self.move(trial, position)

    def release(self, trial: str) -> None:
        """Release the reservation of a trial that has ended."""
        if self.of(trial).reserved:
            self._record({"trial": trial, "ended": True})

    def rung(self, trial: str, rung: int, loss: float, best: float = inf) -> None:
        """Record the loss of a trial at a rung, and its lowest loss, unless recorded already."""
        if rung not in self.of(trial).rungs:
            self._record({"trial": trial, "rung": rung, "loss": loss, "best": best})

    def join(self, trial: str, position: int, file: str) -> None:
        """Record that a trial is to continue from a better point once it reaches a position."""
        self._record({"trial": trial, "join": [position, file]})

    def _record(self, event: Event) -> None:
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            line = json.dumps(event, default=_plain)
            _append(self.file, line, synced=self.limit is not None)
        self._apply(event)

    def _apply(self, event: Event) -> None:
        if "limit" in event:
            self.limit, self.before = event["limit"], event["before"]
            return
        if event.get("was"):
            self.entries[event["trial"]] = self.entries.pop(event["was"])
        entry = self.entries.setdefault(event["trial"], Entry())
        entry.identity = event.get("identity", entry.identity)
        if "upto" in event:
            entry.reserved = max(entry.reserved, event["upto"] - entry.high)
            entry.last = event["last"]
        if "to" in event:
            counts = event["monitored"], event["evaluations"], event.get("again", 0)
            entry.report(event["from"], event["to"], *counts)
        if "at" in event:
            entry.low = entry.high = event["at"]
        entry.over = event.get(OVER, entry.over)
        if "ended" in event or OVER in event:
            entry.reserved = 0
        if "rung" in event:
            entry.rungs.setdefault(event["rung"], event["loss"])
            entry.best = min(entry.best, event.get("best", inf))
        if "join" in event:
            entry.joins = (int(event["join"][0]), str(event["join"][1]))


def spent_in(folder: Path) -> Spending:
    """The total spending of the launch in a folder; zeros if it has not begun.

    Where every call of the function is counted, what was repeated includes what killed workers had
    not reported.

    >>> spent_in(Path("nowhere")).charged
    0
    """
    account, calls = Account(folder / ACCOUNT_FILE), calls_in(folder / CALLS_FOLDER)
    trials = {*account.entries, *calls}
    again = sum(account.of(trial).repeated_of(calls.get(trial, 0)) for trial in trials)
    return replace(account.spending, repeated=again)


def _append(file: Path, line: str, *, synced: bool) -> None:
    """Append a line; if a crash has truncated the last line, start a new one first."""
    with file.open("ab") as out:
        begins = out.tell() == 0 or _ends_whole(file)
        out.write(("" if begins else "\n").encode() + line.encode() + b"\n")
        out.flush()
        if synced:
            os.fsync(out.fileno())


def _ends_whole(file: Path) -> bool:
    with file.open("rb") as read:
        read.seek(-1, os.SEEK_END)
        return read.read(1) == b"\n"


def _plain(value: Any) -> Any:
    """A NumPy scalar as a number; anything else that JSON does not have as text."""
    return value.item() if hasattr(value, "item") else str(value)


def events_in(file: Path | None) -> Iterator[dict[str, Any]]:
    """The events of a file, without a line truncated by a crash."""
    if file is None or not file.is_file():
        return
    for line in file.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
