"""Tables of all registered entries and settings, for ``zotune list`` and the documentation."""

from __future__ import annotations

from pydantic.fields import FieldInfo

from zotune.blocksizes import BLOCK_SIZES
from zotune.config import NOT_TYPED, Config
from zotune.core.differences import DIFFERENCES
from zotune.directions import DIRECTIONS
from zotune.errors import one_of
from zotune.estimators import ESTIMATORS
from zotune.methods import METHODS
from zotune.objectives import PROBLEMS
from zotune.steps import AUTO, STEPS
from zotune.study.studyfile import parse_document, shipped_studies
from zotune.updates import UPDATES

CHOSEN = "Chosen to go with estimator, q and step; with all of them auto, the descent chooses all."


def catalogue() -> dict[str, list[dict[str, str]]]:
    """Tables of entries by kind."""
    return {
        "studies": [
            {"name": name, "question": str(parse_document(text, name).data["question"])}
            for name, text in shipped_studies().items()
        ],
        "methods": [
            {"name": m.name, "what it does": m.formula, "what it is": m.summary}
            for m in METHODS.values()
        ],
        "estimators": [
            {"name": e.name, "estimate": e.formula, "what it is": e.summary}
            for e in ESTIMATORS.values()
        ],
        "directions": [{"name": d.name, "what it is": d.summary} for d in DIRECTIONS.values()],
        "differences": [
            {
                "name": d.name,
                "v": d.formula,
                "evaluations a step": _cost(d.per_direction, d.per_step),
            }
            for d in DIFFERENCES.values()
        ],
        "updates": [
            {
                "name": u.name,
                "update": u.formula,
                "keeps": ", ".join(u.slots),
                "what it is": u.summary,
            }
            for u in UPDATES.values()
        ]
        + [{"name": AUTO, "update": "", "keeps": "", "what it is": CHOSEN}],
        "steps": [
            {"name": s.name, "step size": s.formula, "what it is": s.summary}
            for s in STEPS.values()
        ],
        "block sizes": [
            {
                "name": b.name,
                "q": b.formula,
                "options": ", ".join(f"{k}={v}" for k, v in b.options.items()),
                "what it is": b.summary,
            }
            for b in BLOCK_SIZES.values()
        ],
        "settings": [
            {"name": name, "default": _default(field), "what it is": _line(field.description)}
            for name, field in Config.model_fields.items()
            if name not in NOT_TYPED
        ],
        "problems": [
            {
                "name": p.name,
                "f(x)": p.formula,
                "what it is": p.summary,
                "options": ", ".join(f"{k}={v}" for k, v in p.options.items()),
            }
            for p in PROBLEMS.values()
        ],
    }


def of_kind(kind: str) -> dict[str, list[dict[str, str]]]:
    """The table of one kind, given without blanks."""
    tables = catalogue()
    words = {name.replace(" ", ""): name for name in tables}
    name = words[one_of("kind", kind.replace(" ", "").lower(), words)]
    return {name: tables[name]}


def _line(text: str | None) -> str:
    """A docstring as one line, because a Markdown table row must be one line."""
    return " ".join((text or "").split())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    return "" if field.default is None else str(field.default)


def markdown(kind: str) -> str:
    """One of the tables in Markdown."""
    rows = catalogue()[kind]
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(map(_cell, row.values())) + " |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """A bar within a cell would end it."""
    return text.replace("|", r"\|")


def _cost(per_direction: int, per_step: int) -> str:
    directions = "q" if per_direction == 1 else f"{per_direction}q"
    return directions if per_step == 0 else f"{directions} + {per_step}"
