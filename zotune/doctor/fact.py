"""``Fact``: the result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "problem"]
GIB = 2**30


@dataclass(frozen=True)
class Fact:
    """A fact about this machine."""

    name: str
    status: Status
    """``problem`` if something will not work, ``note`` if it may be unexpected."""
    found: str
    advice: str
    """What it means for a study, and what to do."""
