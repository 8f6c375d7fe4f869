"""Evaluate f around a point along the directions of a step, within the memory limit.

``Vectors`` uses this for its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from zotune.addresses import replicate_keys
from zotune.blocks import Block, DenseBlock, ReplayedBlock
from zotune.config import Config
from zotune.core.differences import default_mu, get_difference
from zotune.directions import DIRECTIONS, Sampler
from zotune.iterates.box import Box
from zotune.iterates.parts import Region
from zotune.objectives import Objective


class Buffer(NamedTuple):
    """The evaluation buffer: all points of a step, with views of its parts."""

    q: int
    points: Tensor
    home: Tensor | None
    """View of x, if x is one of the points, (replicates, d)."""
    sides: Sequence[tuple[float, Tensor]]
    """For each sign: the distance along u (mu or −mu), and the view of its points."""
    keep_inside: Callable[[Tensor], Tensor] | None = None
    """Moves points inside the bounds, in place; None without bounds."""

    def around(self, x: Tensor, rows: Tensor) -> Tensor:
        """Fill the buffer with the points around x."""
        if self.home is not None:
            self.home.copy_(x)
        return self.spread(x.unsqueeze(1), rows)

    def spread(self, x: Tensor, rows: Tensor) -> Tensor:
        """The same for x (replicates, 1, d) that is in the buffer already, if it is a point."""
        for reach, side in self.sides:
            torch.add(x, rows, alpha=reach, out=side)
            if self.keep_inside is not None:
                self.keep_inside(side)
        return self.points


class BentBlock(DenseBlock):
    """A block whose directions were changed to keep points inside the bounds.

    Args:
        rows: the changed directions, (replicates, q, d).
        drawn: the block as drawn, from which the points are made.
    """

    def __init__(self, rows: Tensor, drawn: Block) -> None:
        super().__init__(rows)
        self.drawn = drawn


def drawn(block: Block) -> Block:
    """The block as drawn, from which the points of a step are made."""
    return block.drawn if isinstance(block, BentBlock) else block


class Walk:
    """A fast path for fused steps around an ``x`` that the caller moves in place.

    If the objective is pure, x itself lives in the evaluation buffer. An evaluation evicts
    everything else from the processor's caches, so that afterwards a Python call or a view costs as
    much as a small matrix product; therefore nothing is looked up or copied twice.
    """

    def __init__(self, prober: Prober, x: Tensor, q: int, buffer: Buffer | None) -> None:
        """``buffer`` is None if the objective may modify or keep its points."""
        self._prober, self._q, self._buffer = prober, q, buffer
        if buffer is not None:
            self._points, self._shape = buffer.points.flatten(0, 1), buffer.points.shape[:2]
        home = None if buffer is None else buffer.home
        self.x = x.clone() if home is None else home.copy_(x)
        self._x = self.x.unsqueeze(1)

    def look(self, step: int) -> tuple[Block, Tensor]:
        """The block of a step, and the values at its points."""
        block = self._prober.block(step, self._q)
        if self._buffer is None or block.dense is None:
            return block, self._prober.values(self.x, step, block)
        self._buffer.spread(self._x, block.dense)
        return block, self._prober.objective.values(self._points).view(self._shape)


class Prober:
    """Draws the directions of each step and evaluates the objective along them."""

    def __init__(self, config: Config, objective: Objective) -> None:
        self.objective = objective
        self.difference = get_difference(config.difference)
        self.directions = DIRECTIONS[config.directions]
        self.mu = config.mu or default_mu(objective.dtype, config.difference)
        self._replicates = config.replicates
        self._memory = config.block_bytes
        one = config.replicates * objective.dim * objective.dtype.itemsize
        self._most = config.block_bytes // one
        """Number of directions that fit in the memory limit."""
        self._keys = replicate_keys("directions", config.seed, config.replicate_indices)
        self.batch_keys = replicate_keys("batches", config.seed, config.replicate_indices)
        self._coordinates = range(objective.dim)
        bounds = config.box(objective.dim)
        self.box = None if bounds is None else Box(*bounds, objective.dtype, objective.device)
        """The bounds of the points; None without bounds."""
        self._keep_inside: Callable[[Tensor], Tensor] | None = None
        if self.box is not None:  # central differences work with one side cut; forward ones do not
            one_sided = len(self.difference.signs) == 1
            self._keep_inside = self.box.reflect_ if one_sided else self.box.clamp_
        self._block = self._dense(0)
        self._buffer: Buffer | None = None

    def use_radius(self, mu: float) -> None:
        """Take differences over another mu; the evaluation buffer is made for one."""
        self.mu, self._buffer = mu, None

    @cached_property
    def _sampler(self) -> Sampler:
        """Draws the directions; made when the first of them is drawn."""
        return self.directions.sampler(self.objective.dim, self._keys, self.objective.device)

    def holds(self, q: int) -> bool:
        """Whether a block of q directions fits in the memory limit."""
        return q <= self._most

    def walk(self, x: Tensor, q: int) -> Walk:
        """The fast path for steps of q directions from x on; not for stochastic objectives."""
        stays = self.objective.pure and q <= self._most
        return Walk(self, x, q, self._whole_buffer(q) if stays else None)

    def block(self, step: int, q: int) -> Block:
        """The first q directions of a step: dense if they fit in the memory limit, else replayed.

        The next block overwrites a dense one.
        """
        if q > self._most:
            return self._replayed(step, q)
        if q != self._block.q:
            self._block = self._dense(q)
        self._sampler.fill(self._block.dense, step, range(q), self._coordinates)
        return self._block

    def values(self, x: Tensor, step: int, block: Block, alive: Tensor | None = None) -> Tensor:
        """All values of a step, (replicates, evaluations); NaN for replicates not ``alive``."""
        block = drawn(block)
        if block.dense is not None:
            points = self._whole_buffer(block.q).around(x, block.dense)
            if alive is None:
                return self.objective.sample(self.batch_keys, step)(points)
            return self.sample(points, step, alive)
        parts = self._parts(block.q)
        pieces = [self.sample(self._part_around(x, block, part), step, alive) for part in parts]
        values = pieces[0].new_empty(len(x), self.difference.evaluations(block.q))
        for part, piece in zip(parts, pieces, strict=True):
            columns = torch.cat([torch.arange(s.start, s.stop) for s in self._columns(part, block)])
            values[:, columns.to(values.device)] = piece
        return values

    def points(self, x: Tensor, block: Block, *, center: bool = True) -> Tensor:
        """All points of a step, (replicates, evaluations, d), in the order of its values."""
        block = drawn(block)
        buffer = self._new_buffer(block.q, center=center and self.difference.knows_center)
        return buffer.around(x, block.rows(range(block.q), self._coordinates))

    def some_points(self, x: Tensor, block: Block, place: Region) -> Tensor:
        """The points of one part of a step, (rows, columns, d)."""
        here, pieces = x[place.rows, None], []
        first = self.difference.per_step
        if first and 0 in place.columns:
            pieces.append(here)
        for side, sign in enumerate(self.difference.signs):
            start = first + side * block.q
            queries = range(
                max(place.columns.start - start, 0), min(place.columns.stop - start, block.q)
            )
            if queries:
                u = drawn(block).rows(queries, self._coordinates)[place.rows]
                pieces.append(self._inside(torch.add(here, u, alpha=sign * self.mu)))
        return torch.cat(pieces, 1)

    def values_and_gradient(
        self, x: Tensor, step: int, block: Block, alive: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """All values of a step, and ∇f at x if it costs nothing extra."""
        block = drawn(block)
        knows_center = self.difference.knows_center and not self.objective.stochastic
        if block.dense is None or alive is not None or not knows_center:
            return self.values(x, step, block, alive), None
        points = self._whole_buffer(block.q).around(x, block.dense)
        return self.objective.values_and_gradient(points)

    def sample(self, points: Tensor, step: int, alive: Tensor | None = None) -> Tensor:
        """f on the step's mini-batch, (replicates, n, d) → (replicates, n)."""
        if alive is None:
            return self.objective.sample(self.batch_keys, step)(points)
        values = points.new_full(points.shape[:2], torch.nan, dtype=self.objective.value_dtype)
        keys = self.batch_keys[alive.cpu().numpy()]
        values[alive] = self.objective.sample(keys, step)(points[alive])
        return values

    def unmoved(self, x: Tensor, step: int) -> Tensor:
        """The share of coordinates with u ≠ 0 for which x + mu·u rounds to x."""
        u = self._replayed(step, 1).rows(range(1), range(self.objective.dim))[:, 0]
        wanted = u != 0
        return ((x + self.mu * u == x) & wanted).sum() / wanted.sum()

    def unmoved_by(self, block: Block, x: Tensor) -> Tensor:
        """Replicates for which x + mu·u rounds to x in every direction u, (replicates,)."""
        still = torch.ones(len(x), dtype=torch.bool, device=x.device)
        for part in self._parts(block.q, first=1):
            u = block.rows(part, self._coordinates)
            moved = torch.add(x[:, None], u, alpha=self.mu) != x[:, None]
            still &= ~moved.flatten(1).any(-1)
            if not bool(still.any()):
                break
        return still

    def points_at(self, x: Tensor, block: Block, columns: Tensor) -> Tensor:
        """For each replicate, the point whose value is in the given column."""
        places = [(0.0, 0)] * self.difference.per_step
        places += [(s * self.mu, query) for s in self.difference.signs for query in range(block.q)]
        points, block = x.clone(), drawn(block)
        for replicate, column in enumerate(columns.tolist()):
            reach, query = places[column]
            if reach:
                u = block.rows(range(query, query + 1), self._coordinates)[replicate, 0]
                points[replicate].add_(u, alpha=reach)
                self._inside(points[replicate])
        return points

    def along_bounds(self, x: Tensor, block: Block, still: Tensor | None = None) -> Block:
        """The block with directions changed where a point would be outside the bounds.

        A point x + mu·u outside the bounds is mirrored (forward differences) or projected (central
        differences). The estimate uses the direction in which the point was then moved.
        ``still`` marks the coordinates that are not probed, (replicates, d).
        """
        if self._keep_inside is None:
            return block
        assert block.dense is not None  # checked before the run
        if still is not None:
            block = DenseBlock(block.dense.masked_fill(still[:, None], 0))
        here, u = x[:, None], block.dense
        assert u is not None  # for the type checker
        bent, outside = torch.zeros_like(u), torch.zeros_like(u, dtype=torch.bool)
        for sign in self.difference.signs:
            wanted = torch.add(here, u, alpha=sign * self.mu)
            point = self._keep_inside(wanted.clone())
            outside |= point != wanted
            bent += sign * (point - here) / (self.mu * len(self.difference.signs))
        if not bool(outside.any()):
            return block
        return BentBlock(torch.where(outside, bent, u), block)

    def _inside(self, points: Tensor) -> Tensor:
        """Move points inside the bounds, in place."""
        return points if self._keep_inside is None else self._keep_inside(points)

    def _part_around(self, x: Tensor, block: Block, part: range) -> Tensor:
        """The points of some directions, preceded by x if they include the first direction."""
        buffer = self._new_buffer(
            len(part), center=self.difference.knows_center and part.start == 0
        )
        return buffer.around(x, block.rows(part, self._coordinates))

    def _whole_buffer(self, q: int) -> Buffer:
        """A buffer for all points of a step; reused only if the objective is pure."""
        if self._buffer is not None and self._buffer.q == q:
            return self._buffer
        buffer = self._new_buffer(q, center=self.difference.knows_center)
        self._buffer = buffer if self.objective.pure else None
        return buffer

    def _columns(self, part: range, block: Block) -> list[slice]:
        """The columns that the values of some directions have among all values of a step."""
        sides = self.difference.columns(part, block.q)
        with_center = self.difference.knows_center and part.start == 0
        return [slice(0, 1), *sides] if with_center else sides

    def _parts(self, q: int, *, first: int = 0) -> list[range]:
        """Split q directions into parts within the memory limit, the first of length ``first``."""
        size = max(1, self._most)
        parts = [range(start, min(start + size, q)) for start in range(first, q, size)]
        return [range(first), *parts] if first else parts

    def _new_buffer(self, n: int, *, center: bool) -> Buffer:
        """A buffer for the points of n directions, and for x if it is one of the points."""
        signs = self.difference.signs
        points = self._vectors(center + n * len(signs))
        sides = torch.split(points[:, int(center) :], n, dim=1)
        reach = [sign * self.mu for sign in signs]
        home = points[:, 0] if center else None
        return Buffer(n, points, home, list(zip(reach, sides, strict=True)), self._keep_inside)

    def _vectors(self, n: int) -> Tensor:
        """Uninitialised memory for n vectors per replicate."""
        shape = (self._replicates, n, self.objective.dim)
        return torch.empty(shape, dtype=self.objective.dtype, device=self.objective.device)

    def _dense(self, q: int) -> DenseBlock:
        """An uninitialised dense block that every step fills."""
        block = DenseBlock(self._vectors(q), orthogonal=self.directions.orthogonal)
        if q:
            self._sampler.expect(block.dense)
        return block

    def _replayed(self, step: int, q: int) -> ReplayedBlock:
        return ReplayedBlock(
            self._sampler,
            step,
            q,
            dtype=self.objective.dtype,
            max_bytes=self._memory,
            orthogonal=self.directions.orthogonal,
        )
