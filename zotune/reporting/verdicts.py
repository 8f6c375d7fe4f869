"""Verdicts on the claims of a study, from its records alone."""

from __future__ import annotations

from collections.abc import Sequence

from zotune.claims import Claim, Finals, Tuning, Verdict, assumptions, judge, not_judged
from zotune.errors import ConfigError
from zotune.reporting.drawing import number
from zotune.reporting.page import Table
from zotune.reporting.records import LaunchRecord, TrialRecord
from zotune.reporting.series import WHOLE


def verdicts_on(launch: LaunchRecord) -> tuple[list[Verdict], str]:
    """Verdicts on the claims of a launch's study, and why there are none where there could be."""
    if not launch.file.get("claims"):
        return [], ""
    unfinished = [trial.name for trial in launch.trials if trial.status not in WHOLE]
    if unfinished:
        told = f"{len(unfinished)} of {len(launch.trials)} trials have not spent their budget"
        return [], not_judged(told)
    if any(trial.losses is None for trial in launch.trials):
        return [], not_judged("these records do not hold the final loss of each replicate")
    try:
        claims = [Claim(**said) for said in launch.file["claims"]]
        tuning = Tuning(**launch.file["tuning"]) if launch.file.get("tuning") else None
        return judge(claims, [_finals(trial) for trial in launch.trials], tuning), ""
    except ConfigError as error:
        return [], not_judged(str(error))


def _finals(trial: TrialRecord) -> Finals:
    estimated = trial.smoothness_estimated
    return Finals(trial.config, trial.losses or (), _minimum(trial), estimated)


def _minimum(trial: TrialRecord) -> float | None:
    """f* = loss − gap, at the smallest loss: a large one would swallow it."""
    if "gap" not in trial.curve:
        return None
    loss, gap = (trial.curve[column].to_numpy(float) for column in ("loss", "gap"))
    at = abs(loss).argmin()
    return float(loss[at] - gap[at])


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """A row for each claim and step."""
    columns = ["claim", "step", "verdict", "estimate", "95 % interval", "p", "pairs", "why"]
    rows = [
        [
            verdict.says,
            verdict.step,
            verdict.verdict,
            share(verdict, verdict.estimate),
            f"{share(verdict, verdict.low)} to {share(verdict, verdict.high)}"
            if verdict.low is not None or verdict.high is not None
            else "",
            "" if verdict.p is None else f"{verdict.p:.2g}",
            f"{verdict.pairs} {'instances' if verdict.across else 'replicates'}",
            verdict.why,
        ]
        for verdict in verdicts
    ]
    note = f"Estimates compare final losses in pairs. {assumptions(verdicts)}"
    return Table("Verdicts on the study's claims", columns, rows, note)


def share(verdict: Verdict, value: float | None) -> str:
    """A share in per cent, as a factor where it is large, or a plain difference."""
    if value is None:
        return "…"
    if verdict.unit == "difference":
        return number(value)
    return f"× {1 + value:.3g}" if value > 10 else f"{value:+.1%}"
