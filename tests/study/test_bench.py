"""The bench of studies, at a size that takes no time, without Ray."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tests.solo import reported
from zotune.bench import study as bench


def test_the_paper_s_study_has_two_estimators_and_four_block_sizes() -> None:
    paper = bench._paper(1000, 20_000)
    assert paper.size == 8
    assert not paper.skipped
    assert paper.replicates == 10
    assert {p["q"] for p in paper.trials} == {1, 10, 100, 1000}


def test_runs_dealt_out_by_hand_are_the_trials_themselves() -> None:

    small = bench._reduced()
    config = small.configuration(small.trials[-1])
    settings = config.model_dump()
    alone = reported(settings.pop("problem"), **settings)
    assert bench._run(config.model_dump()) == alone.best_loss


def test_what_was_to_be_reached_stands_beside_what_was() -> None:
    found = bench.StudyTime("study", 11.0, "by hand", 10.0, "ratio", 1.1, "≤ 1.15")
    out = StringIO()
    Console(file=out, width=100).print(bench.table([found]))
    assert "1.10" in out.getvalue()
    assert "≤ 1.15" in out.getvalue()
