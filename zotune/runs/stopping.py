"""Stopping criteria of a run (target, tolerances, time), and the message at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from time import monotonic
from typing import Any

import torch

from zotune.config import Config
from zotune.core.curve import LOSS
from zotune.core.names import CONVERGED, DIVERGED, EXHAUSTED, RAN_TO_END, RUNNING, STOPPED
from zotune.core.state import State
from zotune.errors import ConfigError
from zotune.loop import Loop
from zotune.methods import Choice

BLOCKS = 10
"""Tolerances are checked over this many times d + 1 evaluations."""
MANY = 0.5
"""Share of failed evaluations above which the run does not count as a success."""
SAME = 1e-14
"""Relative difference of losses that differ by rounding only."""
STATIONARY = (
    "the loss never changed from its start, where all differences may vanish: a saddle (such as a "
    "network whose weights are all zero), a minimum or a flat region; start elsewhere, such as at "
    "small random values, or give a larger mu"
)
"""Said of a run that has not left its start."""
TARGET, FTOL, XTOL, SECONDS = "target", "ftol", "xtol", "seconds"
SIZE = "size"
"""Key of ``Stop.size`` in a checkpoint."""
ASKED = "on_report ended the run"
"""Why a run ended whose ``on_report`` returned True or raised StopIteration."""
STUCK = "no point was found to be better than the start"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass
class Stop:
    """Ends a run at a target, at lack of progress, or after a time.

    ``ftol`` and ``xtol`` end it if, over 10 (d + 1) evaluations, no best loss has fallen by more
    than ``ftol`` max(|loss|, start − loss), or no coordinate of a best point has moved by more than
    ``xtol`` times the largest |x| that it has had. Both are relative to the function itself: a
    function or a coordinate in other units ends at the same evaluation.
    """

    target: float | None = None
    ftol: float | None = None
    xtol: float | None = None
    seconds: float | None = None
    began: float = field(default_factory=monotonic)
    anchors: dict[str, tuple[int, torch.Tensor]] = field(default_factory=dict)
    """For each tolerance, the evaluations and values at the last change that exceeded it."""
    size: torch.Tensor | None = None
    """The largest |x| that each coordinate of a best point has had, for ``xtol``."""
    timed_out: bool = False
    """Whether the run was stopped because its seconds were over."""
    asked: bool = False
    """Whether the run was stopped because its ``on_report`` asked for it."""

    def __post_init__(self) -> None:
        for name in (FTOL, XTOL, SECONDS):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and isfinite(value) and value >= 0):
                raise ConfigError(f"{name} must be a number of at least 0, got {value!r}")
        if self.target is not None and not (_is_number(self.target) and self.target == self.target):
            raise ConfigError(f"target must be a number, got {self.target!r}")

    @property
    def is_wanted(self) -> bool:
        """Whether any criterion has to be checked between reports."""
        return any(getattr(self, name) is not None for name in (TARGET, FTOL, XTOL, SECONDS))

    @property
    def asks_for_convergence(self) -> bool:
        """Whether a target or tolerance was given, so that spending the budget is no success."""
        return any(getattr(self, name) is not None for name in (TARGET, FTOL, XTOL))

    def reason(self, state: State) -> str:
        """Why to stop now; empty: continue."""
        if self.meets_target(state):
            return f"the target {self.target:g} was reached"
        if self.ftol is not None:
            best = state.best_loss
            scale = torch.maximum(best.abs(), state.start_loss - best)
            if self._rests(FTOL, self.ftol * scale, state, best):
                return f"the best loss no longer fell by more than ftol = {self.ftol:g}"
        if self.xtol is not None:
            now = state.best_x.abs()
            self.size = now if self.size is None else torch.maximum(self.size, now)
            if self._rests(XTOL, self.xtol * self.size, state, state.best_x):
                return f"the best point no longer moved by more than xtol = {self.xtol:g}"
        if self.seconds is not None and monotonic() - self.began >= self.seconds:
            self.timed_out = True
            return f"{self.seconds:g} seconds were over"
        return ""

    def meets_target(self, state: State) -> bool:
        """Whether a target was given, and a loss is at most that."""
        return self.target is not None and float(state.best_loss.min()) <= self.target

    def _rests(
        self, name: str, tolerance: torch.Tensor, state: State, values: torch.Tensor
    ) -> bool:
        """Whether values have stayed within a tolerance for long enough."""
        now = min(lane.ledger.evaluations for lane in state.lanes)
        if name in self.anchors:
            since, before = self.anchors[name]
            if bool((values - before).abs().le(tolerance).all()):
                return now - since >= BLOCKS * (state.best_x.shape[-1] + 1)
        self.anchors[name] = now, values.clone()
        return False

    def notes(self) -> dict[str, Any]:
        """Data for the checkpoint, so that a resumed run stops where an uninterrupted one does."""
        seen = {name: [since, values.tolist()] for name, (since, values) in self.anchors.items()}
        return seen if self.size is None else {**seen, SIZE: self.size.tolist()}

    def restore(self, notes: Mapping[str, Any], state: State) -> None:
        """Restore the data of a checkpoint."""
        like = {FTOL: state.best_loss, XTOL: state.best_x}
        for name in like.keys() & notes.keys():
            since, values = notes[name]
            self.anchors[name] = since, like[name].new_tensor(values)
        if SIZE in notes:
            self.size = state.best_x.new_tensor(notes[SIZE])


def end_of(loop: Loop, state: State, stop: Stop | None = None, stopped: str = "") -> dict[str, Any]:
    """The end of a run, or its current status, as stored in a Run and a checkpoint.

    Args:
        loop: the loop of the run.
        state: its state.
        stop: its stopping criteria.
        stopped: why it was stopped; empty if it was not.
    """
    start = loop.iterate.begins_at
    at_start = start is not None and torch.equal(state.best_x, start)
    return end_at(
        loop.config,
        state,
        loop.status(state),
        loop.chosen(state),
        stop,
        stopped,
        repeated=loop.repeated,
        stuck=at_start or is_stuck(state),
    )


def end_at(
    config: Config,
    state: State,
    status: str,
    chosen: Iterable[Choice],
    stop: Stop | None = None,
    stopped: str = "",
    *,
    stuck: bool | None = None,
    repeated: int = 0,
) -> dict[str, Any]:
    """The same without a loop, for checkpoints that do not store it."""
    failed = _failed(state)
    stuck = is_stuck(state) if stuck is None else stuck
    said = [ending(config, state, status, stopped, failed=failed, repeated=repeated, chosen=chosen)]
    ended = status in RAN_TO_END or bool(stopped)
    if stuck and ended and state.ledger.evaluations > 1:
        said.append(f"{STUCK}: {STATIONARY}" if stays_at_start(state) else STUCK)
    return {
        "status": STOPPED if stopped and status == RUNNING else status,
        "message": "; ".join(said),
        "success": succeeded(state, status, stopped, stop or Stop(), failed, stuck=stuck),
        "failed": failed,
        "repeated": repeated,
    }


def is_stuck(state: State) -> bool:
    """Whether no replicate has a loss below that of its start."""
    return not bool((state.best_loss < state.start_loss).any())


def _failed(state: State) -> int:
    """Evaluations without a finite value."""
    told = [lane.told.values for lane in state.lanes if lane.told is not None]
    counted = sum(lane.failed for lane in state.lanes)
    return counted + sum(int((~values.isfinite()).sum()) for values in told)


def ending(
    config: Config,
    state: State,
    status: str,
    stopped: str,
    *,
    failed: int,
    repeated: int,
    chosen: Iterable[Choice],
) -> str:
    """The message of a run: why it ended, failed and repeated evaluations, and noise."""
    spent = state.ledger.evaluations
    said = [stopped or _end_of(config, state, status, chosen)]
    if failed:
        many = ", more than half: check the function, give bounds or start elsewhere"
        said.append(
            f"{failed} of {spent} evaluations failed{many if failed > MANY * spent else ''}"
        )
    if repeated:
        many = "1 evaluation was" if repeated == 1 else f"{repeated} evaluations were"
        said.append(f"{many} repeated after a failure, beside the budget")
    said += [f"mu = {one}" for one in chosen if one.setting == "mu"]
    said += [f"the function is noisy: {one.reason}" for one in chosen if one.setting == "noise"]
    return "; ".join(said)


def stays_at_start(state: State) -> bool:
    """Whether no step of any replicate has changed the loss, beyond its rounding error."""
    if not min(lane.steps for lane in state.lanes):
        return False
    for lane in state.lanes:
        start = lane.start_loss.double().cpu()
        for loss in (lane.loss, lane.best_loss, *(at.tensors[LOSS] for at in lane.curve.seen)):
            if not bool((loss.double().cpu() - start).abs().le(SAME * start.abs()).all()):
                return False
    return True


def _end_of(config: Config, state: State, status: str, chosen: Iterable[Choice]) -> str:
    if status == CONVERGED:
        said = list(chosen)
        why = "; ".join(one.reason for one in said if one.setting == "end")
        name = next((one.value for one in said if one.setting == "method"), config.method)
        spent = state.ledger.evaluations
        return f"{name} ended after {spent} of {config.budget} evaluations: {why}"
    if status == DIVERGED:
        which = "the run" if config.replicates == 1 else "every replicate"
        return f"{which} diverged; give a smaller eta, or L"
    if status != EXHAUSTED:
        return "the run continues"
    left = config.budget - state.ledger.spent(config.count)
    rest = f", but for {left}, too few for a whole block" if left else ""
    unit = config.count.removesuffix("s") if config.budget == 1 else config.count
    return f"the budget of {config.budget} {unit} was spent{rest}"


def succeeded(
    state: State, status: str, stopped: str, stop: Stop, failed: int, *, stuck: bool
) -> bool:
    """Whether a run was successful.

    If a target or a tolerance is given, one of them must be met. Otherwise the whole budget must be
    spent, and not the time be over or ``on_report`` end the run. A tolerance and a budget count
    only if a point below the start was found: a run that is stuck has not converged. In any case,
    at most half of the evaluations may have failed. A run that continues is not successful yet.
    """
    if (stopped and (stop.timed_out or stop.asked)) or (status == RUNNING and not stopped):
        return False
    if status == DIVERGED or failed > MANY * state.ledger.evaluations:
        return False
    if stop.meets_target(state):
        return True
    return not stuck and (bool(stopped) or not stop.asks_for_convergence)
