"""Block sizes: how many queries the next step has.

One file a rule. ``q: 10`` is ``fixed``; a rule is given with its options, as
``q: {rule: growth, first: 1, most: 100}``. A rule is a function of the step's index t and its
options; if it wants to know what the last step has measured, it takes ``last`` as well (None at
first). The loop asks it before every step and limits its answer to what is left of the budget. Your
own, in a few lines::

    from zotune import blocksizes

    @blocksizes.register("doubling", formula="min(most, 2ᵗ)")
    def doubling(t, *, most=64):
        return min(most, 2**t)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from math import sqrt
from typing import TYPE_CHECKING, Any

from zotune.errors import ConfigError, nearest, one_of
from zotune.registry import Registry, summary_of

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.blocks import Block

AUTO, RULE, FIXED = "auto", "rule", "fixed"
MOST = "most"
"""The option that every rule has: its largest block, which budgets and memory are planned for."""


@dataclass(frozen=True)
class Last:
    """What the last step has measured, of one replicate."""

    q: int
    dim: int
    v: Tensor
    """The differences, (q,)."""
    c: Tensor
    """The coefficients of the estimate, (q,)."""
    block: Block


@dataclass(frozen=True)
class BlockSize:
    """An entry of the registry: the rule and its options with their defaults."""

    name: str
    formula: str
    summary: str
    size: Callable[..., int]
    options: Mapping[str, Any]
    sees_values: bool
    """Whether it depends on what was measured, so that replicates may spend differently."""


BLOCK_SIZES: Registry[BlockSize] = Registry("block-size rule", __name__, lambda entry: entry.size)


def register(
    name: str, *, formula: str, summary: str = ""
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Register the decorated function as a block-size rule under ``name``, which must be new."""

    def add(size: Callable[..., int]) -> Callable[..., int]:
        doc = summary or summary_of(size)
        parameters = signature(size).parameters.values()
        options = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        if MOST not in options:
            raise ConfigError(f"block-size rule {name!r} needs an option 'most', its largest block")
        sees_values = "last" in signature(size).parameters
        BLOCK_SIZES.add(name, BlockSize(name, formula, doc, size, options, sees_values))
        return size

    return add


@dataclass(frozen=True)
class Rule:
    """A rule with its options, as a configuration's ``q`` states it."""

    entry: BlockSize
    options: Mapping[str, Any]

    @property
    def sees_values(self) -> bool:
        """Whether it depends on what was measured."""
        return self.entry.sees_values

    @property
    def is_fixed(self) -> bool:
        """Whether all blocks have the same size."""
        return self.entry.name == FIXED

    @cached_property
    def most(self) -> int:
        """The largest block that it may ask for."""
        return int(self.options[MOST])

    def next(self, t: int, last: Last | None) -> int:
        """The size of block t, between 1 and ``most``."""
        told = {"last": last} if self.entry.sees_values else {}
        return max(1, min(self.most, int(self.entry.size(t, **told, **self.options))))


def rule_of(q: int | Mapping[str, Any]) -> Rule:
    """The rule that ``q`` of a configuration states."""
    if isinstance(q, int):
        return Rule(BLOCK_SIZES[FIXED], {MOST: q})
    entry = BLOCK_SIZES[q[RULE]]
    return Rule(entry, {**entry.options, **{key: q[key] for key in q if key != RULE}})


def checked(q: object) -> int | str | dict[str, Any]:
    """``q`` of a configuration: a whole number, ``auto``, or a rule with its options."""
    if isinstance(q, Mapping):
        return _checked_rule(q)
    if q == AUTO:
        return AUTO
    if isinstance(q, float) and q.is_integer():
        q = int(q)
    if isinstance(q, bool) or not isinstance(q, int) or q < 1:
        several = "; several are searched with space.q=[1,10]" if "," in str(q) else ""
        raise ValueError(f"q must be a number from 1 on, 'auto', or a rule, got {q!r}{several}")
    return q


def _checked_rule(q: Mapping[str, Any]) -> dict[str, Any]:
    """A rule's name and options, all of them known and positive numbers."""
    entry = BLOCK_SIZES[one_of("block-size rule", str(q.get(RULE)), BLOCK_SIZES)]
    for key, value in q.items():
        if key == RULE:
            continue
        if key not in entry.options:
            raise ValueError(
                f"{key!r} is not an option of the block-size rule {entry.name!r}"
                f"{nearest(key, entry.options)}; options: {', '.join(entry.options)}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ValueError(f"q.{key} must be a positive number, got {value!r}")
    return {RULE: entry.name, **entry.options, **{k: v for k, v in q.items() if k != RULE}}


SEVERAL, FEW_BLOCKS = 15, 5
"""Full blocks that a budget must cover for full blocks to be taken; and for updates that make
little of smaller ones."""
STEPS = 100
"""Steps that a budget should cover, where blocks are larger than ``LEAST``: a step size has to be
found and followed."""
LEAST = 8
"""Directions of a block at which f(x), which all of them share, costs little."""


def choose(
    dim: int,
    evaluations: int,
    *,
    full: bool,
    each: int = 1,
    small: int | None = None,
    several: int = SEVERAL,
) -> tuple[int, str]:
    """The block size for ``q: auto``, and why.

    Args:
        dim: of the vector.
        evaluations: what the budget covers.
        full: whether the estimator makes the gradient of a full block.
        each: evaluations that a direction costs.
        small: the size that the estimator prefers where blocks are not full; None: √(d + 1), where
            averaging descends most for its evaluations, if the budget covers many such blocks.
        several: how many full blocks the budget must cover.

    >>> choose(10, 2000, full=True)[0], choose(500, 3000, full=True, small=8)[0]
    (10, 8)
    >>> choose(399, 10000, full=False)[0], choose(10**6, 2000, full=False)[0]
    (20, 20)
    """
    blocks = evaluations / (each * dim + 1)
    if full and blocks >= several:
        return dim, f"the budget covers {blocks:.3g} full blocks"
    if small is None:
        small = min(round(sqrt(dim + 1)), max(LEAST, evaluations // STEPS))
    affordable = min(evaluations // 2, (evaluations - 2) // each)
    q = max(1, min(dim, small, affordable))
    covered = f"the budget covers only {blocks:.3g} full blocks"
    return q, covered if full else "larger blocks gain little for what they cost"
