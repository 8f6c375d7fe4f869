"""Split a request into parts that one or several processes can evaluate in any order.

The split depends only on the request and the objective, never on the evaluator: a batched function
rounds differently for other batch sizes, and the results must be the same for any number of
workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn.functional import pad

from zotune.core.merit import merit
from zotune.iterates import Answer

if TYPE_CHECKING:
    from torch import Tensor

    from zotune.objectives import Objective


class Region(NamedTuple):
    """The position of a part's values in the values of its request, (replicates, points)."""

    rows: list[int]
    """Indices of replicates; if there are several, the part holds all of their points."""
    columns: range

    def shifted(self, by: int) -> Region:
        """The same rows, with the columns shifted."""
        return Region(self.rows, range(self.columns.start + by, self.columns.stop + by))


@dataclass(frozen=True)
class Parts:
    """The parts of a request.

    ``evaluate`` returns the answer of one part, in this process; ``join`` combines the answers of
    all parts, in order. ``points`` returns the points of a part, (n, d), if the request asks for
    values at points only.
    """

    count: int
    evaluate: Callable[[int], Answer]
    join: Callable[[Sequence[Answer]], Answer]
    points: Callable[[int], Tensor] | None = None

    def size(self, part: int) -> int:
        """Number of evaluations of a part."""
        return 1 if self.points is None else len(self.points(part))


def cut(rows: Sequence[int], columns: int, size: int) -> list[Region]:
    """Split into parts of whole replicates, or of ``size`` points if a replicate has more."""
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
    """Parts whose values are joined in a tensor of the given shape, filled with NaN elsewhere.

    Args:
        places: the position of each part's values.
        shape: numbers of replicates and of points of the request.
        points: returns the points of a part, (rows, columns, d).
        values: returns their values, (rows, columns).
        looks: whether the answer holds one value per replicate.
    """

    def evaluate(part: int) -> Answer:
        return Answer(values(places[part], points(places[part])).flatten())

    def join(answers: Sequence[Answer]) -> Answer:
        whole = answers[0].values.new_full(shape, torch.nan)
        for place, answer in zip(places, answers, strict=True):
            rows = torch.tensor(place.rows, device=whole.device)[:, None]
            columns = torch.arange(place.columns.start, place.columns.stop, device=whole.device)
            whole[rows, columns] = answer.values.view(len(place.rows), -1)
        if answers[0].outputs is not None:
            outputs = together([a.outputs for a in answers if a.outputs is not None])
            return Answer(whole, outputs=outputs.view(*shape, -1))
        return Answer(whole[:, 0] if looks else whole)

    return Parts(len(places), evaluate, join, lambda part: points(places[part]).flatten(0, 1))


def answer_at(objective: Objective, points: Tensor) -> Answer:
    """Values at points, (n, d), with the residuals if the function returns them."""
    if not objective.residuals:
        return Answer(objective.values(points))
    outputs = objective.outputs(points)
    return Answer(merit(outputs), outputs=outputs)


def together(outputs: Sequence[Tensor]) -> Tensor:
    """Residuals of several batches as rows, (n, m); failed rows may be shorter."""
    widest = max(one.shape[-1] for one in outputs)
    return torch.cat([pad(one, (0, widest - one.shape[-1]), value=torch.inf) for one in outputs])


def one_part(evaluate: Callable[[], Answer]) -> Parts:
    """A request as a single part. ∇f is dropped, to send no vector between processes."""
    return Parts(1, lambda part: evaluate()._replace(gradient=None), lambda answers: answers[0])
