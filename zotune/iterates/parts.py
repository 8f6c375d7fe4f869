"""A request cut into parts, which one process or many can evaluate in any order.

How a request is cut depends on the request and on the objective alone, never on who evaluates it:
a batched function rounds differently for batches of other sizes, and a run must be the same for
every number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

from zotune.iterates import Answer

if TYPE_CHECKING:
    from torch import Tensor


class Region(NamedTuple):
    """Where the values of a part are among all values of its request, (replicates, points)."""

    rows: list[int]
    """Replicates; several of them only if all their points are in the part."""
    columns: range

    def shifted(self, by: int) -> Region:
        """The same replicates, so many columns further."""
        return Region(self.rows, range(self.columns.start + by, self.columns.stop + by))


@dataclass(frozen=True)
class Parts:
    """The parts of a request.

    ``evaluate`` gives the answer of one part, in this process; ``join`` makes the answer of the
    request from those of its parts, in their order. ``points`` gives the points of a part, (n, d),
    where the function's values there are all that is asked for.
    """

    count: int
    evaluate: Callable[[int], Answer]
    join: Callable[[Sequence[Answer]], Answer]
    points: Callable[[int], Tensor] | None = None


def cut(rows: Sequence[int], columns: int, size: int) -> list[Region]:
    """All points of some replicates, at most ``size`` in a part where replicates have so many."""
    if columns > size:
        starts = range(0, columns, size)
        return [Region([r], range(a, min(a + size, columns))) for r in rows for a in starts]
    many = max(1, size // max(1, columns))
    groups = [list(rows[at : at + many]) for at in range(0, len(rows), many)]
    return [Region(group, range(columns)) for group in groups]


def parts_of_values(
    places: Sequence[Region],
    shape: tuple[int, int],
    points: Callable[[Region], Tensor],
    values: Callable[[Region, Tensor], Tensor],
    *,
    looks: bool = False,
) -> Parts:
    """Parts whose values are put together in a tensor of that shape, NaN where there is none.

    Args:
        places: where the values of each part belong.
        shape: replicates and points of the request.
        points: the points of a part, (rows, columns, d).
        values: their values, (rows, columns).
        looks: whether the answer holds one value a replicate.
    """

    def evaluate(part: int) -> Answer:
        return Answer(values(places[part], points(places[part])).flatten())

    def join(answers: Sequence[Answer]) -> Answer:
        whole = answers[0].values.new_full(shape, torch.nan)
        for place, answer in zip(places, answers, strict=True):
            rows = torch.tensor(place.rows, device=whole.device)[:, None]
            columns = torch.arange(place.columns.start, place.columns.stop, device=whole.device)
            whole[rows, columns] = answer.values.view(len(place.rows), -1)
        return Answer(whole[:, 0] if looks else whole)

    return Parts(len(places), evaluate, join, lambda part: points(places[part]).flatten(0, 1))


def one_part(evaluate: Callable[[], Answer]) -> Parts:
    """A request that is not cut. ∇f is left out: it has as many numbers as x."""
    return Parts(1, lambda part: evaluate()._replace(gradient=None), lambda answers: answers[0])
