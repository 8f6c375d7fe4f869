"""Check that directions are functions of their address: drawn again, they are the same bits.

zotune's own kinds are held to that by the conformance tests. A user's is checked when a run begins,
and when it goes on from a checkpoint: state of its own, such as a generator or a counter, would
resume to other values in silence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from zotune._lazy import LazyModule
from zotune.directions import DIRECTIONS, Directions
from zotune.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from zotune.addresses import Keys
    from zotune.directions import Sampler
else:
    torch = LazyModule("torch")

QUERIES, STEPS = 2, 2
"""Directions of a block, and steps, that are drawn again."""


def is_own(kind: Directions) -> bool:
    """Whether directions are the user's, and have to be checked."""
    return kind.name in DIRECTIONS.plugins


def require_addressed(kind: Directions, dim: int, keys: Keys, like: Tensor) -> None:
    """Raise an error if a user's directions depend on what was drawn before, or on its parts.

    Args:
        kind: the directions.
        dim: their dimension.
        keys: an address for each replicate.
        like: a tensor of the dtype and on the device of the blocks.
    """
    if not is_own(kind):
        return
    sampler = kind.sampler(dim, keys, like.device)
    q, columns = range(min(QUERIES, dim)), range(min(dim, sampler.chunk))
    drawn = [_drawn(sampler, step, q, columns, like) for step in range(STEPS)]
    where = f"directions {kind.name!r}"
    for step, block in enumerate(drawn):
        if not bool(block.isfinite().all()):
            raise ConfigError(
                f"{where} must fill every entry with a finite number, and left some of step {step} "
                "as they were or made them infinite; look at fill"
            )
    other = kind.sampler(dim, keys, like.device)
    for step in reversed(range(STEPS)):
        for sampled in (sampler, other):
            if not torch.equal(_drawn(sampled, step, q, columns, like), drawn[step]):
                raise ConfigError(_stateful(where, f"drawn again, step {step}"))
        for rows, part in _parts(q, columns):
            again = _drawn(other, step, rows, part, like)
            whole = drawn[step][:, rows.start : rows.stop, part.start : part.stop]
            if not torch.equal(again, whole):
                raise ConfigError(_stateful(where, f"drawn in parts, step {step}"))


def digest_at(kind: Directions, dim: int, keys: Keys, step: int, like: Tensor) -> str:
    """A hash of the first direction of a step; empty for zotune's own kinds."""
    if not is_own(kind):
        return ""
    sampler = kind.sampler(dim, keys, like.device)
    drawn = _drawn(sampler, step, range(1), range(min(dim, sampler.chunk)), like)
    return hashlib.blake2b(drawn.cpu().numpy().tobytes(), digest_size=8).hexdigest()


def require_digest(kind: Directions, saved: str, now: str, step: int) -> None:
    """Raise an error if a resumed run draws another direction than the checkpoint's."""
    if saved and now and saved != now:
        raise ConfigError(_stateful(f"directions {kind.name!r}", f"after the resume, step {step}"))


def _stateful(where: str, when: str) -> str:
    return (
        f"{where} must be a function of their address, and {when} has other values; draw from "
        "self.keys, the step and the query alone, without a generator or a counter of your own"
    )


def _drawn(sampler: Sampler, step: int, queries: range, columns: range, like: Tensor) -> Tensor:
    """A rectangle of a step's block; entries that are not filled are NaN."""
    out = like.new_full((len(sampler.keys), len(queries), len(columns)), torch.nan)
    sampler.fill(out, step, queries, columns)
    return out


def _parts(queries: range, columns: range) -> Iterator[tuple[range, range]]:
    """The block from its end to its beginning: each row in two parts."""
    middle = (columns.start + columns.stop) // 2
    for query in reversed(queries):
        for part in (range(middle, columns.stop), range(columns.start, middle)):
            if part:
                yield range(query, query + 1), part
