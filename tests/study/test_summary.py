"""The table of a launch: which trials are replicates of one configuration, and which are copies."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from zotune.study import Study
from zotune.study.summary import Entry, best_table, entries

STUDY = Study(name="mine", problem={"name": "quadratic", "dim": 10}, budget=50, space={"q": [1, 5]})


def result(trial: str, loss: float, spent: int = 50, **config: Any) -> Any:
    row = {"loss": loss, "loss_std": 0.5, "gap": None, "spent": spent, "steps": spent}
    metrics = row | {"status": "exhausted" if spent == 50 else "running", "trial_id": trial}
    shared = {"estimator": "avg", "q": 5, "seed": 0, "replicate": 0, "replicates": 3}
    return SimpleNamespace(error=None, metrics=metrics, config=shared | config)


def summed(*results: Any) -> list[Entry]:
    launch = SimpleNamespace(study=STUDY)
    outcome: Any = SimpleNamespace(launch=launch, results=list(results), interrupted=False)
    return entries(outcome)


def test_copies_of_a_trial_are_no_replicates_and_leave_its_spread_alone() -> None:
    (entry,) = summed(result("a", 2.0), result("b", 2.0))
    assert (entry.loss, entry.loss_std, entry.trials) == (2.0, 0.5, ("a",))


def test_of_copies_the_one_that_went_furthest_counts() -> None:
    (entry,) = summed(result("a", 9.0, spent=10), result("b", 2.0), result("c", 2.0))
    assert (entry.loss, entry.status, entry.trials) == (2.0, "exhausted", ("b",))


def test_trials_of_other_replicates_are_put_together() -> None:
    one, other = (result(name, loss, replicate=at) for at, (name, loss) in enumerate(PAIR))
    (entry,) = summed(one, other, one)
    assert (entry.loss, entry.loss_std, entry.trials) == (2.0, 2**0.5, ("a", "b"))


PAIR = (("a", 1.0), ("b", 3.0))


def shown(*results: Any) -> str:
    out = StringIO()
    Console(file=out, width=100).print(best_table(summed(*results), "best"))
    return out.getvalue()


def test_a_spread_is_shown_of_several_replicates_only() -> None:
    assert "± std" not in shown(result("a", 2.0, replicates=1))
    assert "± std" in shown(result("a", 2.0, replicates=2))
    pair = (result(name, loss, replicate=at, replicates=1) for at, (name, loss) in enumerate(PAIR))
    assert "± std" in shown(*pair)


def test_accuracy_is_shown_where_it_is_known() -> None:
    one = result("a", 2.0)
    assert "accuracy" not in shown(one)
    one.metrics["accuracy"] = 0.8125
    assert "accuracy" in shown(one)
    assert "0.812" in shown(one)
