"""Snippets on pages: what stands in a README or on the site can be run, and is.

``<!-- run: NAME -->`` before a Python block: a script. ``<!-- file: NAME -->``: a file.
``<!-- commands -->``: lines that are typed; ``<!-- commands on these files -->``: beside the files.
``<!-- not run: WHY -->``: a part of something that runs elsewhere.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.tune.conftest import QUIET

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


@dataclass(frozen=True)
class Page:
    """A page and its snippets."""

    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def scripts(self) -> dict[str, str]:
        return dict(
            re.findall(r"<!-- run: (\S+) -->\n```python\n(.*?)```", self.text, re.DOTALL),
        )

    @property
    def files(self) -> dict[str, str]:
        return dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", self.text, re.DOTALL))

    def commands(self, kind: str = "commands") -> list[str]:
        blocks = re.findall(rf"<!-- {kind} -->\n```(?:bash)?\n(.*?)```", self.text, re.DOTALL)
        return [line for block in blocks for line in block.splitlines()]

    @property
    def loose(self) -> list[str]:
        """Python blocks that nobody runs."""
        blocks = re.findall(r"((?:<!-- [^\n]*-->\n)?)```python\n(.*?)```", self.text, re.DOTALL)
        return [code for mark, code in blocks if not mark and not code.startswith(">>>")]


def run(words: Sequence[str], folder: Path, **environment: str) -> str:
    """What a program prints in a folder; it must end well."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=os.environ | QUIET | {"HOME": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run_script(name: str, code: str, folder: Path, **environment: str) -> str:
    """What a script prints."""
    (folder / name).write_text(code, encoding="utf-8")
    return run([sys.executable, name], folder, **environment)


def run_command(line: str, folder: Path, *more: str) -> str:
    """What a command prints."""
    program, *words = shlex.split(line, comments=True)
    assert program == "zotune"
    return run([sys.executable, "-m", "zotune.cli", *words, *more], folder)


def tool(name: str) -> ModuleType:
    """A module of the folder ``tools``, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
