"""Load tokenizer, configuration and weights of a model; safetensors only, no remote code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from zotune.addresses import digest
from zotune.errors import ConfigError
from zotune.language.heads import Classifier, Own, Pooled, Worded
from zotune.language.lora import add_lora
from zotune.language.made import tiny_config, tiny_tokenizer
from zotune.language.options import LORA, Options
from zotune.language.places import Place, first_line

SEQUENCE = "ForSequenceClassification"


def load_tokenizer(place: Place) -> Any:
    """The model's tokenizer, with padding at the end."""
    if place.folder is None:
        return tiny_tokenizer()
    from transformers import AutoTokenizer

    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(place.folder, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(
            f"problem.model {place.name!r} has no tokenizer that can be loaded: {first_line(error)}"
        ) from None
    return tokenizer


def load_config(place: Place, labels: tuple[str, ...], pad: int | None, options: Options) -> Any:
    """The model's configuration, with the classes of the data if the head is new."""
    config = _read_config(place)
    if getattr(config, "is_encoder_decoder", False):
        raise ConfigError(
            f"problem.model {place.name!r} is an encoder with a decoder; give a model that is one "
            "of the two"
        )
    if options.head == "linear" and options.pooling == "cls" and _is_causal(config):
        raise ConfigError(
            f"problem.pooling: the first token of {place.name!r} does not see the others; "
            "use last or mean"
        )
    if pad is not None:
        config.pad_token_id = pad
    if options.head == "own" and _has_head(config):
        _require_classes(place, config, labels)
    if options.head != "words":
        config.problem_type = "single_label_classification"
        config.id2label = dict(enumerate(labels))
        config.label2id = {name: at for at, name in enumerate(labels)}
    return config


def fit_options(options: Options, place: Place) -> Options:
    """The options with a head that fits the model, if none is given."""
    return options.fitted(has_head=_has_head(_read_config(place)))


def _read_config(place: Place) -> Any:
    if place.folder is None:
        return tiny_config()
    from transformers import AutoConfig

    try:
        with quiet():
            return AutoConfig.from_pretrained(place.folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"problem.model {place.name!r} is not of an architecture that transformers has: "
            f"{first_line(error)}"
        ) from None


def _is_causal(config: Any) -> bool:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    kind = type(config)
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING


def _has_head(config: Any) -> bool:
    return any(name.endswith(SEQUENCE) for name in config.architectures or ())


def head_order(place: Place, labels: tuple[str, ...]) -> tuple[str, ...]:
    """The labels in the order of an existing head with the same class names."""
    config = _read_config(place)
    theirs = [str(name).lower() for name in config.id2label.values()]
    ours = {name.lower(): name for name in labels}
    same = _has_head(config) and sorted(theirs) == sorted(ours)
    return tuple(ours[name] for name in theirs) if same else labels


def _require_classes(place: Place, config: Any, labels: tuple[str, ...]) -> None:
    if config.num_labels != len(labels):
        raise ConfigError(
            f"problem.labels: the head of {place.name!r} has {config.num_labels} classes "
            f"({', '.join(map(str, config.id2label.values()))}), and the data {len(labels)} "
            f"({', '.join(labels)}); use head: linear, or a dataset that fits"
        )


def build_classifier(
    place: Place, config: Any, words: list[int], labels: tuple[str, ...], options: Options
) -> Classifier:
    """The model with its head and low-rank layers, ready for training.

    On the default device ``meta`` it has names and shapes, but no weights.
    """
    seed = digest("language-model", place.name, options.seed)
    generator = torch.Generator().manual_seed(seed % 2**63)
    with quiet(), _initialised_by(seed):
        classifier = _with_head(_model(place, config, options), words, labels, options)
    if isinstance(classifier, Pooled) and not classifier.head.weight.is_meta:
        drawn = torch.randn(classifier.head.weight.shape, generator=generator)
        classifier.head.weight.data.copy_(getattr(config, "initializer_range", 0.02) * drawn)
    if LORA in options.parts:
        add_lora(classifier, options.lora_rank, options.lora_alpha, generator)
    return classifier.eval().requires_grad_(False)


def _with_head(
    model: nn.Module, words: list[int], labels: tuple[str, ...], options: Options
) -> Classifier:
    if options.pooling is not None:
        return Pooled(model, len(labels), options.pooling)
    return Own(model) if options.head == "own" else Worded(model, words)


def _model(place: Place, config: Any, options: Options) -> nn.Module:
    from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

    kinds: Mapping[str, Any] = {
        "linear": AutoModel,
        "own": AutoModelForSequenceClassification,
        "words": AutoModelForCausalLM,
    }
    kind, dtype = kinds[options.head or ""], getattr(torch, options.dtype)
    on_meta = torch.empty(0).is_meta
    try:
        if place.folder is None or on_meta:
            model: nn.Module = kind.from_config(config, dtype=dtype)
        else:
            model = kind.from_pretrained(
                place.folder,
                config=config,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
            )
    except (OSError, ValueError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        raise ConfigError(
            f"problem.model {place.name!r} cannot be loaded with head: {options.head}: "
            f"{first_line(error)}"
        ) from None
    return model


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means out of memory, on a GPU or the CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


@contextmanager
def _initialised_by(seed: int) -> Iterator[None]:
    """Seed the initialisation within the context, and restore the global generator afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**32)
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress progress bars and warnings about new or unused weights."""
    from transformers.utils import logging as their_logging

    logging: Any = their_logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
