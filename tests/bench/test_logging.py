"""The bench tells both callbacks of the same results; how fast they are, no test asserts."""

from __future__ import annotations

from pathlib import Path

import pytest

from zotune.bench.logging import (
    OURS,
    RAYS,
    REPORTS,
    _results,
    _store,
    table,
)


def test_results_carry_a_whole_curve() -> None:
    results = _results()
    assert len(results) == REPORTS
    assert sum(len(result["_zotune_curve"]) for result in results) == 320


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_both_callbacks_are_measured_by_what_the_store_has(store: str, tmp_path: Path) -> None:
    cases: list[str] = []
    found = list(_store("sqlite", store, tmp_path, _results(), 2, 3, cases.append))
    assert [(m.callback, m.points) for m in found] == [(RAYS, 3), (OURS, 640)]
    assert found[0].ratio == 1
    assert all(m.median_ms > 0 for m in found)
    assert len(cases) == table(found).row_count == len(found) == 2
