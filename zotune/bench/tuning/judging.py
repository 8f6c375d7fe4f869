"""Claims about one total, made before the first run, and their verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from zotune.bench.tuning.cases import cases
from zotune.bench.tuning.contest import AUTO, CONTESTANTS, HALF, RACE, TuningOutcome, contest
from zotune.claims.signtest import interval

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class TotalClaim:
    """The claim that a contestant ends no higher than the best in hindsight with half the total."""

    contestant: str
    says: str


CLAIMS = (
    TotalClaim(RACE, "The median race ends no higher than the best in hindsight with half of it."),
    TotalClaim(AUTO, "The median auto ends no higher than the best in hindsight with half of it."),
)
"""Judged on every problem, over its instances."""


@dataclass(frozen=True)
class TotalVerdict:
    """A claim on one problem."""

    claim: TotalClaim
    problem: str
    median: float
    against: float
    ratio: float
    """The median of the ratios of the same instance."""
    low: float
    high: float
    """The 95 % interval of that median, by the sign test."""

    @property
    def holds(self) -> bool:
        """Whether the median is not above."""
        return bool(self.median <= self.against)


def verdicts(outcomes: Iterable[TuningOutcome]) -> Iterator[TotalVerdict]:
    """Every claim on every problem."""
    for problem, group in by_problem(outcomes).items():
        for claim in CLAIMS:
            yield _judged(claim, problem, group)


def _judged(claim: TotalClaim, problem: str, group: Sequence[TuningOutcome]) -> TotalVerdict:
    tiny = np.finfo(float).tiny
    mine = [max(outcome.losses[claim.contestant], tiny) for outcome in group]
    theirs = [max(outcome.losses[HALF], tiny) for outcome in group]
    logs = np.log(mine) - np.log(theirs)
    low, high = np.exp(interval(logs))
    ratio = float(np.exp(median(logs.tolist())))
    return TotalVerdict(
        claim, problem, median(mine), median(theirs), ratio, float(low), float(high)
    )


def by_problem(outcomes: Iterable[TuningOutcome]) -> dict[str, list[TuningOutcome]]:
    """Outcomes of each problem, in the order of their appearance."""
    found: dict[str, list[TuningOutcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.problem, []).append(outcome)
    return found


def bench(
    *, size: str, instances: int, output: Path, on_case: Callable[[str], None]
) -> list[TuningOutcome]:
    """Every case that the file does not have yet; each is kept there as soon as it is done."""
    known = read(output)
    found = []
    for case in cases(size, instances):
        if case.name not in known:
            on_case(case.name)
            known[case.name] = contest(case)
            output.parent.mkdir(parents=True, exist_ok=True)
            with output.open("a") as file:
                file.write(json.dumps(asdict(known[case.name])) + "\n")
        found.append(known[case.name])
    return found


def read(path: Path) -> dict[str, TuningOutcome]:
    """The cases of a file, without a truncated line."""
    found = {}
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            outcome = TuningOutcome(**json.loads(line))
        except (ValueError, TypeError):
            continue
        if outcome.losses.keys() >= set(CONTESTANTS):  # of an older bench: run again
            found[outcome.case] = outcome
    return found


def as_records(outcomes: Sequence[TuningOutcome]) -> dict[str, Any]:
    """Everything as plain values."""
    judged = [asdict(verdict) | {"holds": verdict.holds} for verdict in verdicts(outcomes)]
    return {"outcomes": [asdict(outcome) for outcome in outcomes], "verdicts": judged}


COLUMNS = dict(zip(CONTESTANTS, ("race", "alone", "auto", "grid", "half", "whole"), strict=True))
"""Contestants in as few letters as a terminal of 80 columns has for them."""


def table(outcomes: Sequence[TuningOutcome]) -> Table:
    """Medians over instances, and whether each claim holds."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    instances = max(len(group) for group in by_problem(outcomes).values())
    totals = ", ".join(f"{total:,}" for total in sorted({o.total for o in outcomes}))
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("problem", no_wrap=True, max_width=12)
    shown.title = f"lowest loss above the minimum, medians of {instances} instances, total {totals}"
    for column in (*COLUMNS.values(), *(f"{claim.contestant} ≤" for claim in CLAIMS)):
        shown.add_column(column, justify="right", no_wrap=True, min_width=6)
    judged = {(v.problem, v.claim.contestant): v for v in verdicts(outcomes)}
    for problem, group in by_problem(outcomes).items():
        middles = (median(outcome.losses[name] for outcome in group) for name in CONTESTANTS)
        holds = (judged[problem, claim.contestant].holds for claim in CLAIMS)
        told = ("yes" if held else "no" for held in holds)
        shown.add_row(problem, *(f"{middle:.2g}" for middle in middles), *told)
    shown.caption = (
        "alone: a race without auto; half, whole: the best configuration in hindsight with half of "
        "the total or all of it; ≤: not above half"
    )
    return shown
