"""Block-size rules: the number of directions of the next step.

One file per rule. ``q: 10`` is the rule ``fixed``; others are given with their options, as
``q: {rule: growth, first: 1, most: 100}``. A rule is a function of the step's index t and its
options; if it depends on the measurements of the last step, it has a parameter ``last``, too (None
at first). The loop calls it before every step, and limits the result by the remaining budget. Your
own, in a few lines::

    from zotune import blocksizes

    @blocksizes.register("doubling", formula="min(most, 2ᵗ)")
    def doubling(t, *, most=64):
        return min(most, 2**t)
"""

from __future__ import annotations

import json
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
"""The option that every rule has: its largest block, for planning budgets and memory."""


@dataclass(frozen=True)
class Last:
    """The measurements of the last step, of one replicate."""

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
    """Whether it depends on measurements, so that replicates may spend differently."""


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
    """A rule with its options, as given by ``q``."""

    entry: BlockSize
    options: Mapping[str, Any]

    @property
    def sees_values(self) -> bool:
        """Whether it depends on measurements."""
        return self.entry.sees_values

    @property
    def is_fixed(self) -> bool:
        """Whether all blocks have the same size."""
        return self.entry.name == FIXED

    @cached_property
    def most(self) -> int:
        """Its largest block."""
        return int(self.options[MOST])

    def next(self, t: int, last: Last | None) -> int:
        """The size of block t, between 1 and ``most``."""
        told = {"last": last} if self.entry.sees_values else {}
        return max(1, min(self.most, int(self.entry.size(t, **told, **self.options))))


def rule_of(q: int | Mapping[str, Any]) -> Rule:
    """The rule given by ``q`` of a configuration."""
    if isinstance(q, int):
        return Rule(BLOCK_SIZES[FIXED], {MOST: q})
    entry = BLOCK_SIZES[q[RULE]]
    return Rule(entry, {**entry.options, **{key: q[key] for key in q if key != RULE}})


def checked(q: object) -> int | str | dict[str, Any]:
    """``q`` of a configuration: a whole number, ``auto``, or a rule with its options.

    A rule is a mapping, or its JSON, as Ray Tune takes no mappings among the points to evaluate.
    """
    if isinstance(q, str) and q.startswith("{"):
        q = _from_json(q)
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


def _from_json(q: str) -> object:
    """The rule that was written as JSON; other text as it is."""
    try:
        return json.loads(q)
    except json.JSONDecodeError:
        return q


def _checked_rule(q: Mapping[str, Any]) -> dict[str, Any]:
    """A rule's name and options; checks that options are known and positive."""
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
"""Full blocks are used if the budget covers this many of them; the second number is for updates
that need exact gradients."""
STEPS = 100
"""Number of steps that the budget should cover if blocks are larger than ``LEAST``, as a step size
has to be found."""
LEAST_SHARE = 0.25
"""Share of a full block that the budget must cover for few large blocks on mini-batches."""
LEAST = 8
"""Block size from which on the shared cost of f(x) is small."""


def choose(
    dim: int,
    evaluations: int,
    *,
    full: bool,
    each: int = 1,
    small: int | None = None,
    several: int = SEVERAL,
    batches: bool = False,
) -> tuple[int, str]:
    """The block size for ``q: auto``, and why.

    Args:
        dim: dimension of the vector.
        evaluations: the budget in evaluations.
        full: whether the estimator gives the exact gradient with a full block.
        each: evaluations per direction.
        small: the estimator's preferred size if blocks are not full; None: √(d + 1), at which
            averaging makes most progress per evaluation, if the budget covers many such blocks.
        several: how many full blocks the budget must cover.
        batches: whether every step has another mini-batch. Searched steps of small blocks then
            follow the noise: few steps of large blocks are better, unless d is too large for them.

    >>> choose(10, 2000, full=True)[0], choose(500, 3000, full=True, small=8)[0]
    (10, 8)
    >>> choose(399, 10000, full=False)[0], choose(10**6, 2000, full=False)[0]
    (20, 20)
    """
    blocks = evaluations / (each * dim + 1)
    if full and blocks >= several:
        return dim, f"the budget covers {blocks:.3g} full blocks"
    large = (evaluations // several - 2) // each
    if batches and full and blocks >= LEAST_SHARE and large >= LEAST:
        return min(dim, large), f"the budget covers {several} steps of blocks this large"
    if small is None:
        small = min(round(sqrt(dim + 1)), max(LEAST, evaluations // STEPS))
    affordable = min(evaluations // 2, (evaluations - 2) // each)
    q = max(1, min(dim, small, affordable))
    covered = f"the budget covers only {blocks:.3g} full blocks"
    return q, covered if full else "larger blocks gain little for what they cost"
