"""Prepare a language-model problem without weights: check that model, data and labels match."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from zotune.errors import ConfigError
from zotune.language.examples import Data, read_examples
from zotune.language.heads import Classifier
from zotune.language.loading import (
    build_classifier,
    fit_options,
    head_order,
    load_config,
    load_tokenizer,
)
from zotune.language.options import Options
from zotune.language.parts import trained_parameters
from zotune.language.places import Place, find_model
from zotune.language.tokens import Tokenised, tokenise

KEPT = 4
"""Number of cached preparations."""


@dataclass(frozen=True)
class Prepared:
    """Tokenised data, and a description of the model without weights."""

    options: Options
    """The options, with head and pooling resolved."""
    place: Place
    config: Any
    tokenizer: Any
    word_tokens: list[int]
    """The token of each class, for ``head: words``."""
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    train: Tokenised
    validation: Tokenised
    dim: int
    dense: int
    """The number of weights by which every token is multiplied: all but embeddings."""
    load_with: str
    """The function that loads an export."""

    def classifier(self) -> Classifier:
        """Load the model with its weights."""
        place = find_model(self.options.model, self.options.revision, weights=True)
        return build_classifier(place, self.config, self.word_tokens, self.labels, self.options)


@lru_cache(maxsize=KEPT)
def prepare(options: Options) -> Prepared:
    """Find the model, read the data, and check that they match; no weights are loaded."""
    place = find_model(options.model, options.revision, weights=False)
    options = fit_options(options, place)
    data = read_examples(options)
    if options.head == "own" and options.labels is None:
        order = head_order(place, data.labels)
        data = read_examples(replace(options, labels=order)) if order != data.labels else data
    tokenizer = load_tokenizer(place)
    config = load_config(place, data.labels, tokenizer.pad_token_id, options)
    longest = _longest(config, tokenizer)
    words = _word_tokens(tokenizer, data, options)
    train, validation = (
        tokenise(split, examples, data.columns, tokenizer, longest, options)
        for split, examples in (("train", data.train), ("validation", data.validation))
    )
    with torch.device("meta"):
        skeleton = build_classifier(place, config, words, data.labels, options)
    dim = sum(parameter.numel() for parameter in trained_parameters(skeleton, options).values())
    return Prepared(
        options=options,
        place=place,
        config=config,
        tokenizer=tokenizer,
        word_tokens=words,
        columns=data.columns,
        labels=data.labels,
        train=train,
        validation=validation,
        dim=dim,
        dense=_dense(skeleton),
        load_with=skeleton.load_with,
    )


def _dense(classifier: Classifier) -> int:
    """The number of weights outside of embeddings."""
    embeddings = [m for m in classifier.modules() if isinstance(m, nn.Embedding)]
    looked_up = {id(parameter) for module in embeddings for parameter in module.parameters()}
    return sum(p.numel() for p in classifier.parameters() if id(p) not in looked_up)


def _longest(config: Any, tokenizer: Any) -> int:
    """Maximum number of tokens by the model's configuration and tokenizer."""
    limits = (getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
    return min(int(limit) for limit in limits if limit is not None)


def _word_tokens(tokenizer: Any, data: Data, options: Options) -> list[int]:
    """The token of each class's word after the prompt; each word must be one token."""
    if options.words is None:
        return []
    if options.template is None:
        raise ConfigError(
            "problem.template is missing: head: words needs a prompt, such as "
            f"'{{{data.columns[0]}}} It was'"
        )
    words = [str(word) for word in _by_label(options.words, data.labels)]
    if not options.template.endswith((" ", "\n")):
        words = [f" {word}" for word in words]
    coded = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
    for word, tokens in zip(words, coded, strict=True):
        if len(tokens) != 1:
            raise ConfigError(
                f"problem.words: {word!r} is {len(tokens)} tokens of {options.model!r} "
                f"({' '.join(tokenizer.convert_ids_to_tokens(tokens))}); give a word that is one"
            )
    found = [tokens[0] for tokens in coded]
    if len(set(found)) < len(found):
        raise ConfigError(f"problem.words must be different tokens, got {', '.join(words)}")
    return found


def _by_label(words: Any, labels: tuple[str, ...]) -> list[str]:
    pairs = all(isinstance(entry, tuple) for entry in words)
    named = dict(words) if pairs else {}
    if (pairs and set(named) != set(labels)) or len(words) != len(labels):
        came = ", ".join(named) if pairs else f"{len(words)} words"
        raise ConfigError(
            f"problem.words must have one word for each class, {', '.join(labels)}; got {came}"
        )
    return [named[label] for label in labels] if pairs else list(words)
