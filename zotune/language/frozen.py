"""The output of the part of a model that does not move, computed once for every example.

If no trained parameter is below some place of the model, what arrives there depends on the example
alone. It is computed for one example at a time, so that its bits do not depend on the batches in
which the example occurs: a resumed run, whose cache is empty, has the same losses.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from zotune.language.cuts import Cut
from zotune.language.tokens import Batch

STORES = 2
"""Number of caches in this process; trials on the same model, data and part share one."""


class Outputs(dict[Hashable, Tensor]):
    """Outputs by example, and the bytes that they take."""

    nbytes = 0

    def fits(self, output: Tensor, limit: int) -> bool:
        """Whether an output can be kept as well."""
        return self.nbytes + output.nbytes <= limit

    def keep(self, key: Hashable, output: Tensor) -> None:
        """Add an output."""
        self[key] = output
        self.nbytes += output.nbytes


class Frozen:
    """Logits from outputs that are kept within a limit, and for the current batch beyond it.

    Args:
        cut: the place of the model.
        kept: outputs by example, maybe shared with other objectives.
        limit: bytes for these.
        example: a split's example as a batch of one.
    """

    def __init__(
        self,
        cut: Cut,
        kept: Outputs,
        limit: int,
        example: Callable[[str, int], Batch],
    ) -> None:
        self.cut = cut
        self._kept, self._limit, self._example = kept, limit, example
        self._passing: dict[Hashable, Tensor] = {}

    def logits(self, batch: Batch) -> Tensor:
        """The logits of a batch whose examples are known."""
        return self.cut.logits(batch, [self._output(batch.split, row) for row in batch.rows])

    def forget(self) -> None:
        """Free what did not fit in the limit; called when the next batch comes."""
        self._passing.clear()

    def _output(self, split: str, row: int) -> Tensor:
        key = (split, row)
        found = self._kept.get(key)
        if found is None:
            found = self._passing.get(key)
        if found is None:
            found = self.cut.output(self._example(split, row))
            if self._kept.fits(found, self._limit):
                self._kept.keep(key, found)
            else:
                self._passing[key] = found
        return found


_STORES: OrderedDict[Hashable, Outputs] = OrderedDict()


def store_of(key: Hashable) -> Outputs:
    """The cache of a model, its data and a place in it; the least recently used one is dropped."""
    found = _STORES.setdefault(key, Outputs())
    _STORES.move_to_end(key)
    if len(_STORES) > STORES:
        _STORES.popitem(last=False)
    return found


def weights_below(module: nn.Module, trained: Mapping[str, Parameter]) -> tuple[float, ...]:
    """Sums of all weights that are not trained, which tell models apart."""
    moving = {id(parameter) for parameter in trained.values()}
    still = (p for p in module.parameters() if id(p) not in moving)
    return tuple(float(p.sum(dtype=torch.float64)) for p in still)
