"""Footnotes of a table: a mark in a cell, and the sentence below the table."""

from __future__ import annotations

MARKS = "†‡§¶‖"
"""In the order in which they are taken; after the last one they are doubled."""


class Footnotes:
    """Gives every sentence a mark; the same sentence has the same one.

    >>> notes = Footnotes()
    >>> notes.mark("above its start"), notes.mark("L estimated"), notes.mark("above its start")
    ('†', '‡', '†')
    >>> notes.lines
    ['† above its start', '‡ L estimated']
    """

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}

    def mark(self, sentence: str) -> str:
        """The mark of a sentence."""
        times, which = divmod(len(self._marks), len(MARKS))
        return self._marks.setdefault(sentence, MARKS[which] * (times + 1))

    @property
    def lines(self) -> list[str]:
        """What stands below the table."""
        return [f"{mark} {sentence}" for sentence, mark in self._marks.items()]
