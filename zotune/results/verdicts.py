"""Judge a study's claims by the final losses of its trials."""

from __future__ import annotations

from collections.abc import Sequence

from zotune.claims import Claim, Finals, Tuning, Verdict, judge, not_judged, refinement
from zotune.claims.runs import Point
from zotune.core.names import RAN_TO_END
from zotune.errors import ConfigError
from zotune.results.trial import WHOLE, Trial


def verdicts_on(
    trials: Sequence[Trial], claims: Sequence[Claim], tuning: Tuning | None, planned: int = 0
) -> tuple[list[Verdict], str]:
    """Verdicts on claims, and a reason if there are claims but no verdicts.

    Claims are judged only if all trials are complete: in a part of them, the smallest q, for
    example, could be a different one.

    Args:
        trials: the trials of one launch.
        claims: the claims of its study.
        tuning: the setting that is tuned before claims are judged.
        planned: the number of trials of the study, if known.
    """
    if not claims:
        return [], ""
    whole = [trial for trial in trials if trial.status in WHOLE and not _is_cut(trial)]
    total = max(planned, len(trials))
    if len(whole) < total:
        missing = total - len(whole)
        return [], not_judged(f"{missing} of {total} trials have not spent their budget")
    if any(trial.course.losses is None for trial in whole):
        return [], not_judged("these records do not hold the final loss of each replicate")
    if any(trial.row.get("diverged") and not any(trial.course.diverged) for trial in whole):
        return [], not_judged("these records do not say which replicates diverged")
    finals = [finals_of(trial) for trial in whole]
    missing_values = refinement(finals, tuning, claims)
    if tuning is not None and missing_values:
        return [], not_judged(_unrefined(missing_values, tuning))
    try:
        return judge(claims, finals, tuning), ""
    except ConfigError as error:
        return [], not_judged(str(error))


def _unrefined(missing: Sequence[Point], tuning: Tuning) -> str:
    values = sorted({point[tuning.over] for point in missing})
    return (
        f"a better {tuning.over} may lie beside the best one of the grid, and "
        f"{', '.join(f'{value:g}' for value in values)} was not tried; run the study again, "
        "or say tuning: {refine: false}"
    )


def _is_cut(trial: Trial) -> bool:
    """Whether one more step would have fitted into the budget: the study's total was spent."""
    q, budget = trial.config.get("q"), trial.budget
    if trial.status not in RAN_TO_END or trial.row.get("diverged") or not isinstance(q, int):
        return False
    return budget is not None and budget - trial.spent > 2 * (q + 1)


def finals_of(trial: Trial) -> Finals:
    """The final losses of a trial, for claims."""
    return Finals(
        trial.config,
        trial.course.losses or (),
        trial.course.minimum,
        trial.smoothness_estimated,
        spent=trial.spent * trial.replicates,
        diverged=trial.course.diverged,
        start=trial.start_loss,
    )
