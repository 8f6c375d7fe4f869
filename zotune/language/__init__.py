"""Language models as text classifiers: the objective on their weights, and export."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zotune.language.export import export_run
    from zotune.language.exported import load_classifier
    from zotune.language.objective import LanguageModel
    from zotune.language.options import Options

_HOMES = {
    "LanguageModel": "objective",
    "Options": "options",
    "export_run": "export",
    "load_classifier": "exported",
}

__all__ = ["LanguageModel", "Options", "export_run", "load_classifier"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: transformers takes seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module 'zotune.language' has no attribute {name!r}")
    return getattr(import_module(f"zotune.language.{_HOMES[name]}"), name)
