"""The bench of language models measures whole steps; how fast they are, no test asserts."""

from __future__ import annotations

import torch

from zotune.bench.lm import MiniLM, forward_pass, mezo, steps


def test_works_are_whole_steps_on_the_shape_of_minilm() -> None:
    objective = MiniLM()
    assert objective.dim == 22_713_986
    calls = []
    plain = objective.loss
    objective.loss = lambda batch: calls.append(1) or plain(batch)  # type: ignore[method-assign,func-returns-value]
    with torch.no_grad():
        for work, evaluations in (
            (forward_pass(objective), 1),
            (mezo(objective), 2),
            (steps(objective, q=2, estimator="avg", directions="rademacher"), 3),
        ):
            calls.clear()
            work()
            assert len(calls) == evaluations
