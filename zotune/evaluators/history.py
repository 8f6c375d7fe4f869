"""Log of the last programs of a run, to bring its copies up to date."""

from __future__ import annotations

from collections import deque
from typing import Any

from zotune.core.state import LaneState
from zotune.evaluators.following import (
    BEGIN,
    Chapter,
    FollowedLoop,
    JoinState,
    News,
    Sent,
    checksum,
    state_of,
    state_to_join,
)

KEPT = 256
"""Number of programs in the log; a copy that has missed more is sent the state."""

Position = tuple[int, int]
"""Number of programs that a copy has begun, and of answers to the last of them."""
NOWHERE: Position = (-1, 0)


class History:
    """Records the programs of a run for its copies.

    Args:
        loop: the loop of the run.
    """

    def __init__(self, loop: FollowedLoop) -> None:
        self.loop = loop
        self._chapters: deque[Chapter] = deque(maxlen=KEPT)
        self._count = 0
        """Number of programs that have begun."""
        self._states: dict[int, LaneState] = {}
        """State of each lane, before its current program or after its last."""
        self._to_join: JoinState | None = None
        self._proof: int | None = None
        """Checksum of x before the current program."""

    def begin(self, lane: int, name: str, arguments: tuple[Any, ...]) -> None:
        """Record that a program begins."""
        if name == BEGIN:
            self._states.pop(lane, None)
        elif self._states.get(lane) is not arguments[0]:
            self._chapters.clear()  # this state is not the result of the last program
            self._states[lane] = arguments[0]
        self._count += 1
        self._to_join = self._proof = None
        limit = self.loop.lanes[lane].budget.limit
        self._chapters.append(Chapter(lane, name, [], limit))

    def add(self, answer: Sent) -> None:
        """Record an answer to the current program."""
        self._chapters[-1].answers.append(answer)

    def end(self, result: Any) -> None:
        """Record that the current program has ended."""
        self._states[self._chapters[-1].lane] = state_of(result)

    def news_for(self, position: Position, parts: int) -> tuple[News, Position]:
        """The news for a copy at a position, and its position afterwards.

        ``parts`` is the number of parts of the current request, which the copy verifies.
        """
        now = (self._count, len(self._chapters[-1].answers))
        if self._proof is None:
            self._proof = checksum(self.loop, self._states.get(self._chapters[-1].lane))
        proof = self._proof
        known, answers = position
        first = self._count - len(self._chapters)
        if known > first:
            at = known - first - 1
            rest = list(self._chapters)[at:]
            rest[0] = rest[0]._replace(name="", answers=rest[0].answers[answers:])
            return News(rest, None, proof, parts), now
        if known == first and known >= 0 and self._follows_from(known):
            return News(list(self._chapters), None, proof, parts), now
        if self._to_join is None:
            self._to_join = state_to_join(self.loop, self._states)
        return News([self._chapters[-1]], self._to_join, proof, parts), now

    def _follows_from(self, known: int) -> bool:
        """Whether a new copy can start with the first program instead of a state."""
        return known == 0 and self._chapters[0].name == BEGIN
