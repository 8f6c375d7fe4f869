"""What users may rely on: public names with their signatures, settings, commands.

``python -m tests.public_names`` (or ``make names``) writes ``tests/public_names.txt`` again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import zotune
from zotune.cli import main
from zotune.config import Config

ROOT = Path(__file__).parents[1]
RECORDED = Path(__file__).with_suffix(".txt")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/*.md")
ADDRESS = re.compile(r"0x[0-9a-f]+")


def documented() -> set[str]:
    """Dotted names of zotune that the documents use, as attributes or in imports."""
    text = "\n".join(p.read_text() for pattern in DOCUMENTS for p in ROOT.glob(pattern))
    found = set(re.findall(r"zotune(?:\.[A-Za-z_]\w*)+", text))
    for module, names in re.findall(r"from (zotune[\w.]*) import ([\w, ]+)", text):
        found |= {f"{module}.{name.strip()}" for name in names.split(",")}
    return {name for name in found if resolved(name) is not None}


def resolved(name: str) -> Any:
    """The object of a dotted name; None where there is none."""
    found: Any = zotune
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part, None) or import_module(f"{found.__name__}.{part}")
        except (ImportError, AttributeError):
            return None
    return found


def signature(thing: Any) -> str:
    """Parameters with their defaults, without types; empty for what is not called."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return ADDRESS.sub("0x…", str(inspect.Signature(bare)))


def lines_of(name: str, thing: Any) -> Iterator[str]:
    """The name itself and, of a class of ours, what it offers."""
    if inspect.ismodule(thing):
        return
    yield f"{name}{signature(thing)}"
    if not inspect.isclass(thing):
        return
    for member, value in sorted(vars(thing).items()):
        plain = getattr(value, "__func__", value)
        offered = callable(plain) or isinstance(value, property | cached_property)
        if member.startswith("_") or not offered:
            continue
        yield f"{name}.{member}{signature(plain)}"


def settings() -> Iterator[str]:
    """Keys of the configuration, with their defaults."""
    for key, field in Config.model_fields.items():
        default = field.get_default(call_default_factory=True)
        yield f"setting {key}" + ("" if field.is_required() else f" = {default!r}")


def row_keys() -> Iterator[str]:
    """Keys of a result row."""
    return (f"row {key}" for key in zotune.minimize("quadratic", q=1, budget=4).rows[-1])


def commands(group: click.Group, words: str = "zotune") -> Iterator[str]:
    """Commands with their options."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, f"{words} {name}")
            continue
        options = [option for p in command.params for option in (*p.opts, *p.secondary_opts)]
        yield f"command {words} {name} {' '.join(sorted(options))}"


def public_names() -> list[str]:
    """Every line of the record, sorted."""
    names = {f"zotune.{name}" for name in zotune.__all__ if name[0] != "_"} | documented()
    lines = [line for name in names for line in lines_of(name, resolved(name))]
    return sorted({*lines, *settings(), *row_keys(), *commands(main)})


if __name__ == "__main__":
    RECORDED.write_text("\n".join(public_names()) + "\n")
    print(f"wrote {RECORDED}")
