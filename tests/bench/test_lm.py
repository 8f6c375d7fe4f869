"""The bench of language models measures whole steps; how fast they are, no test asserts."""

from __future__ import annotations

import torch

from zotune.bench.lm import MiniLM, forward_pass, mezo, steps
from zotune.bench.lm_head import head_only


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


def test_the_heads_of_the_bench_differ_in_what_is_kept_alone() -> None:
    once, always = head_only()
    assert once.computed_once.startswith("what arrives at the head is computed once")
    assert always.computed_once == "nothing is computed once: problem.cache_bytes is 0"
    assert once.dim == always.dim == 2 * 384
    forwards: list[str] = []
    for name, objective in (("once", once), ("always", always)):
        objective.module.inner.register_forward_pre_hook(
            lambda *_, name=name: forwards.append(name)
        )
        with torch.no_grad():
            steps(objective, q=4, estimator="avg")()
    assert forwards.count("always") >= 5  # and the look at the start
    assert forwards.count("once") <= 2  # the look at the start
