"""The descent of ``gauss-newton``: blocks of differences, and steps between them.

A block of d differences measures J. Steps are taken from it for one evaluation each; Broyden's
update corrects J by what each of them finds. A new block is measured once such steps gain less per
evaluation than the last block did, or one of them is rejected.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from zotune.core.merit import merit
from zotune.methods.parts.oracle import Spent
from zotune.methods.parts.residuals import Model, sizes
from zotune.methods.parts.trust import bounded_step
from zotune.methods.start import Points, Stage, Start, Vector

NEAR, WIDE, WIDEST = 1e-7, 100.0, 1e-3
"""Differences are taken over this share of a coordinate; wider by this factor, up to this share,
where no step gains anything: the function may be rounded."""
SMALL = 1e-3
"""A coordinate counts as at least this share of the largest size that it has had; as all of it
under noise."""
FLAT = 1e-10
"""Converged if the model of the last block predicts less than this share of the value."""
TRIES = 8
"""Steps, each shorter, that may be rejected after a block before its differences are doubted."""
SLOWER = 1.0
"""A block is measured if a step gains less than this share of the last block's rate."""
RETRIES, FEW = 2, 4
"""Rejected steps, each shorter, before a block is measured: up to this many, one for so many
coordinates, as each costs as much as a difference."""
POOR, GOOD = 0.1, 0.75
"""The radius shrinks and grows if a step gains less and more of what was predicted."""
FIRST, FAILED = 1.0, 0.25
"""The first radius, in sizes of the start; the factor after a step that has failed."""
AGAIN = 3
"""Evaluations at the end of a noisy run: their mean is the value of its answer."""
DOUBTED, FARTHEST = 2, 0.1
"""Steps in a row with little gain before a point is evaluated again to see noise, and the largest
share of a coordinate for differences under noise."""
NOISY_BLOCKS = 3
"""Blocks under noise without a gain before a run ends."""


