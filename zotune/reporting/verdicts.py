"""Verdicts on the claims of a study as a table of its report."""

from __future__ import annotations

from collections.abc import Sequence

from zotune.claims import Claim, Tuning, Verdict, assumptions, not_judged
from zotune.errors import ConfigError
from zotune.reporting.drawing import number
from zotune.reporting.footnotes import Footnotes
from zotune.reporting.page import Table
from zotune.results.store import LaunchRecord
from zotune.results.verdicts import verdicts_on
from zotune.study.studyfile import GRID


def verdicts_of(launch: LaunchRecord) -> tuple[list[Verdict], str]:
    """Verdicts on the claims of a launch's study, and the reason if they were not judged."""
    try:
        claims = [Claim(**said) for said in launch.file.get("claims") or ()]
        tuning = Tuning(**launch.file["tuning"]) if launch.file.get("tuning") else None
        if tuning is not None and (launch.file.get("search") or {}).get("algorithm", GRID) != GRID:
            tuning = tuning.model_copy(update={"refine": False})
    except ConfigError as error:
        return [], not_judged(str(error))
    return verdicts_on(launch.trials, claims, tuning, launch.planned or 0)


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """A row for each claim and step."""
    columns = ["claim", "step", "verdict", "estimate", "95 % interval", "p", "pairs"]
    footnotes = Footnotes()
    rows = [
        [
            verdict.says,
            verdict.step,
            f"{verdict.verdict} {footnotes.mark(verdict.why)}" if verdict.why else verdict.verdict,
            share(verdict, verdict.estimate),
            interval(verdict),
            "" if verdict.p is None else f"{verdict.p:.2g}",
            f"{verdict.pairs} {'instances' if verdict.across else 'replicates'}",
        ]
        for verdict in verdicts
    ]
    note = f"Estimates compare final losses in pairs. {assumptions(verdicts)}"
    return Table("Verdicts on the study's claims", columns, rows, note, footnotes.lines)


def interval(verdict: Verdict) -> str:
    """The interval of an estimate; empty for too few pairs, open where it reaches divergence."""
    if verdict.low is None and verdict.high is None:
        return ""
    return f"{share(verdict, verdict.low)} to {share(verdict, verdict.high)}"


def share(verdict: Verdict, value: float | None) -> str:
    """A share in per cent, as a factor if it is large, or a plain difference."""
    if value is None:
        return "divergence" if any(verdict.diverged) else "…"
    if verdict.unit == "difference":
        return number(value)
    return f"× {1 + value:.3g}" if value > 10 else f"{value:+.1%}"
