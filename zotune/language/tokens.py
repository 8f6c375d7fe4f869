"""Tokenised examples in memory, and padded batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from zotune.addresses import Keys, extend, permute
from zotune.errors import ConfigError
from zotune.language.examples import Examples
from zotune.language.options import Options

MULTIPLE = 8
"""Lengths are padded to multiples of this."""


@dataclass(frozen=True)
class Batch:
    """Padded token ids with their mask, and the classes."""

    inputs: dict[str, Tensor]
    """The arguments of the model: input_ids, attention_mask, maybe token_type_ids."""
    lengths: Tensor
    labels: Tensor
    split: str = ""
    rows: tuple[int, ...] = ()
    """The examples' numbers in their split, if they are of one."""

    def __len__(self) -> int:
        return len(self.labels)

    def parts(self, size: int) -> Iterator[Batch]:
        """Parts of at most so many examples, short ones first, each padded to its own longest."""
        if len(self) <= size:
            yield self
            return
        order = torch.argsort(self.lengths, stable=True)
        for first in range(0, len(self), size):
            yield self._only(order[first : first + size])

    def _only(self, at: Tensor) -> Batch:
        """The examples at these places of the batch."""
        lengths = self.lengths[at]
        width = padded_width(int(lengths.max()))
        inputs = {name: values[at, :width] for name, values in self.inputs.items()}
        rows = tuple(self.rows[k] for k in at.tolist()) if self.rows else ()
        return Batch(inputs, lengths, self.labels[at], self.split, rows)


@dataclass(frozen=True)
class Tokenised:
    """The token ids of a split, with methods that make batches."""

    ids: list[list[int]]
    types: list[list[int]] | None
    """The index of the text to which each token belongs, for models that need it."""
    labels: list[int]
    pad: int
    longest: int
    """Maximum number of tokens of the model."""
    split: str = ""

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: Sequence[int], device: torch.device) -> Batch:
        """The examples of these rows, padded to a multiple of eight."""
        lengths = [len(self.ids[row]) for row in rows]
        width = min(self.longest, padded_width(max(lengths)))
        inputs = {
            "input_ids": _padded([self.ids[row] for row in rows], width, self.pad),
            "attention_mask": _padded([[1] * length for length in lengths], width, 0),
        }
        if self.types is not None:
            inputs["token_type_ids"] = _padded([self.types[row] for row in rows], width, 0)
        return Batch(
            {name: torch.from_numpy(values).to(device) for name, values in inputs.items()},
            torch.tensor(lengths, device=device),
            torch.tensor([self.labels[row] for row in rows], device=device),
            self.split,
            tuple(rows) if self.split else (),
        )

    def batches(self, size: int, device: torch.device, count: int | None = None) -> Iterator[Batch]:
        """Batches of all examples, or of the first so many, grouped by length."""
        order = sorted(
            range(len(self) if count is None else count), key=lambda row: len(self.ids[row])
        )
        for first in range(0, len(order), size):
            yield self.batch(order[first : first + size], device)

    def digest(self) -> str:
        """A digest of the data."""
        text = repr((self.ids, self.types, self.labels)).encode()
        return hashlib.sha256(text).hexdigest()[:16]


def padded_width(longest: int) -> int:
    """Tokens to which a batch is padded."""
    return -(-longest // MULTIPLE) * MULTIPLE


def _padded(rows: Sequence[Sequence[int]], width: int, value: int) -> npt.NDArray[np.int64]:
    padded = np.full((len(rows), width), value, dtype=np.int64)
    for at, row in enumerate(rows):
        padded[at, : len(row)] = row
    return padded


def batch_rows(keys: Keys, step: int, batch: int, size: int) -> list[int]:
    """The examples of a step; each example occurs once per epoch, in a random order per epoch.

    Step t starts at position t · batch of the concatenated epochs; a batch at the end of an epoch
    is filled up from the next one. The result depends only on the address.
    """
    places = np.arange(step * batch, (step + 1) * batch)
    rows = []
    for epoch in range(places[0] // size, places[-1] // size + 1):
        inside = places[places // size == epoch] % size
        rows += permute(extend(keys[:1], int(epoch)), inside.astype(np.uint64), size)[0].tolist()
    return rows


def tokenise(
    split: str,
    examples: Examples,
    columns: tuple[str, ...],
    tokenizer: Any,
    longest: int,
    options: Options,
) -> Tokenised:
    """All examples of a split as token ids; too long ones are truncated, or raise an error."""
    if options.max_length is not None and options.max_length > longest:
        raise ConfigError(
            f"problem.max_length must be at most {longest}, the tokens that the model takes, "
            f"got {options.max_length}"
        )
    texts = prompts(examples, columns, tokenizer, options)
    # Truncate a prompt at its beginning, because its end contains the question.
    side = "left" if options.head == "words" else "right"
    before, tokenizer.truncation_side = tokenizer.truncation_side, side
    coded = tokenizer(
        *([list(column) for column in zip(*texts, strict=True)]),
        truncation=options.max_length is not None,
        max_length=options.max_length,
        verbose=False,
    )
    tokenizer.truncation_side = before
    ids = coded["input_ids"]
    _require_fit(split, ids, longest)
    pad = tokenizer.pad_token_id
    return Tokenised(
        ids,
        coded["token_type_ids"] if "token_type_ids" in tokenizer.model_input_names else None,
        examples.labels,
        0 if pad is None else pad,
        longest,
        split,
    )


def prompts(
    examples: Examples, columns: tuple[str, ...], tokenizer: Any, options: Options
) -> list[tuple[str, ...]]:
    """The input of the tokenizer: prompts or texts; pairs are joined if it takes no pairs."""
    if options.template is not None:
        try:
            return [
                (options.template.format(**dict(zip(columns, texts, strict=True))),)
                for texts in examples.texts
            ]
        except (KeyError, IndexError, ValueError):
            raise ConfigError(
                f"problem.template must have columns in braces, {{{'}, {'.join(columns)}}}, "
                f"got {options.template!r}"
            ) from None
    if tokenizer.sep_token_id is None:
        return [("\n".join(texts),) for texts in examples.texts]
    return examples.texts


def _require_fit(split: str, ids: Sequence[Sequence[int]], longest: int) -> None:
    for number, tokens in enumerate(ids):
        if not tokens:
            raise ConfigError(f"problem.text: {split} row {number} is empty; leave such rows out")
        if len(tokens) > longest:
            raise ConfigError(
                f"problem.max_length: {split} row {number} has {len(tokens)} tokens, and the model "
                f"takes {longest}; set problem.max_length={longest} to cut it"
            )
