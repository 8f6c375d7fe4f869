"""A language model that tells texts apart: the cross-entropy as a function of its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zotune.language.options import Options
from zotune.objectives import PROBLEMS, Problem

if TYPE_CHECKING:
    import torch

    from zotune.language.objective import LanguageModel


def language_model(*, device: torch.device | str = "cpu", **options: Any) -> LanguageModel:
    """The objective of the options; transformers is imported here and no sooner."""
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
