"""Doctests in docstrings as Python code on the site; Markdown would make quotations of them."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for everything that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with a fence around each paragraph that begins with a prompt.

    >>> print(fenced("Half.\\n\\n>>> half(4)\\n2"))
    Half.
    <BLANKLINE>
    ```python
    >>> half(4)
    2
    ```
    """
    parts = text.split("\n\n")
    return "\n\n".join(f"```python\n{p}\n```" if p.startswith(">>> ") else p for p in parts)
