"""Stopping criteria of a run (target, tolerances, time), and the message at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from time import monotonic
from typing import Any

import torch

from zotune.config import Config
from zotune.core.curve import LOSS
from zotune.core.names import DIVERGED, EXHAUSTED, RUNNING, STOPPED
from zotune.core.state import State
from zotune.errors import ConfigError
from zotune.loop import Loop
from zotune.loop.auto import VALUES
from zotune.loop.divergence import FAILED_VALUES

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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass
class Stop:
    """Ends a run at a target, at lack of progress, or after a time.

    ``ftol`` and ``xtol`` end it if, over 10 (d + 1) evaluations, no best loss has fallen by more
    than ``ftol`` max(1, |loss|), or no coordinate of a best point has moved by more than ``xtol``
    max(1, |x|).
    """

    target: float | None = None
    ftol: float | None = None
    xtol: float | None = None
    seconds: float | None = None
    began: float = field(default_factory=monotonic)
    anchors: dict[str, tuple[int, torch.Tensor]] = field(default_factory=dict)
    """For each tolerance, the evaluations and values at the last change that exceeded it."""
    timed_out: bool = False
    """Whether the run was stopped because its seconds were over."""

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
        if self.target is not None and float(state.best_loss.min()) <= self.target:
            return f"the target {self.target:g} was reached"
        if self.ftol is not None and self._rests(FTOL, self.ftol, state, state.best_loss):
            return f"the best loss no longer fell by more than ftol = {self.ftol:g}"
        if self.xtol is not None and self._rests(XTOL, self.xtol, state, state.best_x):
            return f"the best point no longer moved by more than xtol = {self.xtol:g}"
        if self.seconds is not None and monotonic() - self.began >= self.seconds:
            self.timed_out = True
            return f"{self.seconds:g} seconds were over"
        return ""

    def _rests(self, name: str, tolerance: float, state: State, values: torch.Tensor) -> bool:
        """Whether values have stayed within a tolerance for long enough."""
        now = min(lane.ledger.evaluations for lane in state.lanes)
        if name in self.anchors:
            since, before = self.anchors[name]
            if bool((values - before).abs().le(tolerance * values.abs().clamp(min=1)).all()):
                return now - since >= BLOCKS * (state.best_x.shape[-1] + 1)
        self.anchors[name] = now, values.clone()
        return False

    def notes(self) -> dict[str, Any]:
        """Data for the checkpoint, so that a resumed run stops where an uninterrupted one does."""
        return {name: [since, values.tolist()] for name, (since, values) in self.anchors.items()}

    def restore(self, notes: Mapping[str, Any], state: State) -> None:
        """Restore the data of a checkpoint."""
        like = {FTOL: state.best_loss, XTOL: state.best_x}
        for name, (since, values) in notes.items():
            self.anchors[name] = since, like[name].new_tensor(values)


def end_of(loop: Loop, state: State, stop: Stop | None = None, stopped: str = "") -> dict[str, Any]:
    """The end of a run, or its current status, as stored in a Run and a checkpoint.

    Args:
        loop: the loop of the run.
        state: its state.
        stop: its stopping criteria.
        stopped: why it was stopped; empty if it was not.
    """
    return end_at(loop.config, state, loop.status(state), loop.chosen(state), stop, stopped)


def end_at(
    config: Config,
    state: State,
    status: str,
    chosen: Mapping[str, str],
    stop: Stop | None = None,
    stopped: str = "",
) -> dict[str, Any]:
    """The same without a loop, for checkpoints that do not store it."""
    failed = _failed(state)
    return {
        "status": STOPPED if stopped and status == RUNNING else status,
        "message": ending(config, state, status, stopped, failed=failed, chosen=chosen),
        "success": succeeded(state, status, stopped, stop or Stop(), failed),
        "failed": failed,
    }


def _failed(state: State) -> int:
    """Evaluations without a finite value."""
    known = [lane.memory[VALUES] for lane in state.lanes if VALUES in lane.memory]
    counted = [
        int(lane.memory[FAILED_VALUES]) for lane in state.lanes if FAILED_VALUES in lane.memory
    ]
    return sum(counted) + sum(int((~values.isfinite()).sum()) for values in known)


def ending(
    config: Config,
    state: State,
    status: str,
    stopped: str,
    *,
    failed: int,
    chosen: Mapping[str, str],
) -> str:
    """The message of a run: why it ended, failed evaluations, and noise."""
    spent = state.ledger.evaluations
    said = [stopped or _end_of(config, state, status)]
    if failed:
        many = ", more than half: check the function, give bounds or start elsewhere"
        said.append(
            f"{failed} of {spent} evaluations failed{many if failed > MANY * spent else ''}"
        )
    if stays_at_start(state):
        said.append(STATIONARY)
    if "noise" in chosen:
        said.append(f"the function is noisy: {chosen['noise']}")
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


def _end_of(config: Config, state: State, status: str) -> str:
    if status == DIVERGED:
        which = "the run" if config.replicates == 1 else "every replicate"
        return f"{which} diverged; give a smaller eta, or L"
    if status != EXHAUSTED:
        return "the run continues"
    left = config.budget - state.ledger.spent(config.count)
    rest = f", but for {left}, too few for a whole block" if left else ""
    unit = config.count.removesuffix("s") if config.budget == 1 else config.count
    return f"the budget of {config.budget} {unit} was spent{rest}"


def succeeded(state: State, status: str, stopped: str, stop: Stop, failed: int) -> bool:
    """Whether a run was successful.

    If a target or a tolerance is given, one of them must be met. Otherwise the whole budget must be
    spent and the best loss must not be above the start. In either case, at most half of the
    evaluations may have failed. A run that continues is not successful yet.
    """
    if status == RUNNING and not stopped:
        return False
    if status == DIVERGED or failed > MANY * state.ledger.evaluations:
        return False
    if stop.asks_for_convergence:
        return bool(stopped) and not stop.timed_out
    return bool((state.best_loss <= state.start_loss).any())
