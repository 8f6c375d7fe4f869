"""Loss and accuracy of a model before anything is trained, if they cost seconds at most."""

from __future__ import annotations

from collections import Counter

from zotune.language.options import Options

AFFORDABLE = 5e10
"""Multiplications and additions that are made to look at the start: a few seconds on one thread."""
LEAST = 32
"""Held-out examples below which an accuracy says nothing."""


def start_line(options: Options) -> str:
    """Loss and accuracy at the start, on as many held-out examples as cost little; maybe empty."""
    from zotune.language.objective import LanguageModel  # imports transformers

    prepared = options.prepared()
    held_out, labels = prepared.validation, prepared.validation.labels
    tokens = sum(len(ids) for ids in held_out.ids) / len(held_out)
    many = int(AFFORDABLE / (2 * prepared.dense * tokens))
    count = min(len(held_out), many)
    if prepared.place.is_on_hub or count < min(LEAST, len(held_out)):
        return ""
    objective = LanguageModel(options)
    found = objective.measured(count)
    most = max(Counter(labels[:count]).values()) / count
    of = f"{count} of {len(held_out)}" if count < len(held_out) else f"{count}"
    return (
        f"at the start: loss {found['loss']:.4g}, accuracy {found['accuracy']:.3g} "
        f"on {of} held-out examples; the largest class has {most:.3g} of them"
    )
