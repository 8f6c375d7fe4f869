"""The house was rebuilt around its runs: every one of them is bit for bit what it was."""

from __future__ import annotations

import json

import pytest

from tests.golden.configurations import (
    RECORDED,
    machine,
    vector_cases,
    vector_digest,
    weights_cases,
    weights_digest,
)

GOLDEN = json.loads(RECORDED.read_text())
pytestmark = pytest.mark.skipif(
    GOLDEN["machine"] != machine(),
    reason=f"bits were recorded with {GOLDEN['machine']}, this is {machine()}",
)


def test_runs_over_vectors_are_what_they_were() -> None:
    found = [vector_digest(case) for case in vector_cases()]
    changed = [case for case, a, b in zip(vector_cases(), found, GOLDEN["vectors"], strict=True) if a != b]
    assert not changed, f"{len(changed)} changed, the first is {changed[0]}"


def test_runs_over_weights_are_what_they_were() -> None:
    found = [weights_digest(case) for case in weights_cases()]
    changed = [case for case, a, b in zip(weights_cases(), found, GOLDEN["weights"], strict=True) if a != b]
    assert not changed, f"{len(changed)} changed, the first is {changed[0]}"
