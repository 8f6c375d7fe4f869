"""Scheduling: which parts of a request an idle worker gets, and when slow parts are duplicated."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from zotune.evaluators.following import Sent

SECONDS = 0.1
"""Seconds of work per message to a worker; a message costs a few milliseconds."""
SLOWER = 4.0
"""A part is late if it takes this many times as long as the slowest recent part."""
LEAST = 0.5
"""Minimum seconds before a part is late: on a busy machine processes wait that long."""
RECENT = 64

Flying = Sequence[tuple[float, list[int]]]
"""For each busy worker: when it got its parts, and their indices."""


@dataclass
class Pace:
    """Statistics of the seconds per part."""

    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, seconds: float) -> None:
        """Record the duration of a part."""
        self.recent.append(seconds)

    @property
    def mean(self) -> float | None:
        """Mean of recent parts; None before the first."""
        return sum(self.recent) / len(self.recent) if self.recent else None

    @property
    def patience(self) -> float | None:
        """Seconds after which a part is late; None if no duration is known."""
        return max(LEAST, SLOWER * max(self.recent)) if self.recent else None


class Deal:
    """The parts of one request: waiting, in progress, or done.

    Args:
        count: number of parts.
        workers: number of workers.
        pace: the durations of parts so far.
    """

    def __init__(self, count: int, workers: int, pace: Pace) -> None:
        self.count, self.workers, self.pace = count, workers, pace
        self.found: dict[int, Sent] = {}
        self._waiting = deque(range(count))
        self._again: set[int] = set()
        self.repeated: list[int] = []
        """Parts that were given to a worker again, because another one ended or was slow."""
        self._deaths = dict.fromkeys(range(count), 0)

    @property
    def done(self) -> bool:
        """Whether all parts have an answer."""
        return len(self.found) == self.count

    def take(self) -> list[int]:
        """Parts for an idle worker: at most an even share, and about ``SECONDS`` of work."""
        self._waiting = deque(part for part in self._waiting if part not in self.found)
        many = ceil(len(self._waiting) / max(1, self.workers))
        if self.pace.mean is not None:
            many = min(many, max(1, ceil(SECONDS / max(self.pace.mean, 1e-9))))
        else:
            many = min(many, 1)
        taken = [self._waiting.popleft() for _ in range(many)]
        self.repeated += [part for part in taken if part in self._again]
        return taken

    def patience(self, flying: Flying, now: float) -> float | None:
        """Seconds until the first part is late; None if no part can be late."""
        each = self.pace.patience
        if each is None:
            return None
        late = [began + each * len(parts) for began, parts in flying if self._alone(parts)]
        return max(0.0, min(late) - now) if late else None

    def deal_again(self, flying: Flying, now: float) -> None:
        """Put late parts back into the queue for the next idle worker."""
        each = self.pace.patience
        if each is None:
            return
        late = [
            part
            for began, parts in flying
            if now >= began + each * len(parts)
            for part in self._alone(parts)
        ]
        self._again |= set(late)
        self._waiting.extend(late)

    def add(self, parts: Sequence[int], answers: Sequence[Sent], seconds: float) -> bool:
        """Store the answers of parts unless they have one; return whether any was new."""
        self.pace.add(seconds / max(1, len(parts)))
        new = [part for part in parts if part not in self.found]
        for part, answer in zip(parts, answers, strict=True):
            self.found.setdefault(part, answer)
        return bool(new)

    def give_back(self, parts: Sequence[int], *, begun: bool = True) -> None:
        """Put the parts of a worker that has failed back; ``begun``: it may have evaluated them."""
        missing = [part for part in parts if part not in self.found]
        self._again |= set(missing) if begun else set()
        self._waiting.extendleft(part for part in missing[::-1] if part not in self._waiting)

    def blame(self, parts: Sequence[int]) -> int:
        """Count a worker's death for its parts; return the largest count of one part."""
        for part in parts:
            self._deaths[part] += 1
        return max((self._deaths[part] for part in parts), default=0)

    def _alone(self, parts: Sequence[int]) -> list[int]:
        """Parts without an answer that only one worker is evaluating."""
        return [p for p in parts if p not in self.found and p not in self._again]
