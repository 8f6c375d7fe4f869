"""Lean memory mode: evaluate losses around the weights with memory for a part of a layer only.

Each module that owns trained parameters computes with weights + mu·u while its ``forward`` runs:
the perturbed weights are computed before it and freed after it, and the weights are only read. An
embedding computes only the rows that it looks up. A large linear layer (such as the output head of
a language model) processes its rows in parts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from zotune.errors import ConfigError
from zotune.weights.layout import Layout, runs
from zotune.weights.objective import Batch, WeightsObjective
from zotune.weights.probing import Probe, Shift, pointed_at

PART_BYTES = 2**25
"""Maximum bytes for the perturbed weights of a linear layer at a time."""
_TILES = 4
"""Number of cached tiles; neighbouring parameters share tiles."""

Forward = Callable[..., Any]


class LeanProbe(Probe):
    """Evaluates losses with the perturbed weights of one module at a time."""

    layout: Layout
    """The layout of the step."""

    def __init__(self, objective: WeightsObjective, mu: float) -> None:
        super().__init__(objective, mu)
        names = {id(p): name for name, p in objective.trained.items()}
        self.originals = {name: p.data for name, p in objective.trained.items()}
        self.owners = [
            (module, {key: names[id(p)] for key, p in _parameters(module) if id(p) in names})
            for module in objective.module.modules()
        ]
        self.owners = [(module, owned) for module, owned in self.owners if owned]
        self._checked = False

    def begin(self, batch: Batch, layout: Layout) -> None:
        """Store the layout of the step."""
        self.layout = layout

    def center(self, batch: Batch) -> float:
        """The loss at the weights, with large layers split as for perturbed weights."""
        return self._loss(batch, _Mover(self, None, 0.0))

    def side(self, batch: Batch, shift: Shift, radius: float) -> float:
        """The loss with every module's weights perturbed while it runs."""
        return self._loss(batch, _Mover(self, shift, radius))

    def _loss(self, batch: Batch, mover: _Mover) -> float:
        with _forwards((m, _wrapped(m, owned, mover)) for m, owned in self.owners):
            if self._checked:
                return float(self.objective.loss(batch))
            self._checked = True
            originals = self.originals.items()
            blind = {n: p.new_full((1,), torch.nan).expand(p.shape) for n, p in originals}
            with pointed_at(self.objective.trained, blind):
                loss = float(self.objective.loss(batch))
        if not isfinite(loss) and isfinite(float(self.objective.loss(batch))):
            raise ConfigError(
                "memory 'lean' needs every trained parameter to be used by the module that owns "
                f"it alone, and {self.objective.name} uses one elsewhere; set memory='fast'"
            )
        return loss

    def moved(self, name: str, start: int, stop: int, mover: _Mover, out: Tensor) -> Tensor:
        """Write weights + radius·u for a range of one parameter to ``out``."""
        base = self.originals[name].view(-1)
        if not self.layout.is_whole:
            out.copy_(base[start:stop])
        for tile, piece in self.layout.of(name, start, stop):
            into = out[piece.inside.start - start : piece.inside.stop - start]
            u = mover.tile(tile)[piece.of_tile]
            torch.add(base[piece.inside], u, alpha=mover.radius, out=into)
        return out


class _Mover:
    """Computes perturbed weights along one vector; without one, returns the weights themselves."""

    def __init__(self, probe: LeanProbe, shift: Shift | None, radius: float) -> None:
        self.probe = probe
        self.shift = shift
        self.radius = radius
        self._tiles: OrderedDict[int, Tensor] = OrderedDict()

    def whole(self, name: str) -> Tensor:
        """A perturbed parameter."""
        whole = self.probe.originals[name]
        if self.shift is None:
            return whole
        out = torch.empty(whole.numel(), dtype=whole.dtype, device=whole.device)
        return self.probe.moved(name, 0, whole.numel(), self, out).view_as(whole)

    def rows(self, name: str, spans: list[tuple[int, int]]) -> Tensor:
        """Ranges of whole rows of a parameter, perturbed and concatenated."""
        whole = self.probe.originals[name]
        total = sum(stop - start for start, stop in spans)
        out = torch.empty(total, dtype=whole.dtype, device=whole.device)
        at = 0
        for start, stop in spans:
            part = out[at : at + stop - start]
            if self.shift is None:
                part.copy_(whole.view(-1)[start:stop])
            else:
                self.probe.moved(name, start, stop, self, part)
            at += stop - start
        return out.view(-1, *whole.shape[1:])

    def tile(self, index: int) -> Tensor:
        """A tile of the vector; the last few are cached."""
        assert self.shift is not None  # for the type checker
        if index not in self._tiles:
            tile = self.probe.layout.tiles[index]
            self._tiles[index] = self.shift(index, tile).clone()
            if len(self._tiles) > _TILES:
                self._tiles.popitem(last=False)
        return self._tiles[index]


def _wrapped(module: nn.Module, owned: dict[str, str], mover: _Mover) -> Forward:
    """The forward of a module with its parameters perturbed."""
    if _is(module, nn.Embedding) and not getattr(module, "max_norm", None):
        return lambda ids: _look_up(ids, owned["weight"], mover)
    if _is(module, nn.Linear) and owned.keys() >= {"weight"} and _is_large(module):
        return lambda x: _multiply(x, module, owned, mover)
    plain = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        trained = {key: getattr(module, key) for key in owned}
        stand_ins = {key: mover.whole(name) for key, name in owned.items()}
        with pointed_at(trained, stand_ins):
            return plain(*args, **kwargs)

    return forward


def _look_up(ids: Tensor, name: str, mover: _Mover) -> Tensor:
    """The forward of an embedding, which computes only the rows that are looked up."""
    rows, places = torch.unique(ids, return_inverse=True)
    made = mover.rows(name, runs(rows, mover.probe.originals[name].shape[1]))
    return functional.embedding(places, made)


def _multiply(x: Tensor, module: nn.Module, owned: dict[str, str], mover: _Mover) -> Tensor:
    """The forward of a linear layer, whose rows are computed in parts."""
    name = owned["weight"]
    rows, width = mover.probe.originals[name].shape
    bias = mover.whole(owned["bias"]) if "bias" in owned else module.bias
    size = max(1, PART_BYTES // (width * x.element_size()))
    out = x.new_empty(*x.shape[:-1], rows)
    for start in range(0, rows, size):
        stop = min(start + size, rows)
        weight = mover.rows(name, [(start * width, stop * width)])
        part = bias[start:stop] if isinstance(bias, Tensor) else None
        out[..., start:stop] = functional.linear(x, weight, part)
    return out


@contextmanager
def _forwards(wrapped: Iterator[tuple[nn.Module, Forward]]) -> Iterator[None]:
    """Replace the forwards of modules within the context."""
    before: list[tuple[nn.Module, Forward | None]] = []
    try:
        for module, forward in list(wrapped):
            before.append((module, module.__dict__.get("forward")))
            module.__dict__["forward"] = forward
        yield
    finally:
        for module, original in before:
            if original is None:
                del module.__dict__["forward"]
            else:
                module.__dict__["forward"] = original


def _parameters(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return module.named_parameters(recurse=False)


def _is(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module is of this kind and does not override its ``forward``."""
    of_module: Any = type(module)
    return isinstance(module, kind) and of_module.forward is kind.forward


def _is_large(module: nn.Module) -> bool:
    weight = module.weight
    return isinstance(weight, Tensor) and weight.numel() * weight.element_size() > PART_BYTES