class Squares:
    """Minimise Σ r².

    Args:
        start: the start of the run, with its residuals.
    """

    def __init__(self, start: Start) -> None:
        assert start.residuals is not None  # the method is for functions that return them
        self.start = start
        x, r = start.x, start.residuals
        self.model = Model(x, r, float(merit(r)), np.zeros((len(r), start.dim)))
        self._first = self.model.value
        self._size = sizes(start)
        self._share = NEAR
        self._radius = 0.0
        self._noise = 0.0
        """Standard deviation of ‖r‖ at one point."""
        self._rate, self._since = 0.0, 0
        """Gain in log Σ r² per evaluation of the last block, and evaluations since it began."""
        self._repeated, self._poor = False, 0
        """Whether a point was evaluated again, to see noise; steps in a row that gained little."""
        self._idle = 0
        """Blocks in a row without a gain."""

    def run(self) -> Stage[str]:
        """Blocks and steps until nothing is gained."""
        reason = ""
        with suppress(Spent):
            while not reason and self.start.left > self._reserved:
                if not self._can_step:
                    yield from self._measured()
                reason = yield from self._descended()
        if self._noise:
            yield from self._averaged()
        return reason

    @property
    def _weights(self) -> Vector:
        """Those of the coordinates in the length of a step."""
        return 1 / self._size

    @property
    def _reserved(self) -> int:
        return AGAIN if self._noise else 0

    @property
    def _can_step(self) -> bool:
        """Whether there are derivatives, and the budget covers no new block."""
        return self._radius > 0 and self.start.left - self._reserved <= self.start.dim

    def _descended(self) -> Stage[str]:
        """Steps with one block of differences; why to end, if so."""
        if self.model.value <= np.finfo(float).eps ** 2 * self._first:
            return "the residuals vanish"
        before, tries = self.model.value, 0
        while self.start.left > self._reserved:
            m = self.model
            p = self._step()
            predicted = m.predicted(p)
            trial = self.start.inside(m.x + p)
            if predicted <= FLAT * m.value or np.array_equal(trial, m.x):
                return (yield from self._flat(before))
            fresh = m.is_fresh
            gain = yield from self._tried(trial, predicted)
            tries = 0 if gain > 0 else tries + 1
            if self._poor >= DOUBTED and not self._repeated and (yield from self._sees_noise()):
                return ""
            if gain > 0 and fresh:
                self._rate = gain / self._since
            elif not fresh and self._is_slow(gain, tries) and not self._can_step:
                return ""
            elif tries > TRIES:
                return (yield from self._flat(before))
        return ""

    def _is_slow(self, gain: float, tries: int) -> bool:
        """Whether a block of differences is the better use of the next d evaluations."""
        if gain > 0:
            return gain < SLOWER * self._rate
        return tries > min(RETRIES, self.start.dim // FEW)

    def _step(self) -> Vector:
        m, s = self.model, self.start
        return bounded_step(m.r, m.jacobian, self._weights, self._radius, s.low - m.x, s.high - m.x)

    def _tried(self, trial: Vector, predicted: float) -> Stage[float]:
        """Evaluate a step and move if it is lower; returns the gain in log Σ r²."""
        m = self.model
        (r,) = yield trial[None]
        self._since += 1
        p, value = trial - m.x, float(merit(r))
        length = float(np.linalg.norm(self._weights * p))
        ratio = (m.value - value) / predicted
        self._poor = 0 if ratio >= POOR else self._poor + 1
        if ratio < POOR:
            self._radius = length * (m.shorter(p, value) if np.isfinite(value) else FAILED)
        elif ratio > GOOD:
            self._radius = max(self._radius, 2 * length)
        if not value < m.value:
            if np.isfinite(value) and not m.is_fresh:
                m.learn(p, r, self._weights)
            return 0.0
        m.learn(p, r, self._weights)
        self.model = Model(trial, r, value, m.jacobian)
        self._size = np.maximum(self._size, np.abs(trial))
        self.start.jacobian = self.model.jacobian
        return float(np.log(m.value / max(value, np.finfo(float).tiny)))

    def _measured(self) -> Stage[None]:
        """Measure J at x by a block of differences; raises ``Spent`` if that is too much."""
        m, d = self.model, self.start.dim
        if self.start.left - self._reserved < d:
            raise Spent
        steps = self._differences()
        rows = yield m.x + np.diag(steps)
        self._since = d
        bad = np.flatnonzero(~np.isfinite(rows[:, 0]))
        if len(bad) and len(bad) <= self.start.left:
            steps[bad] = -steps[bad]
            points = self.start.inside((m.x + np.diag(steps))[bad])
            steps[bad] = points[np.arange(len(bad)), bad] - m.x[bad]
            rows = rows.copy()
            rows[bad] = yield points
            self._since += len(bad)
        known = np.isfinite(rows[:, 0]) & (steps != 0)
        jacobian = m.jacobian.copy()
        jacobian[:, known] = ((rows[known] - m.r) / steps[known, None]).T
        m.jacobian, m.is_fresh = jacobian, True
        self.start.jacobian = jacobian
        if not self._radius:
            self._radius = FIRST * float(np.sqrt(d))

    def _differences(self) -> Vector:
        """The step of each coordinate's difference, inside the bounds, to the side with more room.

        The sum x + step is rounded, so that the step is exactly the difference of two points.
        """
        x, low, high = self.model.x, self.start.low, self.start.high
        least = self._size if self._noise else SMALL * self._size
        h = self._share * np.maximum(np.abs(x), least)
        up, down = high - x, x - low
        sign = np.where(x >= 0, 1.0, -1.0)
        turn = np.where(sign > 0, up < h, down < h) & (np.where(sign > 0, down > up, up > down))
        sign = np.where(turn, -sign, sign)
        h = np.minimum(h, np.where(sign > 0, up, down))
        rounded: Vector = np.clip(x + sign * h, low, high) - x
        return rounded

    def _flat(self, before: float) -> Stage[str]:
        """What follows where no step gains anything: the end, or other differences."""
        m = self.model
        if not m.is_fresh:
            if self._can_step:
                raise Spent  # what is left covers no block, and the last one predicts no gain
            return ""
        self._idle = 0 if m.value < before * (1 - FLAT) else self._idle + 1
        if self._noise or not self._repeated:
            if self._noise and self._idle >= NOISY_BLOCKS:
                return "no step gains more than the noise"
            if (yield from self._sees_noise()):
                return ""
        if m.predicted(self._step()) <= FLAT * m.value:
            return f"the derivatives predict no gain beyond {FLAT:g} of the sum of squares"
        if self._share >= WIDEST:
            return "no step gains anything, with small and with large differences"
        self._share *= WIDE
        self._restart()
        return ""

    def _sees_noise(self) -> Stage[bool]:
        """Evaluate x again; if that differs, take differences that exceed the noise."""
        m, self._repeated = self.model, True
        (again,) = yield m.x[None]
        if not np.isfinite(again[0]) or np.array_equal(again, m.r):
            return False
        least = 3 * self._share if self._noise else NEAR
        self._noise = float(np.linalg.norm(again - m.r)) / 2**0.5
        size = max(float(np.linalg.norm(m.r)), np.finfo(float).tiny)
        self._share = min(FARTHEST, max(least, (self._noise / size) ** 0.5))
        why = f"the norm of the residuals at one point differs by {self._noise:.2g}"
        self.start.choose("noise", f"{self._noise:.2g}", why)
        r = (m.r + again) / 2
        self.model = Model(m.x, r, float(merit(r)), m.jacobian)
        self._restart()
        return True

    def _restart(self) -> None:
        """Forget the radius of steps that were taken with other differences."""
        self._radius = 0.0

    def _averaged(self) -> Stage[None]:
        """Evaluate the answer of a noisy run again; the mean is its value."""
        m, again = self.model, min(AGAIN, self.start.left)
        if not again:
            return
        rows: Points = yield np.stack([m.x] * again)
        values = merit(rows[np.isfinite(rows[:, 0])])
        if len(values):
            self.start.answer(m.x, float(values.mean()))
