"""What one total buys: contestants are judged on what they spent, and cases are run once."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

import zotune
from zotune.bench.tuning import judging
from zotune.bench.tuning.cases import Size, TuningCase, _paper
from zotune.bench.tuning.contest import (
    ALONE,
    AUTO,
    CONTESTANTS,
    HALF,
    PAID,
    RACE,
    WHOLE,
    TuningOutcome,
    configurations,
    contest,
    racing,
)
from zotune.bench.tuning.rehearsal import race


def outcome(at: int, race: float, auto: float) -> TuningOutcome:
    losses = {RACE: race, ALONE: race, AUTO: auto, PAID: 9.0, HALF: 2.0, WHOLE: 1.0}
    return TuningOutcome(f"bowl-{at}", "bowl", 100, losses)


def test_a_claim_holds_where_the_median_is_not_above_half_in_hindsight() -> None:
    outcomes = [outcome(at, race=1.0 + at, auto=3.0) for at in range(3)]
    race, auto = judging.verdicts(outcomes)
    assert (race.median, race.against, race.holds) == (2.0, 2.0, True)
    assert (auto.ratio, auto.holds) == (pytest.approx(1.5), False)
    assert judging.table(outcomes).row_count == 1
    records = json.loads(json.dumps(judging.as_records(outcomes)))["verdicts"]
    assert [record["holds"] for record in records] == [True, False]


def test_every_contestant_ends_where_its_budget_lets_it() -> None:
    found = contest(_paper("quadratic", 3, Size(8, 8, 60))).losses
    assert set(found) == set(CONTESTANTS)
    assert found[WHOLE] <= found[HALF] <= found[PAID]
    assert min(found.values()) >= 0


def test_cases_that_a_file_has_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ran = tmp_path / "new" / "tuning.jsonl", []
    cases = [_paper("quadratic", at, Size(8, 8, 60)) for at in range(2)]
    monkeypatch.setattr(judging, "cases", lambda size, instances: iter(cases[:instances]))
    judging.bench(size="everyday", instances=1, output=file, on_case=ran.append)
    with file.open("a") as torn:
        torn.write(json.dumps(asdict(outcome(1, 1.0, 1.0)))[:20] + "\n")
    found = judging.bench(size="everyday", instances=2, output=file, on_case=ran.append)
    assert ran == [case.name for case in cases]
    assert [one.case for one in found] == ran


def test_every_configuration_races_to_the_final_where_curvature_is_probed_first() -> None:
    """The first steps cost more than later ones; what they spent was missing for auto."""
    space = {"q": [1, 8], "eta": [1, 4], "update": ["sgd", "nesterov"]}
    bowl = zotune.objective(lambda x: (torch.arange(1, 21) * (x - 1) ** 2).sum(), 20)
    case = TuningCase("bowl", 0, 800, lambda: bowl, space, {"update": "sgd", "step": "theory"})
    configs = configurations(case, case.total)
    rungs, racers = racing(configs, bowl, case.total, auto=True)
    done = race(racers, bowl, rungs, case.total)
    spent = sorted(racer.position for racer in done.racers.values())
    assert spent[-1] >= rungs.rungs[-1]  # the winner
    assert spent[-2] >= rungs.rungs[-1]  # who met it in the final
    assert sum(spent) <= case.total
    auto = list(done.racers.values())[-1]
    assert auto.loop.config.method == "auto"
    assert auto.position >= rungs.rungs[-1]
