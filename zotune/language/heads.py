"""Three kinds of classification heads for Hugging Face models, and saving them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from zotune.language.tokens import Batch

HEAD_WEIGHTS = "head.safetensors"
"""The file of a head that is not part of the model's class."""
BACKBONE = "backbone"
"""The folder of the model in that case; transformers would else load it with a random head."""


class Classifier(nn.Module):
    """A model with a head; ``forward`` gives logits in float32, (batch, classes)."""

    inner: nn.Module
    """Hugging Face's model."""
    load_with: str
    """The function that loads an export including the trained head."""

    def forward(self, batch: Batch) -> Tensor:
        """One logit per class for each example."""
        raise NotImplementedError

    @property
    def body(self) -> nn.Module | None:
        """What computes ``features``; None if the head does not read one hidden state."""
        return None

    def features(self, batch: Batch) -> Tensor:
        """The hidden state of each example that the head reads, (batch, width)."""
        raise NotImplementedError

    def read(self, features: Tensor) -> Tensor:
        """The logits of such hidden states."""
        raise NotImplementedError

    def head_names(self) -> list[str]:
        """Names of the head's parameters; none if the model's own output is used."""
        raise NotImplementedError

    def unread_names(self) -> list[str]:
        """Parameters that the logits do not depend on, and that are therefore not trained."""
        return []

    def read_rows(self, batch: Batch) -> Mapping[str, Tensor]:
        """Sorted rows of embeddings that a batch's logits depend on; all rows of missing names."""
        embedding = self._embedding()
        if embedding is None or self._uses(embedding) > 1:
            return {}
        return {self._name(embedding): sorted_tokens(batch)}

    def save(self, folder: Path) -> Path:
        """Write the model with its head for ``load_with``; return where the model itself is."""
        model: Any = self.inner
        model.save_pretrained(folder)
        return folder

    def _embedding(self) -> Tensor | None:
        inner: Any = self.inner
        found = inner.get_input_embeddings()
        return found.weight if isinstance(found, nn.Embedding) else None

    def _named(self) -> list[tuple[str, nn.Parameter]]:
        return list(self.named_parameters(remove_duplicate=False))

    @cached_property
    def _names(self) -> dict[int, list[str]]:
        """All names of each parameter; found once, as a step on the head takes less time."""
        found: dict[int, list[str]] = {}
        for name, parameter in self._named():
            found.setdefault(id(parameter), []).append(name)
        return found

    def _uses(self, parameter: Tensor) -> int:
        return len(self._names[id(parameter)])

    def _name(self, parameter: Tensor) -> str:
        """The first name of a parameter, by which it is trained."""
        return self._names[id(parameter)][0]


class Pooled(Classifier):
    """A linear head without bias on one hidden state per example, as in the paper."""

    def __init__(self, backbone: nn.Module, classes: int, pooling: str) -> None:
        super().__init__()
        self.backbone = backbone
        weight = next(backbone.parameters())
        config: Any = backbone.config
        self.head = nn.Linear(
            config.hidden_size, classes, bias=False, device=weight.device, dtype=weight.dtype
        )
        self.pooling = pooling

    @property
    def inner(self) -> nn.Module:  # type: ignore[override]
        """The model without a head."""
        return self.backbone

    def forward(self, batch: Batch) -> Tensor:
        """The head on the pooled hidden states."""
        return self.read(self.features(batch))

    @property
    def body(self) -> nn.Module:
        """The model without a head."""
        return self.backbone

    def features(self, batch: Batch) -> Tensor:
        """The pooled hidden states."""
        hidden = self.backbone(**batch.inputs, **without_cache(self.backbone)).last_hidden_state
        return pooled(hidden, batch, self.pooling)

    def read(self, features: Tensor) -> Tensor:
        """The linear layer."""
        logits: Tensor = self.head(features)
        return logits.float()

    def head_names(self) -> list[str]:
        """The linear layer."""
        return ["head.weight"]

    def unread_names(self) -> list[str]:
        """The parameters of the model's own pooler, which is not used."""
        return [name for name, _ in self._named() if name.startswith("backbone.pooler.")]

    @property
    def load_with(self) -> str:  # type: ignore[override]
        """zotune's function if the architecture's class has a different head."""
        apart = self._sequence_class() is None
        return "zotune.language.load_classifier" if apart else Own.load_with

    def save(self, folder: Path) -> Path:
        """Save as a sequence-classification model if its class pools alike; else head apart."""
        kind: Any = self._sequence_class()
        if kind is None:
            weight = self.head.weight.detach().cpu().contiguous()
            save_file({"weight": weight}, folder / HEAD_WEIGHTS)
            return super().save(folder / BACKBONE)
        with torch.device("meta"):
            whole = kind(self.backbone.config)
        setattr(whole, whole.base_model_prefix, self.backbone)
        whole.score = self.head
        whole.save_pretrained(folder)
        return folder

    def _sequence_class(self) -> type | None:
        """The architecture's own class with this head on the last token; None if there is none."""
        from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as CLASSES
        from transformers.modeling_layers import GenericForSequenceClassification

        config: Any = self.backbone.config
        kind: Any = CLASSES.get(type(config), None)
        plain = isinstance(kind, type) and issubclass(kind, GenericForSequenceClassification)
        return kind if self.pooling == "last" and plain else None


