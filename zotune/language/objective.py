"""The cross-entropy of a language model as a text classifier, as a function of its weights."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from zotune.addresses import Keys
from zotune.errors import OutOfMemory
from zotune.language.cuts import find_cut
from zotune.language.exported import write_settings
from zotune.language.frozen import Frozen, store_of, weights_below
from zotune.language.heads import Classifier
from zotune.language.loading import is_out_of_memory, quiet
from zotune.language.lora import merged
from zotune.language.options import POOLINGS, Options
from zotune.language.parts import trained_parameters
from zotune.language.tokens import Batch, batch_rows
from zotune.weights.objective import WeightsObjective

log = logging.getLogger("zotune")


class LanguageModel(WeightsObjective):
    """Mean cross-entropy of a model's class logits on labelled texts; see ``Options``.

    Mini-batches are drawn without replacement within an epoch, by their address. Dropout is off.

    Args:
        options: model, data and trained parameters.
        device: device of the weights.
    """

    module: Classifier
    computed_once: str
    """What of the frozen part is computed once for every example, or why nothing is."""

    def __init__(self, options: Options, device: torch.device | str = "cpu") -> None:
        self.name = "language-model"
        self.device = torch.device(device)
        self.prepared = options.prepared()
        self.options = self.prepared.options
        with _memory_of(f"the weights of {options.model!r} in {options.dtype}", "problem.dtype"):
            self.module = self.prepared.classifier().to(self.device)
        self.trained = trained_parameters(self.module, options)
        self.dtype = next(iter(self.trained.values())).dtype
        self._frozen, self.computed_once = self._find_frozen()
        log.info("%s: %s", options.model, self.computed_once)

    def batch(self, keys: Keys, step: int) -> Batch:
        """The examples of a step; each example is used once per epoch."""
        if self._frozen is not None:
            self._frozen.forget()
        train = self.prepared.train
        rows = batch_rows(keys, step, self.options.batch, len(train))
        return train.batch(rows, self.device)

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy on the batch, in float32; computed in micro-batches if so set."""
        losses = [
            len(part) / len(batch) * cross_entropy(self._logits(part), part.labels)
            for part in batch.parts(self.options.at_once)
        ]
        return torch.stack(losses).sum()

    @property
    def evaluations_to_validate(self) -> int:
        """As many as the held-out examples fill batches of a step."""
        return -(-len(self.prepared.validation) // self.options.batch)

    def validate(self) -> dict[str, float]:
        """Mean cross-entropy and accuracy on the held-out examples."""
        return self._measured(self._held_out)

    def measured(self, count: int) -> dict[str, float]:
        """The same on the first of the held-out examples."""
        held_out = self.prepared.validation
        return self._measured(held_out.batches(self.options.at_once, self.device, count))

    def _measured(self, batches: Iterable[Batch]) -> dict[str, float]:
        loss, right, count = 0.0, 0, 0
        for batch in batches:
            if self._frozen is not None:
                self._frozen.forget()
            logits = self._logits(batch)
            each = cross_entropy(logits, batch.labels, reduction="none")
            loss += float(each.double().sum())
            right += int((logits.argmax(-1) == batch.labels).sum())
            count += len(batch)
        return {"loss": loss / count, "accuracy": right / count}

    def touched(self, batch: Batch) -> Mapping[str, Tensor]:
        """Rows of trained embeddings that the batch's tokens use."""
        rows = self.module.read_rows(batch)
        return {name: read for name, read in rows.items() if name in self.trained}

    def fingerprint(self) -> dict[str, Any]:
        """Model, data and trained parameters, in addition to the shape."""
        options, prepared = self.options, self.prepared
        return super().fingerprint() | {
            "model": options.model,
            "revision": prepared.place.revision,
            "data": f"{prepared.train.digest()}-{prepared.validation.digest()}",
            "labels": list(prepared.labels),
            "head": options.head,
            "pooling": options.pooling or POOLINGS[0],
            "trainable": options.trainable if len(options.parts) == 1 else list(options.parts),
            "lora": [options.lora_rank, options.lora_alpha],
            "batch": options.batch,
            "micro_batch": options.micro_batch,
            "computed_once": None if self._frozen is None else self._frozen.cut.name,
            "seed": options.seed,
        }

    def export(self, folder: Path) -> None:
        """Write model, head, tokenizer and configuration, low-rank layers merged."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with quiet(), merged(self.module):
            model_folder = self.module.save(folder)
        self.prepared.tokenizer.save_pretrained(model_folder)
        write_settings(self.prepared, folder)

    @cached_property
    def _held_out(self) -> list[Batch]:
        return list(self.prepared.validation.batches(self.options.at_once, self.device))

    @torch.no_grad()
    def _logits(self, batch: Batch) -> Tensor:
        size = " × ".join(map(str, batch.inputs["input_ids"].shape))
        settings = "problem.micro_batch, problem.batch or problem.max_length"
        with _memory_of(f"a batch of {size} tokens", settings):
            if self._frozen is not None and batch.rows and not self.module.training:
                return self._frozen.logits(batch)
            logits: Tensor = self.module(batch)
        return logits

    def _find_frozen(self) -> tuple[Frozen | None, str]:
        """What is computed once for every example, and how that is said."""
        limit, train = self.options.cache_bytes, self.prepared.train
        if not limit:
            return None, "nothing is computed once: problem.cache_bytes is 0"
        rows = [0, len(train) - 1]
        examples = [train.batch([row], self.device) for row in rows]
        cut = find_cut(self.module, self.trained, examples, train.batch(rows, self.device))
        if isinstance(cut, str):
            return None, f"nothing is computed once: {cut}"
        data = f"{train.digest()}-{self.prepared.validation.digest()}"
        still = weights_below(self.module, self.trained)
        kept = store_of((still, data, cut.name, self.options.pooling, str(self.device), limit))
        said = f"what arrives at the {cut.name} is computed once for every example"
        return Frozen(cut, kept, limit, self._example), f"{said}, within {limit / 2**20:.0f} MiB"

    def _example(self, split: str, row: int) -> Batch:
        prepared = self.prepared
        of = prepared.train if split == prepared.train.split else prepared.validation
        return of.batch([row], self.device)


@contextmanager
def _memory_of(what: str, setting: str) -> Iterator[None]:
    """Replace out-of-memory errors by a line that says which setting to lower."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"out of memory with {what}; lower {setting}") from error
