"""From a point and a step's directions to function values, within the memory allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from zotune.addresses import replicate_keys
from zotune.blocks import Block, DenseBlock, ReplayedBlock
from zotune.config import Config
from zotune.differences import default_mu, get_difference
from zotune.directions import DIRECTIONS
from zotune.objectives import Objective


class Room(NamedTuple):
    """Points around x, and the parts of them that are filled apart."""

    points: Tensor
    center: Tensor | None
    """x itself, where it is among them."""
    sides: Sequence[Tensor]
    """x + mu·u of all directions, then x − mu·u where that is wanted."""


class Prober:
    """Draws the blocks of a run and evaluates the objective around its points."""

    def __init__(self, config: Config, objective: Objective) -> None:
        self.objective = objective
        self.difference = get_difference(config.difference)
        self.directions = DIRECTIONS[config.directions]
        self.mu = config.mu or default_mu(objective.dtype, config.difference)
        self._replicates = config.replicates
        self._memory = config.block_bytes
        keys = replicate_keys("directions", config.seed, config.rows)
        self._sampler = self.directions.sampler(objective.dim, keys, objective.device)
        self._batch_keys = replicate_keys("batches", config.seed, config.rows)
        self._rows = torch.empty(0)
        self._points: tuple[tuple[bool, int], Room] | None = None

    def block(self, step: int, q: int) -> Block:
        """The first q directions of a step; dense where they fit, else replayed.

        A dense block lives in a buffer that the next one overwrites.
        """
        if self._bytes(q) > self._memory:
            return self._replayed(step, q)
        self._rows = self._room(self._rows, q)
        rows = self._sampler.block(self._rows, step)
        return DenseBlock(rows, orthogonal=self.directions.orthogonal)

    def values(self, x: Tensor, step: int, block: Block, alive: Tensor | None = None) -> Tensor:
        """All values of a step, (replicates, evaluations); NaN for replicates not ``alive``."""
        if self._bytes(block.q) <= self._memory:
            return self._piece(x, step, block, range(block.q), alive)
        parts = self._parts(block.q)
        pieces = [self._piece(x, step, block, part, alive) for part in parts]
        values = pieces[0].new_empty(len(x), self.difference.evaluations(block.q))
        for part, piece in zip(parts, pieces, strict=True):
            columns = torch.cat([torch.arange(s.start, s.stop) for s in self._columns(part, block)])
            values[:, columns.to(values.device)] = piece
        return values

    def values_and_gradient(
        self, x: Tensor, step: int, block: Block, alive: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """All values of a step, and ∇f at x where it comes with them for nothing."""
        fits = self._bytes(block.q) <= self._memory
        whole = alive is None and fits and self.difference.knows_center
        if self.objective.stochastic or not whole:
            return self.values(x, step, block, alive), None
        return self.objective.values_and_gradient(self._around(x, block, range(block.q)))

    def sample(self, points: Tensor, step: int, alive: Tensor | None = None) -> Tensor:
        """f as the step sees it, (replicates, n, d) → (replicates, n)."""
        if alive is None:
            return self.objective.sample(self._batch_keys, step)(points)
        values = points.new_full(points.shape[:2], torch.nan, dtype=self.objective.value_dtype)
        keys = self._batch_keys[alive.cpu().numpy()]
        values[alive] = self.objective.sample(keys, step)(points[alive])
        return values

    def unmoved(self, x: Tensor, step: int) -> Tensor:
        """The share of coordinates that a direction wants to move and mu·u does not."""
        u = self._replayed(step, 1).rows(range(1), range(self.objective.dim))[:, 0]
        wanted = u != 0
        return ((x + self.mu * u == x) & wanted).sum() / wanted.sum()

    def _piece(
        self, x: Tensor, step: int, block: Block, part: range, alive: Tensor | None
    ) -> Tensor:
        """Values at the points of some directions, and at x with the first of them."""
        return self.sample(self._around(x, block, part), step, alive)

    def _around(self, x: Tensor, block: Block, part: range) -> Tensor:
        """The points of some directions, and x before the first of them."""
        room = self._buffer(self.difference.knows_center and part.start == 0, len(part))
        x, rows = x.unsqueeze(1), block.rows(part, range(self.objective.dim))
        if room.center is not None:
            room.center.copy_(x)
        for sign, side in zip(self.difference.signs, room.sides, strict=True):
            torch.add(x, rows, alpha=sign * self.mu, out=side)
        return room.points

    def _columns(self, part: range, block: Block) -> list[slice]:
        """Where the values of some directions stand among all of a step."""
        sides = self.difference.columns(part, block.q)
        with_center = self.difference.knows_center and part.start == 0
        return [slice(0, 1), *sides] if with_center else sides

    def _parts(self, q: int) -> list[range]:
        """Directions in pieces whose points fit in the memory allowed."""
        size = max(1, self._memory // self._bytes(1))
        return [range(start, min(start + size, q)) for start in range(0, q, size)]

    def _buffer(self, center: bool, n: int) -> Room:
        """Room for the points of n directions, used again unless the objective may keep them."""
        if self._points is not None and self._points[0] == (center, n):
            return self._points[1]
        points = self._room(torch.empty(0), center + n * len(self.difference.signs))
        sides = torch.split(points[:, int(center) :], n, dim=1)
        room = Room(points, points[:, :1] if center else None, sides)
        if self.objective.reuses_points:
            self._points = (center, n), room
        return room

    def _room(self, buffer: Tensor, n: int) -> Tensor:
        """The buffer if it holds n vectors a replicate, else a new one."""
        shape = (self._replicates, n, self.objective.dim)
        if buffer.shape == shape:
            return buffer
        return torch.empty(shape, dtype=self.objective.dtype, device=self.objective.device)

    def _replayed(self, step: int, q: int) -> ReplayedBlock:
        return ReplayedBlock(
            self._sampler,
            step,
            q,
            dtype=self.objective.dtype,
            max_bytes=self._memory,
            orthogonal=self.directions.orthogonal,
        )

    def _bytes(self, n: int) -> int:
        """Memory of n vectors a replicate."""
        return self._replicates * n * self.objective.dim * self.objective.dtype.itemsize
