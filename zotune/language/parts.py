"""The parts of a model that ``trainable`` names: words, patterns, and lists of them."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping

from torch import nn
from torch.nn import Parameter

from zotune.errors import ConfigError, nearest
from zotune.language.heads import Classifier
from zotune.language.options import ALL, BIASES, HEAD, LORA, NORMS, PARTS, Options

Named = Mapping[str, Parameter]


def trained_parameters(classifier: Classifier, options: Options) -> Named:
    """Name → trained parameter, in the order of the vector; tied parameters appear once."""
    unread = set(classifier.unread_names())
    named = {n: p for n, p in classifier.named_parameters() if n not in unread}
    wanted = {name for part in options.parts for name in _names(part, classifier, named)}
    return {name: parameter for name, parameter in named.items() if name in wanted}


def _names(part: str, classifier: Classifier, named: Named) -> set[str]:
    """Names of the parameters of one part; at least one."""
    find = _WORDS.get(part)
    if find is not None:
        return find(classifier, named)
    found = set(fnmatch.filter(named, part))
    if not found:
        *others, last = PARTS
        raise ConfigError(
            f"problem.trainable {part!r} is none of {', '.join(others)} and {last}"
            f"{nearest(part, PARTS)} and matches no parameter; "
            f"names are like {', '.join(list(named)[-3:])}"
        )
    return found


def _all(classifier: Classifier, named: Named) -> set[str]:
    return set(named)


def _head(classifier: Classifier, named: Named) -> set[str]:
    found = set(classifier.head_names())
    if not found:
        raise ConfigError(
            "problem.trainable: head: words has no head of its own; use all, lora, norms, biases "
            "or a pattern"
        )
    return found


def _lora(classifier: Classifier, named: Named) -> set[str]:
    return {name for name in named if ".lora_" in name} | set(classifier.head_names())


def _norms(classifier: Classifier, named: Named) -> set[str]:
    norms = [name for name, module in classifier.named_modules() if _is_norm(module)]
    return _some(NORMS, {name for name in named if name.rpartition(".")[0] in norms})


def _is_norm(module: nn.Module) -> bool:
    """LayerNorm, and what the architectures call RMSNorm, Qwen3RMSNorm and so on."""
    return type(module).__name__.endswith("Norm")


def _biases(classifier: Classifier, named: Named) -> set[str]:
    return _some(BIASES, {name for name in named if name.rpartition(".")[2] == "bias"})


def _some(word: str, found: set[str]) -> set[str]:
    if not found:
        raise ConfigError(f"problem.trainable: this model has no {word}; leave {word!r} out")
    return found


_WORDS: Mapping[str, Callable[[Classifier, Named], set[str]]] = {
    ALL: _all,
    HEAD: _head,
    LORA: _lora,
    NORMS: _norms,
    BIASES: _biases,
}
