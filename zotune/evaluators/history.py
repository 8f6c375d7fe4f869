"""The last programs of a run, and what each copy of it has been told of them."""

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
"""Programs that a copy may have missed and still catch up with by their answers."""

Position = tuple[int, int]
"""How many programs a copy has begun, and how many answers it has of the last."""
NOWHERE: Position = (-1, 0)


class History:
    """Writes down the programs of a run, for copies that follow it.

    Args:
        loop: the run itself.
    """

    def __init__(self, loop: FollowedLoop) -> None:
        self.loop = loop
        self._chapters: deque[Chapter] = deque(maxlen=KEPT)
        self._count = 0
        """Programs that have begun."""
        self._states: dict[int, LaneState] = {}
        """Of each lane, before its current program or after its last."""
        self._to_join: JoinState | None = None
        self._proof: int | None = None
        """Of x before the current program."""

    def begin(self, lane: int, name: str, arguments: tuple[Any, ...]) -> None:
        """A program begins."""
        if name == BEGIN:
            self._states.pop(lane, None)
        elif self._states.get(lane) is not arguments[0]:
            self._chapters.clear()  # the run goes on from another state than it has ended with
            self._states[lane] = arguments[0]
        self._count += 1
        self._to_join = self._proof = None
        limit = self.loop.lanes[lane].budget.limit
        self._chapters.append(Chapter(lane, name, [], limit))

    def add(self, answer: Sent) -> None:
        """The program was answered."""
        self._chapters[-1].answers.append(answer)

    def end(self, result: Any) -> None:
        """The program has ended."""
        self._states[self._chapters[-1].lane] = state_of(result)

    def news_for(self, position: Position, parts: int) -> tuple[News, Position]:
        """What a copy at a position must be told, and where it is then.

        ``parts`` is how many the request has that is asked now, which the copy compares.
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
        """Whether a copy that has only been built can begin with the run."""
        return known == 0 and self._chapters[0].name == BEGIN
