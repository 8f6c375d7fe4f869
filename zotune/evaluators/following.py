"""Replicate a run in a worker by exchanging scalars only.

A program of the loop is a function of its state and of the answers it is sent. A worker that runs
the same programs from the same state with the same answers has the same x, bit for bit, and so the
same points, which therefore need not be sent. This holds for every estimator, update and step rule,
on vectors and on weights.
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
from zotune.methods import Method

BEGIN = "begin"
"""Name of the first program, which has no state as argument."""
SAMPLE = 4096
"""Maximum number of entries of a tensor that its checksum covers."""

Sent = tuple[npt.NDArray[Any], Mapping[str, npt.NDArray[Any]], npt.NDArray[Any] | None]
"""Values, metrics and residuals of an answer, as sent between processes."""


class FollowedLane(Protocol):
    """The interface of a lane for evaluators; its programs are methods, called by name."""

    budget: Budget

    def limit_to(self, limit: int) -> None:
        """End when ``limit`` is spent."""


class FollowedLoop(Protocol):
    """The interface of a loop for evaluators."""

    config: Config
    objective: Any
    iterate: Iterate
    method: Method

    @property
    def lanes(self) -> Sequence[FollowedLane]:
        """The lanes, one for all replicates or one for each."""


class Chapter(NamedTuple):
    """A program of a run, or the rest of one, with the answers that it was sent."""

    lane: int
    name: str
    """Name of the lane's method; empty if the copy's current program continues."""
    answers: list[Sent]
    limit: int
    """The limit of the lane's budget; a trial may temporarily have less than its budget."""


class JoinState(NamedTuple):
    """The complete state that a copy needs to join a run before one of its programs."""

    states: dict[int, LaneState]
    tensors: dict[str, Tensor]
    notes: dict[str, Any]


@dataclass(frozen=True)
class News:
    """The programs and answers that a copy has missed, and a checksum to verify its x."""

    chapters: list[Chapter] = field(default_factory=list)
    to_join: JoinState | None = None
    checksum: int = 0
    parts: int = 0
    """Number of parts of the current request."""


class Copy:
    """A copy of a run, which is sent the answers.

    Args:
        loop: a loop of the same configuration, with its own objective.
    """

    def __init__(self, loop: FollowedLoop) -> None:
        self.loop = loop
        self._states: dict[int, LaneState] = {}
        self._program: Program[Any] | None = None
        self._lane = 0
        self._request: Request | None = None

    def follow(self, news: News) -> bool:
        """Advance to the current request; return whether x is the same as the run's."""
        if news.to_join is not None:
            self._restore(news.to_join)
        for chapter in news.chapters:
            if chapter.name:
                self._begin(chapter)
            for answer in chapter.answers:
                self._send(arrived(*answer, self.loop.iterate.device))
        if checksum(self.loop, self._states.get(self._lane)) != news.checksum:
            return False
        asked = self._request
        return asked is not None and asked.parts is not None and asked.parts().count == news.parts

    def evaluate(self, parts: Sequence[int]) -> list[Answer]:
        """Evaluate some parts of the current request."""
        assert self._request is not None  # the run has a request
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
    """The state in a program's result; reports also return an observation."""
    state: LaneState = result[0] if isinstance(result, tuple) else result
    return state


def sent(answer: Answer) -> Sent:
    """An answer in the form that is sent between processes, without ∇f."""
    metrics = {name: value.cpu().numpy() for name, value in answer.metrics.items()}
    outputs = None if answer.outputs is None else answer.outputs.cpu().numpy()
    return answer.values.cpu().numpy(), metrics, outputs


def arrived(
    values: npt.NDArray[Any],
    metrics: Mapping[str, npt.NDArray[Any]],
    outputs: npt.NDArray[Any] | None,
    device: torch.device,
) -> Answer:
    """The inverse of ``sent``."""
    made = {name: torch.from_numpy(np.array(value)) for name, value in metrics.items()}
    rows = None if outputs is None else torch.from_numpy(np.array(outputs)).to(device)
    return Answer(torch.from_numpy(np.array(values)).to(device), None, made, rows)


def checksum(loop: FollowedLoop, state: LaneState | None) -> int:
    """A checksum of a sample of x, to detect copies that differ."""
    tensors = [] if state is None else [state.x]
    tensors += [p.data for p in getattr(loop.objective, "trained", {}).values()]
    found = 0
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        few = flat[:: max(1, -(-flat.numel() // SAMPLE))].contiguous().cpu()
        found = zlib.crc32(few.view(torch.uint8).numpy().tobytes() if len(few) else b"", found)
    return found


def state_to_join(loop: FollowedLoop, states: Mapping[int, LaneState]) -> JoinState:
    """The state for a copy to join before the program that starts from these states."""
    notes = loop.iterate.notes() | {"config": loop.config.model_dump()}
    return JoinState(dict(states), loop.iterate.tensors(), notes)
