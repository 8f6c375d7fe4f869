"""What the doctor says about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "problem"]
GIB = 2**30


@dataclass(frozen=True)
class Fact:
    """One thing about this machine."""

    name: str
    status: Status
    """``problem`` if something will not work, ``note`` if it may surprise."""
    found: str
    advice: str
    """What it means for a study, and what to do."""
