"""An evaluator for tests: parts in any order, some of them twice, until the process is 'killed'."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from zotune.evaluators.serial import run
from zotune.iterates import Answer, Program, Request


class KilledError(Exception):
    """Stands for the end of the process."""


class Shuffled:
    """Evaluates the parts of every request in a random order; a few of them are evaluated again.

    Args:
        seed: of the order.
        life: evaluations until the process ends; None: it does not.
    """

    in_process = False

    def __init__(self, seed: int, life: int | None = None) -> None:
        self._draw = random.Random(seed)
        self._life = life

    def run(self, program: Callable[..., Program[Any]], *arguments: Any) -> Any:
        return run(program(*arguments), self._answered)

    def _answered(self, request: Request) -> Answer:
        assert request.parts is not None
        parts = request.parts()
        order = self._draw.sample(range(parts.count), parts.count)
        again = [part for part in order if self._draw.random() < 0.1]
        answers = {part: self._evaluated(parts.evaluate, part) for part in order + again}
        return parts.join([answers[part] for part in range(parts.count)])

    def _evaluated(self, evaluate: Callable[[int], Answer], part: int) -> Answer:
        if self._life is not None:
            self._life -= 1
            if self._life < 0:
                raise KilledError
        return evaluate(part)
