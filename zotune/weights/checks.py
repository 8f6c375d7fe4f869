"""Checks of trained weights before a run."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from zotune.errors import ObjectiveError
from zotune.weights.block import TileBlock
from zotune.weights.layout import Layout
from zotune.weights.objective import WeightsObjective


def check_trained(objective: WeightsObjective) -> None:
    """Check that trained parameters do not overlap and share a dtype; make them contiguous."""
    if not objective.trained:
        raise ObjectiveError(f"{objective.name} trains no parameter; name at least one")
    places: dict[int, str] = {}
    for name, parameter in objective.trained.items():
        if parameter.dtype != objective.dtype:
            raise ObjectiveError(
                f"trained parameters must share one dtype, got {parameter.dtype} for {name} "
                f"beside {objective.dtype}; cast the model"
            )
        parameter.data = parameter.data.contiguous()
        other = places.setdefault(parameter.data_ptr(), name)
        if other != name and parameter.numel():
            raise ObjectiveError(
                f"{name} and {other} share their memory; name a tied parameter once"
            )


def moves_weights(
    trained: Mapping[str, Tensor], mu: float, layout: Layout, block: TileBlock
) -> bool:
    """Whether weights + mu·u differs from the weights anywhere, for any direction u."""
    for query in range(block.q):
        for tile, pieces in zip(layout.tiles, layout.pieces, strict=True):
            u = block.look(range(query, query + 1), tile, keep=False)[0]
            for piece in pieces:
                base = trained[piece.name].view(-1)[piece.inside]
                out = torch.empty_like(base)
                if not torch.equal(torch.add(base, u[piece.of_tile], alpha=mu, out=out), base):
                    return True
    return False
