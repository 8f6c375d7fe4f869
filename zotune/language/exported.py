"""Load an exported model as a text classifier, for any kind of head."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from zotune.errors import ConfigError
from zotune.language.examples import Examples
from zotune.language.heads import BACKBONE, HEAD_WEIGHTS, Classifier, Pooled
from zotune.language.loading import build_classifier, fit_options, load_config, load_tokenizer
from zotune.language.options import Options
from zotune.language.places import Place, find_model
from zotune.language.preparation import Prepared
from zotune.language.tokens import tokenise

SETTINGS = "zotune.json"
"""The file with settings of the classifier, in addition to transformers' own files."""
KEPT = ("head", "pooling", "template", "words", "max_length", "dtype")
AT_ONCE = 32


def write_settings(prepared: Prepared, folder: Path) -> None:
    """Write how texts are mapped to logits, for ``load_classifier`` and for readers."""
    located = prepared.options.located()
    settings = {
        "labels": prepared.labels,
        "columns": prepared.columns,
        "longest": prepared.train.longest,
        "word_tokens": prepared.word_tokens,
        "trained_from": {"model": prepared.options.model, "revision": prepared.place.revision},
        "options": {name: located[name] for name in KEPT if name in located},
    }
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class ExportedClassifier:
    """A fine-tuned model that classifies texts."""

    module: Classifier
    tokenizer: Any
    options: Options
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    longest: int

    @torch.no_grad()
    def probabilities(self, texts: Sequence[str | tuple[str, str]]) -> Tensor:
        """The probability of each class for each text, or pair of texts, (n, classes)."""
        split = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
        examples = Examples(split, [0] * len(split))
        tokens = tokenise(
            "given", examples, self.columns, self.tokenizer, self.longest, self.options
        )
        parts = (range(at, min(at + AT_ONCE, len(split))) for at in range(0, len(split), AT_ONCE))
        cpu = torch.device("cpu")
        return torch.cat([self.module(tokens.batch(part, cpu)) for part in parts]).softmax(-1)

    def predict(self, texts: Sequence[str | tuple[str, str]]) -> list[str]:
        """The most probable class of each text."""
        return [self.labels[at] for at in self.probabilities(texts).argmax(-1).tolist()]


def load_classifier(folder: str | Path) -> ExportedClassifier:
    """The classifier in a folder that ``zotune export`` wrote."""
    folder = Path(folder)
    if not (folder / SETTINGS).is_file():
        raise ConfigError(f"{folder.absolute()} has no {SETTINGS}; give a folder of zotune export")
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    within = folder / BACKBONE if (folder / BACKBONE).is_dir() else folder
    place: Place = find_model(str(within), "main", weights=True)
    given = {"head": "linear"} | settings["options"]  # early exports left out what was the default
    options = fit_options(Options(model=str(within), **given), place)
    labels, tokenizer = tuple(settings["labels"]), load_tokenizer(place)
    config = load_config(place, labels, tokenizer.pad_token_id, options)
    module = build_classifier(place, config, settings["word_tokens"], labels, options)
    if isinstance(module, Pooled):
        module.head.weight.data.copy_(_head(folder))
    columns = tuple(settings["columns"])
    return ExportedClassifier(module, tokenizer, options, labels, columns, settings["longest"])


def _head(folder: Path) -> Tensor:
    """The linear head: from its own file, or from the model if its class has the same head."""
    if (folder / HEAD_WEIGHTS).is_file():
        return load_file(folder / HEAD_WEIGHTS)["weight"]
    for path in sorted(folder.glob("*.safetensors")):
        weights = load_file(path)
        if "score.weight" in weights:
            return weights["score.weight"]
    raise ConfigError(f"{folder.absolute()} has no head; give a folder of zotune export")
