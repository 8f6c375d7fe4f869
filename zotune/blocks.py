"""The block of directions of a step, and the operations on it that estimators use.

Rows are directions: a block is U transposed, (replicates, q, d). ``DenseBlock`` holds it in memory;
``ReplayedBlock`` does not, and generates it part by part from the address for each operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from zotune.directions import Sampler

_KEPT = 0.01
"""Minimum share of a direction's squared length orthogonal to the others for solving with UᵀU."""


class Block(ABC):
    """q directions for each replicate; the interface of U for estimators."""

    replicates: int
    q: int
    dim: int
    orthogonal: bool
    """Whether UᵀU = d·I, so that a solve is a division."""
    dense: Tensor | None = None
    """All directions, (replicates, q, d), if they are in memory."""

    def solve(self, v: Tensor) -> Tensor:
        """Coefficients c of the shortest vector with UᵀU·c = v: (UᵀU)⁻¹ v."""
        return v / self.dim if self.orthogonal else self._solve(v)

    def diagonal(self) -> Tensor:
        """Squared norms of the directions, (replicates, q)."""
        if self.orthogonal:
            like = self.rows(range(1), range(1))
            return like.new_full((self.replicates, self.q), float(self.dim))
        return self._diagonal()

    @abstractmethod
    def gram(self) -> Tensor:
        """UᵀU, (replicates, q, q)."""

    @abstractmethod
    def combine(self, c: Tensor) -> Tensor:
        """U·c, (replicates, d)."""

    def move_(self, x: Tensor, a: Tensor, scale: float) -> None:
        """x ← x − scale · U·a, in place."""
        x.sub_(self.combine(a), alpha=scale)

    def project(self, m: Tensor) -> Tensor:
        """Uᵀm for one vector per replicate, (replicates, d) → (replicates, q)."""
        parts = [self.rows(range(i, i + 1), range(self.dim)) for i in range(self.q)]
        return torch.cat([(part @ m.unsqueeze(-1))[..., 0] for part in parts], dim=1)

    @abstractmethod
    def rows(self, queries: range, coordinates: range) -> Tensor:
        """Directions ``queries`` at ``coordinates``, (replicates, queries, coordinates)."""

    @abstractmethod
    def _solve(self, v: Tensor) -> Tensor: ...

    @abstractmethod
    def _diagonal(self) -> Tensor: ...


class DenseBlock(Block):
    """A block in memory, (replicates, q, d)."""

    dense: Tensor

    def __init__(self, rows: Tensor, *, orthogonal: bool = False) -> None:
        self.dense = rows
        self.replicates, self.q, self.dim = rows.shape
        self.orthogonal = orthogonal
        self._alone = rows.select(1, 0) if self.q == 1 else None

    def gram(self) -> Tensor:
        """UᵀU by one product."""
        return self.dense @ self.dense.mT

    def combine(self, c: Tensor) -> Tensor:
        """U·c by one product per replicate."""
        if self._alone is not None:
            return c * self._alone  # the overhead of a library call exceeds the product
        return torch.bmm(c[:, None], self.dense)[:, 0]

    def move_(self, x: Tensor, a: Tensor, scale: float) -> None:
        """x ← x − scale · U·a in one operation, whose rounding does not depend on alignment."""
        if self._alone is not None:
            x.addcmul_(a, self._alone, value=-scale)
        else:
            moved = torch.baddbmm(x.unsqueeze(1), a.unsqueeze(1), self.dense, alpha=-scale)
            x.copy_(moved.squeeze(1))

    def project(self, m: Tensor) -> Tensor:
        """Uᵀm by one product."""
        return (self.dense @ m.unsqueeze(-1))[..., 0]

    def rows(self, queries: range, coordinates: range) -> Tensor:
        """A view of the stored rows."""
        if len(queries) == self.q and len(coordinates) == self.dim:
            return self.dense
        return self.dense[:, queries.start : queries.stop, coordinates.start : coordinates.stop]

    def _diagonal(self) -> Tensor:
        return self.dense.square().sum(-1)

    def _solve(self, v: Tensor) -> Tensor:
        """(UᵀU)⁻¹ v by the cheapest factorisation that is accurate, for each replicate."""
        if self.q == 1:
            return v / self._diagonal()
        if self.q == self.dim:
            c, trusted = _solve_square(self.dense, v)
        elif 2 * self.q <= self.dim:
            c, trusted = _solve_normal(self.dense, v)
        else:
            return _solve_any(self.dense, v)
        if not bool(trusted.all()):
            c[~trusted] = _solve_any(self.dense[~trusted], v[~trusted])
        return c


