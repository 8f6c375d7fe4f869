"""A copy of a run that follows it by scalars: the same programs, sent the same answers.

A program of the loop is a function of its state and of the answers it is sent. Whoever starts the
same programs from the same state and sends them the same answers has the same x, bit for bit, and
so the same points: they need not be sent. That holds for every estimator, update and step rule, on
vectors and on weights alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from zotune.config import Config
from zotune.core.budget import Budget
from zotune.core.state import LaneState
from zotune.iterates import Answer, Iterate, Program, Request

BEGIN = "begin"
"""The program that has no state before it."""
SAMPLE = 4096
"""Numbers of a tensor that its checksum covers."""

Sent = tuple[npt.NDArray[Any], Mapping[str, npt.NDArray[Any]]]
"""Values and metrics of an answer, as they travel."""


class FollowedLane(Protocol):
    """What an evaluator knows of a lane; its programs are methods, called by their names."""

    budget: Budget

    def limit_to(self, limit: int) -> None:
        """End when so much is spent."""


class FollowedLoop(Protocol):
    """What an evaluator knows of the loop whose requests it answers."""

    config: Config
    objective: Any
    iterate: Iterate
    chooses: bool

    @property
    def lanes(self) -> Sequence[FollowedLane]:
        """Its replicates, together or apart."""


class Chapter(NamedTuple):
    """A program of a run, or the rest of one, and the answers that it was sent."""

    lane: int
    name: str
    """Of the lane's method; empty: the program that the copy is in goes on."""
    answers: list[Sent]
    limit: int
    """What the lane may spend: a trial may be granted less than its budget for a while."""


class JoinState(NamedTuple):
    """All that a copy needs to join a run before one of its programs."""

    states: dict[int, LaneState]
    tensors: dict[str, Tensor]
    notes: dict[str, Any]


@dataclass(frozen=True)
class News:
    """What a copy has missed, and how it can tell that it still is one."""

    chapters: list[Chapter] = field(default_factory=list)
    to_join: JoinState | None = None
    checksum: int = 0
    parts: int = 0
    """Of the request that is asked now."""


class Copy:
    """A run that is told its answers.

    Args:
        loop: of the same configuration and an objective of its own.
    """

    def __init__(self, loop: FollowedLoop) -> None:
        self.loop = loop
        self._states: dict[int, LaneState] = {}
        self._program: Program[Any] | None = None
        self._lane = 0
        self._request: Request | None = None

    def follow(self, news: News) -> bool:
        """Take part up to the request that is asked now; whether x is that of the run."""
        if news.to_join is not None:
            self._restore(news.to_join)
        for chapter in news.chapters:
            if chapter.name:
                self._begin(chapter)
            for values, metrics in chapter.answers:
                self._send(arrived(values, metrics, self.loop.iterate.device))
        if checksum(self.loop, self._states.get(self._lane)) != news.checksum:
            return False
        asked = self._request
        return asked is not None and asked.parts is not None and asked.parts().count == news.parts

    def evaluate(self, parts: Sequence[int]) -> list[Answer]:
        """Some parts of the request that is asked now."""
        assert self._request is not None  # the run is asking
        assert self._request.parts is not None
        cut = self._request.parts()
        return [cut.evaluate(part) for part in parts]

    def _restore(self, to_join: JoinState) -> None:
        self._program = self._request = None
        self._states = dict(to_join.states)
        if 0 in self._states:
            iterate = self.loop.iterate
            self._states[0] = iterate.restore(self._states[0], to_join.tensors, to_join.notes)

    def _begin(self, chapter: Chapter) -> None:
        lane = self.loop.lanes[chapter.lane]
        lane.limit_to(chapter.limit)
        method, self._lane = getattr(lane, chapter.name), chapter.lane
        begins = chapter.name == BEGIN
        self._program = method() if begins else method(self._states[chapter.lane])
        self._advance(lambda program: next(program))

    def _send(self, answer: Answer) -> None:
        self._advance(lambda program: program.send(answer))

    def _advance(self, go_on: Callable[[Program[Any]], Request]) -> None:
        assert self._program is not None  # chapters begin with their names
        try:
            self._request = go_on(self._program)
        except StopIteration as end:
            self._program = self._request = None
            self._states[self._lane] = state_of(end.value)


def state_of(result: Any) -> LaneState:
    """The state that a program has ended with; reports give an observation beside it."""
    state: LaneState = result[0] if isinstance(result, tuple) else result
    return state


def sent(answer: Answer) -> Sent:
    """An answer as it travels; ∇f stays where it is."""
    metrics = {name: value.cpu().numpy() for name, value in answer.metrics.items()}
    return answer.values.cpu().numpy(), metrics


def arrived(
    values: npt.NDArray[Any], metrics: Mapping[str, npt.NDArray[Any]], device: torch.device
) -> Answer:
    """An answer that has travelled."""
    made = {name: torch.from_numpy(np.array(value)) for name, value in metrics.items()}
    return Answer(torch.from_numpy(np.array(values)).to(device), None, made)


def checksum(loop: FollowedLoop, state: LaneState | None) -> int:
    """A few bytes that tell one x from another, of a sample of its numbers."""
    tensors = [] if state is None else [state.x]
    tensors += [p.data for p in getattr(loop.objective, "trained", {}).values()]
    found = 0
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        few = flat[:: max(1, -(-flat.numel() // SAMPLE))].contiguous().cpu()
        found = zlib.crc32(few.view(torch.uint8).numpy().tobytes() if len(few) else b"", found)
    return found


def state_to_join(loop: FollowedLoop, states: Mapping[int, LaneState]) -> JoinState:
    """What a copy needs to join before the program that starts from these states."""
    notes = loop.iterate.notes() | {"config": loop.config.model_dump()}
    return JoinState(dict(states), loop.iterate.tensors(), notes)
