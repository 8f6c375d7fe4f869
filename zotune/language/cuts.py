"""Places in a model below which nothing moves, so that what arrives there is always the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from zotune.language.heads import Classifier
from zotune.language.tokens import Batch
from zotune.weights.probing import pointed_at

ROUNDING = {torch.float32: 1e-3}
"""Largest difference of logits with and without the cache, relative to the largest; else 0.03."""


class Cut(ABC):
    """A place of a model below which nothing moves."""

    name: str

    def __init__(self, module: Classifier) -> None:
        self.module = module

    @abstractmethod
    def output(self, example: Batch) -> Tensor:
        """What arrives at this place, for a batch of one example."""

    @abstractmethod
    def logits(self, batch: Batch, outputs: Sequence[Tensor]) -> Tensor:
        """The logits of a batch from what arrives here for each of its examples."""


class AtHead(Cut):
    """Between the model and a head that reads one hidden state of each example."""

    name = "head"

    def output(self, example: Batch) -> Tensor:
        """The hidden state that the head reads."""
        return self.module.features(example)[0]

    def logits(self, batch: Batch, outputs: Sequence[Tensor]) -> Tensor:
        """The head alone."""
        return self.module.read(torch.stack(list(outputs)))


class AboveLayers(Cut):
    """Above the first layers; the model runs as always, without what these compute."""

    def __init__(self, module: Classifier, layers: Sequence[nn.Module], *, in_tuple: bool) -> None:
        super().__init__(module)
        self.layers = layers
        self.name = f"layer {len(layers)}"
        self._in_tuple = in_tuple

    def output(self, example: Batch) -> Tensor:
        """The hidden states after the last of these layers, without padding."""

        def stop(layer: nn.Module, given: Any, hidden: Any) -> None:
            raise _Reached(_hidden(hidden))

        handle = self.layers[-1].register_forward_hook(stop)
        try:
            self.module(example)
        except _Reached as reached:
            return reached.hidden[0, : int(example.lengths[0])].clone()
        finally:
            handle.remove()
        raise AssertionError("the layer has not run")  # it has, in find_cut

    def logits(self, batch: Batch, outputs: Sequence[Tensor]) -> Tensor:
        """The model with these layers replaced by their outputs, padded with zeros."""
        width = batch.inputs["input_ids"].shape[1]
        hidden = outputs[0].new_zeros(len(batch), width, outputs[0].shape[-1])
        for row, output in zip(hidden, outputs, strict=True):
            row[: len(output)] = output
        with _answering(self.layers, (hidden,) if self._in_tuple else hidden):
            logits: Tensor = self.module(batch)
        return logits


@torch.no_grad()
def find_cut(
    module: Classifier, trained: Mapping[str, Parameter], examples: Sequence[Batch], both: Batch
) -> Cut | str:
    """The highest place below which nothing moves, or why there is none that can be used.

    ``examples`` are two batches of one, and ``both`` is the batch of the two. A place is found by
    a forward pass with NaN for all trained parameters: what is finite does not depend on them.
    """
    if any(part.training for part in module.modules()):
        return "the model is in training mode, where dropout makes its outputs random"
    cut = _at_head(module, trained, examples[0]) or _above_layers(module, trained, examples[0])
    if cut is None:
        return "trained weights are used from the first layer on"
    whole = module(both)
    parts = cut.logits(both, [cut.output(example) for example in examples])
    allowed = ROUNDING.get(next(iter(trained.values())).dtype, 0.03)
    if not float((whole - parts).abs().max()) <= allowed * float(whole.abs().max()):
        return f"the model's logits depend on more than what arrives at its {cut.name}"
    return cut


def _at_head(module: Classifier, trained: Mapping[str, Parameter], example: Batch) -> Cut | None:
    body = module.body
    if body is None or _moves(body, trained):
        return None
    with _blind(trained):
        still = bool(module.features(example).isfinite().all())
    return AtHead(module) if still else None


def _above_layers(
    module: Classifier, trained: Mapping[str, Parameter], example: Batch
) -> Cut | None:
    layers = _layers(module)
    outputs: list[tuple[nn.Module, Any]] = []
    handles = [
        layer.register_forward_hook(lambda layer, given, out: outputs.append((layer, out)))
        for layer in layers
    ]
    try:
        with _blind(trained):
            module(example)
    finally:
        for handle in handles:
            handle.remove()
    if [id(layer) for layer, _ in outputs] != [id(layer) for layer in layers]:
        return None  # some run twice, or never
    count = 0
    for layer, output in outputs:
        if _moves(layer, trained) or not _is_hidden(output, example):
            break
        count += 1
    if not count:
        return None
    return AboveLayers(module, layers[:count], in_tuple=isinstance(outputs[0][1], tuple))


def _layers(module: nn.Module) -> list[nn.Module]:
    """The longest list of modules, which is that of the layers."""
    lists = [list(part) for part in module.modules() if isinstance(part, nn.ModuleList)]
    return max(lists, key=len, default=[])


def _moves(part: nn.Module, trained: Mapping[str, Parameter]) -> bool:
    mine = {id(parameter) for parameter in part.parameters()}
    return any(id(parameter) in mine for parameter in trained.values())


def _is_hidden(output: Any, example: Batch) -> bool:
    """Whether a layer returned finite hidden states, and nothing else."""
    if isinstance(output, tuple) and len(output) != 1:
        return False
    hidden = _hidden(output)
    shape = example.inputs["input_ids"].shape
    return isinstance(hidden, Tensor) and hidden.shape[:-1] == shape and _finite(hidden)


def _finite(tensor: Tensor) -> bool:
    return bool(tensor.isfinite().all())


def _hidden(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output


def _blind(trained: Mapping[str, Parameter]) -> Any:
    """A context in which all trained parameters are NaN."""
    return pointed_at(
        trained, {n: p.new_full((1,), torch.nan).expand(p.shape) for n, p in trained.items()}
    )


@contextmanager
def _answering(layers: Sequence[nn.Module], output: Any) -> Iterator[None]:
    """Let layers return an output without computing anything."""
    before = [layer.__dict__.get("forward") for layer in layers]
    try:
        for layer in layers:
            layer.__dict__["forward"] = lambda *args, **kwargs: output
        yield
    finally:
        for layer, forward in zip(layers, before, strict=True):
            del layer.__dict__["forward"]
            if forward is not None:
                layer.__dict__["forward"] = forward


class _Reached(Exception):
    """Ends a forward pass at the place whose output is wanted."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden
