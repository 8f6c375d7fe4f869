"""The house was rebuilt around its runs: every one of them is bit for bit what it was."""

from __future__ import annotations

import json

import pytest

from tests.golden.configurations import (
    RECORDED,
    charged_cases,
    machine,
    vector_cases,
    vector_digest,
    weights_cases,
    weights_digest,
)

GOLDEN = json.loads(RECORDED.read_text())
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        GOLDEN["machine"] != machine(),
        reason=f"bits were recorded with {GOLDEN['machine']}, this is {machine()}",
    ),
]


CASES = {
    "vectors": (vector_cases, vector_digest),
    "charged": (charged_cases, vector_digest),
    "weights": (weights_cases, weights_digest),
}


@pytest.mark.parametrize("world", sorted(CASES))
def test_runs_are_what_they_were(world: str) -> None:
    cases, digest = CASES[world]
    pairs = zip(cases(), GOLDEN[world], strict=True)
    changed = [case for case, recorded in pairs if digest(case) != recorded]
    assert not changed, f"{len(changed)} changed, the first is {changed[0]}"
