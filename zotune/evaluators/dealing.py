"""Which parts of a request go to a worker that is free, and when one is given to another too."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from zotune.evaluators.following import Sent

SECONDS = 0.1
"""How long a worker should be busy with what it is dealt: messages cost a few milliseconds."""
SLOWER = 4.0
"""How many times the slowest recent part a part may take before it is dealt again."""
LEAST = 0.5
"""Seconds that a part has in any case: a busy machine lets processes wait that long."""
RECENT = 64

Flying = Sequence[tuple[float, list[int]]]
"""When parts were dealt out, and which, of each worker that works on some."""


@dataclass
class Pace:
    """How long parts take, seconds each."""

    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, seconds: float) -> None:
        """A part took so long."""
        self.recent.append(seconds)

    @property
    def mean(self) -> float | None:
        """Of recent parts; None before the first."""
        return sum(self.recent) / len(self.recent) if self.recent else None

    @property
    def patience(self) -> float | None:
        """How long a part may take; None where nothing is known."""
        return max(LEAST, SLOWER * max(self.recent)) if self.recent else None


class Deal:
    """The parts of one request: waiting, dealt out, found.

    Args:
        count: parts.
        workers: how many share them.
        pace: how long parts took so far.
    """

    def __init__(self, count: int, workers: int, pace: Pace) -> None:
        self.count, self.workers, self.pace = count, workers, pace
        self.found: dict[int, Sent] = {}
        self._waiting = deque(range(count))
        self._again: set[int] = set()
        self.repeated = 0
        """Parts that were given to a second worker."""
        self._deaths = dict.fromkeys(range(count), 0)

    @property
    def done(self) -> bool:
        """Whether all parts have an answer."""
        return len(self.found) == self.count

    def take(self) -> list[int]:
        """Parts for a worker that is free: an even share at most, and a tenth of a second's."""
        self._waiting = deque(part for part in self._waiting if part not in self.found)
        many = ceil(len(self._waiting) / max(1, self.workers))
        if self.pace.mean is not None:
            many = min(many, max(1, ceil(SECONDS / max(self.pace.mean, 1e-9))))
        else:
            many = min(many, 1)
        taken = [self._waiting.popleft() for _ in range(many)]
        self.repeated += sum(part in self._again for part in taken)
        return taken

    def patience(self, flying: Flying, now: float) -> float | None:
        """Seconds until the first part is late; None: there is nobody who could be."""
        each = self.pace.patience
        if each is None:
            return None
        late = [began + each * len(parts) for began, parts in flying if self._alone(parts)]
        return max(0.0, min(late) - now) if late else None

    def deal_again(self, flying: Flying, now: float) -> None:
        """Let late parts wait again, for the next worker that is free."""
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
        """Answers of parts, of which the first counts; whether these were."""
        self.pace.add(seconds / max(1, len(parts)))
        new = [part for part in parts if part not in self.found]
        for part, answer in zip(parts, answers, strict=True):
            self.found.setdefault(part, answer)
        return bool(new)

    def give_back(self, parts: Sequence[int]) -> None:
        """Parts that were dealt to a worker that has no answer."""
        missing = [part for part in parts if part not in self.found]
        self._again |= set(missing)
        self._waiting.extendleft(part for part in missing[::-1] if part not in self._waiting)

    def blame(self, parts: Sequence[int]) -> int:
        """A worker has died over these; how many have died over one of them at most."""
        for part in parts:
            self._deaths[part] += 1
        return max((self._deaths[part] for part in parts), default=0)

    def _alone(self, parts: Sequence[int]) -> list[int]:
        """Parts without an answer that only one worker has."""
        return [p for p in parts if p not in self.found and p not in self._again]
