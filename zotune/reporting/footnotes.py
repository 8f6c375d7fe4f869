"""Footnotes of a table: marks in cells, and sentences below the table."""

from __future__ import annotations

MARKS = "†‡§¶‖"
"""Marks in order of use; doubled after the last one."""


class Footnotes:
    """Assigns a mark to every distinct sentence.

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
        """The lines below the table."""
        return [f"{mark} {sentence}" for sentence, mark in self._marks.items()]