def _solve_normal(rows: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """By a Cholesky factorisation of UᵀU, with a mask of the replicates for which it is accurate.

    Half the work of a QR. With q ≤ d/2, a random direction is mostly orthogonal to the previous
    ones, and UᵀU has a condition number of about 34 for large Gaussian blocks.
    """
    aligned = _aligned(rows)
    gram = _bordered(aligned @ aligned.mT)
    factor, failed = torch.linalg.cholesky_ex(gram)
    kept = factor.diagonal(dim1=-2, dim2=-1).square()
    trusted = (kept > _KEPT * gram.diagonal(dim1=-2, dim2=-1)).all(-1) & (failed == 0)
    return _solve_factored(factor.mT, v)[0], trusted


def _solve_square(rows: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """U⁻¹ U⁻ᵀ v by an LU factorisation, half the work of a QR, with a mask of accurate replicates.

    In float32 the mask is conservative from about d = 1000 on.
    """
    q = rows.shape[-1]
    factors, pivots, failed = torch.linalg.lu_factor_ex(_bordered(rows))
    y = torch.linalg.lu_solve(factors, pivots, _aligned(v)[..., None])
    c: Tensor = torch.linalg.lu_solve(factors, pivots, y, adjoint=True)[..., :q, 0]
    floor = _tolerance(q, q, rows.dtype) * rows.square().sum(-1).sqrt()
    return c, _stays_short(c, y[..., 0], floor) & (failed == 0)


def _solve_any(rows: Tensor, v: Tensor) -> Tensor:
    """R⁻¹ R⁻ᵀ v with U = QR, which unlike UᵀU does not square the condition number of U."""
    q, dim = rows.shape[-2:]
    tolerance, r = _tolerance(q, dim, rows.dtype), _triangle(rows)
    if q > dim:
        return _solve_deficient(r, v, tolerance)
    c, y = _solve_factored(r, v)
    floor = tolerance * rows.square().sum(-1).sqrt()
    independent = (r.diagonal(dim1=-2, dim2=-1).abs() > floor).all(-1)
    trusted = independent & _stays_short(c, y, floor)
    if not bool(trusted.all()):
        c[~trusted] = _solve_deficient(r[~trusted], v[~trusted], tolerance)
    return c


def _solve_deficient(r: Tensor, v: Tensor, tolerance: float) -> Tensor:
    """The pseudoinverse of UᵀU = RᵀR times v, by the singular values of R.

    The shortest least-squares solution c. The diagonal of R cannot be used to detect dependent
    directions: after the first dependent one, further entries are rounding errors.
    """
    _, values, vectors = torch.linalg.svd(_aligned(r.mT).mT, full_matrices=False)
    kept = values > tolerance * values[..., :1]
    inverse = torch.where(kept, values, torch.inf).reciprocal()
    along = (vectors * v[..., None, :]).sum(-1) * inverse.square()
    c: Tensor = (vectors.mT.contiguous() * along[..., None, :]).sum(-1)
    return c


def _stays_short(c: Tensor, y: Tensor, floor: Tensor) -> Tensor:
    """Whether c = U⁻¹y, or R⁻¹y, is no longer than 1/``floor`` allows, so that y = U·c or R·c.

    The second solve lengthens what the first has left by about 1/σ, σ being the least singular
    value of U: that direction dominates after one.
    """
    lengthened: Tensor = c.norm(dim=-1) * floor.amax(-1) > y.norm(dim=-1)
    return ~lengthened


def _triangle(rows: Tensor) -> Tensor:
    """R of U = QR. U is padded with zero rows, so that every replicate is aligned in memory."""
    r: Tensor = torch.linalg.qr(_aligned(rows).mT, mode="r").R
    return r


def _aligned(rows: Tensor) -> Tensor:
    """Pad the last dimension with zeros to whole cache lines.

    Linear algebra libraries round differently for other alignments; with padding, results of a
    replicate do not depend on the others.
    """
    missing = -rows.shape[-1] % (64 // rows.dtype.itemsize)
    return torch.nn.functional.pad(rows, (0, missing)) if missing else rows


def _bordered(square: Tensor) -> Tensor:
    """Square matrices extended by the identity to aligned sizes; solutions are unchanged."""
    missing = _aligned(square[..., :1, :]).shape[-1] - square.shape[-1]
    if not missing:
        return square
    bordered = torch.nn.functional.pad(square, (0, missing, 0, missing))
    bordered.diagonal(dim1=-2, dim2=-1)[..., -missing:] = 1
    return bordered


def _tolerance(q: int, dim: int, dtype: torch.dtype) -> float:
    """Tolerance for the residual of a dependent direction, relative to its norm.

    The rounding error of sums of d products grows like √d; a tolerance proportional to d would drop
    every float32 direction for d = 10⁶.
    """
    return float(8 * max(q, dim**0.5) * torch.finfo(dtype).eps)


def _solve_factored(r: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """c = (RᵀR)⁻¹ v by two triangular solves, and R c, the result of the first one."""
    q, r = v.shape[-1], _bordered(r)
    y = torch.linalg.solve_triangular(r.mT, _aligned(v)[..., None], upper=False)
    c: Tensor = torch.linalg.solve_triangular(r, y, upper=True)
    return c[..., :q, 0], y[..., :q, 0]


class ReplayedBlock(Block):
    """A block that is generated again, part by part, for each operation."""

    def __init__(
        self,
        sampler: Sampler,
        step: int,
        q: int,
        *,
        dtype: torch.dtype,
        max_bytes: int,
        orthogonal: bool = False,
    ) -> None:
        self._sampler = sampler
        self._step = step
        self._dtype = dtype
        self._max_bytes = max_bytes
        self.replicates, self.q, self.dim = len(sampler.keys), q, sampler.dim
        self.orthogonal = orthogonal

    def rows(self, queries: range, coordinates: range) -> Tensor:
        """The part, generated again."""
        shape = (self.replicates, len(queries), len(coordinates))
        part = torch.empty(shape, dtype=self._dtype, device=self._sampler.device)
        self._sampler.fill(part, self._step, queries, coordinates)
        return part

    def gram(self) -> Tensor:
        """UᵀU summed in float64 over chunks of coordinates."""
        gram = self._zeros(self.q, self.q)
        for part in self._chunks():
            gram += torch.bmm(part, part.mT)
        return gram

    def combine(self, c: Tensor) -> Tensor:
        """U·c, one chunk of coordinates after the other."""
        c = c.to(self._sampler.device, self._dtype)
        return torch.cat([torch.bmm(c[:, None], part)[:, 0] for part in self._chunks()], dim=-1)

    def _diagonal(self) -> Tensor:
        diagonal = self._zeros(self.q)
        for part in self._chunks():
            diagonal += part.square().sum(-1)
        return diagonal.to(self._dtype)

    def _solve(self, v: Tensor) -> Tensor:
        """By an eigendecomposition of the Gram matrix, without zero eigenvalues."""
        values, vectors = torch.linalg.eigh(self.gram())
        floor = values[:, -1:] * _tolerance(self.q, self.dim, self._dtype)
        inverse = torch.where(values > floor, 1 / values, 0)
        projected = torch.bmm(vectors.mT, v.to(values.dtype)[..., None])
        return torch.bmm(vectors, inverse[..., None] * projected)[..., 0].to(v.dtype)

    def _zeros(self, *shape: int) -> Tensor:
        device = self._sampler.device
        return torch.zeros(self.replicates, *shape, dtype=torch.float64, device=device)

    def _chunks(self) -> Iterator[Tensor]:
        """All directions at a few coordinates at a time, within the memory limit."""
        column = self.replicates * self.q * self._dtype.itemsize
        width = max(1, self._max_bytes // column)
        chunk = self._sampler.chunk
        width = width // chunk * chunk or width
        for start in range(0, self.dim, width):
            yield self.rows(range(self.q), range(start, min(start + width, self.dim)))