class Own(Classifier):
    """The architecture's own sequence-classification head."""

    load_with = "transformers.AutoModelForSequenceClassification.from_pretrained"

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    @property
    def inner(self) -> nn.Module:  # type: ignore[override]
        """The whole model."""
        return self.model

    def forward(self, batch: Batch) -> Tensor:
        """The model's logits."""
        logits: Tensor = self.model(**batch.inputs, **without_cache(self.model)).logits
        return logits.float()

    def head_names(self) -> list[str]:
        """Everything outside the base model."""
        model: Any = self.model
        base = {id(parameter) for parameter in model.base_model.parameters()}
        return [name for name, parameter in self.named_parameters() if id(parameter) not in base]


class Worded(Classifier):
    """A causal model whose next-token logits for one word per class are compared after a prompt."""

    load_with = "transformers.AutoModelForCausalLM.from_pretrained"

    def __init__(self, model: nn.Module, words: list[int]) -> None:
        super().__init__()
        self.model = model
        self.words = words

    @property
    def inner(self) -> nn.Module:  # type: ignore[override]
        """The whole model."""
        return self.model

    def forward(self, batch: Batch) -> Tensor:
        """Logits of the words at the last token of each prompt."""
        return self.read(self.features(batch))

    @property
    def body(self) -> nn.Module:
        """The model without its output."""
        model: Any = self.model
        base: nn.Module = model.base_model
        return base

    def features(self, batch: Batch) -> Tensor:
        """The hidden state of the last token of each prompt."""
        hidden = self.body(**batch.inputs, **without_cache(self.body)).last_hidden_state
        return pooled(hidden, batch, "last")

    def read(self, features: Tensor) -> Tensor:
        """Logits of the words only."""
        return self._said(features).float()

    def _said(self, hidden: Tensor) -> Tensor:
        """Logits of the words, in the model's precision.

        Rows of a tied embedding are looked up instead of multiplying with all of them, by calling
        the module that owns them, because lean probes perturb weights only during that call.
        """
        model: Any = self.model
        embedding, output = model.get_input_embeddings(), model.get_output_embeddings()
        tied = output.weight is embedding.weight and output.bias is None
        if tied and type(embedding) is nn.Embedding:
            rows = embedding(torch.tensor(self.words, device=hidden.device))
            return nn.functional.linear(hidden, rows)
        logits: Tensor = output(hidden)
        return logits[:, self.words]

    def head_names(self) -> list[str]:
        """None: the words are rows of the model's own output."""
        return []

    def read_rows(self, batch: Batch) -> Mapping[str, Tensor]:
        """The batch's tokens for the embedding, the words for the output; both if they are tied."""
        model: Any = self.model
        embedding = self._embedding()
        output: Tensor = model.get_output_embeddings().weight
        tokens = sorted_tokens(batch)
        words = torch.tensor(sorted(self.words), device=tokens.device)
        if output is embedding:
            return {self._name(output): torch.unique(torch.cat([tokens, words]))}
        rows = {self._name(output): words}
        return rows if embedding is None else {self._name(embedding): tokens} | rows


def pooled(hidden: Tensor, batch: Batch, pooling: str) -> Tensor:
    """One hidden state per example: of the last token, the mean, or of the first token."""
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), batch.lengths - 1]
    mask = batch.inputs["attention_mask"].unsqueeze(-1)
    total = (hidden.float() * mask).sum(1) / batch.lengths.unsqueeze(-1)
    return total.to(hidden.dtype)


def sorted_tokens(batch: Batch) -> Tensor:
    """The distinct token ids of a batch, sorted."""
    found: Tensor = torch.unique(batch.inputs["input_ids"])
    return found


def without_cache(model: nn.Module) -> dict[str, bool]:
    """Arguments that disable the key-value cache of decoders, which is not needed here."""
    wanted = "use_cache" in inspect.signature(model.forward).parameters
    return {"use_cache": False} if wanted else {}
