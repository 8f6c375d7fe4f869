"""The registered problem ``language-model``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zotune.language.options import Options
from zotune.objectives import PROBLEMS, Problem

if TYPE_CHECKING:
    import torch

    from zotune.language.objective import LanguageModel


def language_model(*, device: torch.device | str = "cpu", **options: Any) -> LanguageModel:
    """The objective of the options; imports transformers lazily."""
    from zotune.language.objective import LanguageModel

    return LanguageModel(Options(**options), device)


PROBLEMS.add(
    "language-model",
    Problem(
        "language-model",
        "mean of −log p(label | text)",
        "A Hugging Face model on labelled texts; x is its weights, or some of them.",
        language_model,
        settings=Options,
        weights=True,
    ),
)
