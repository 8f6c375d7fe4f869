"""Validate the claims of a study, and the setting that it tunes for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zotune.claims import Claim, Tuning, undecidable
from zotune.claims.comparing import pairs
from zotune.claims.deciding import fewest
from zotune.core.settings import PROBLEM
from zotune.errors import ConfigError, nearest
from zotune.study.model import Study
from zotune.study.studyfile import NO_SCHEDULER, OPTUNA, Complaint


def tuning_complaints(study: Study) -> Iterator[Complaint]:
    """The tuned setting must be searched, and replicates must be left to judge claims."""
    tuning = study.tuning
    if tuning is None:
        return
    if tuning.over not in study.searched:
        yield Complaint(
            ("tuning", "over"),
            f"tuning is over a searched setting, and {tuning.over!r} is not in space"
            f"{nearest(tuning.over, study.searched)}; space has {', '.join(study.searched)}",
        )
    over_replicates = not study.claims or any(claim.across is None for claim in study.claims)
    if over_replicates and tuning.replicates >= study.replicates:
        yield Complaint(
            ("tuning", "replicates"),
            f"{tuning.replicates} replicates tune and none of {study.replicates} is left to judge; "
            "raise replicates at the top of the file",
        )
    yield from _tuned_values(study, tuning)


def _tuned_values(study: Study, tuning: Tuning) -> Iterator[Complaint]:
    """The tuned values must be numbers, and include the theory's."""
    values = study.grid.get(tuning.over, [])
    odd = [v for v in values if isinstance(v, bool) or not isinstance(v, int | float)]
    if odd:
        yield Complaint(
            ("tuning", "over"), f"tuning chooses among numbers, and {tuning.over} has {odd[0]!r}"
        )
        return
    if tuning.theory is None or tuning.over not in study.searched:
        return
    if tuning.over in study.sampled:
        yield Complaint(
            ("tuning", "theory"),
            f"{tuning.over} is drawn, and no trial has the theory's exactly; leave theory out",
        )
        return
    named = tuning.theory if isinstance(tuning.theory, dict) else {"": tuning.theory}
    for value in named.values():
        if value not in values:
            yield Complaint(
                ("tuning", "theory"),
                f"theory {value:g} is not among the values of {tuning.over}, "
                f"{', '.join(f'{v:g}' for v in values)}; add it, or leave theory out",
            )
    estimators = study.grid.get("estimator", [study.fixed.get("estimator", "align")])
    missing = [e for e in estimators if e not in named] if "" not in named else []
    if missing:
        yield Complaint(("tuning", "theory"), f"theory says nothing of estimator {missing[0]}")


def claim_complaints(study: Study) -> Iterator[Complaint]:
    """Claims that match no configuration, or compare runs that end at different budgets."""
    if not study.claims:
        return
    if study.scheduler != NO_SCHEDULER or study.stop.loss is not None or study.stop.plateau:
        yield Complaint(
            ("claims",),
            "claims compare runs at the end of the budget; leave scheduler and stop out",
        )
    chosen = study.tuning.over if study.tuning else None
    drawn = [key for key in study.sampled if key != chosen]
    if drawn or study.search.algorithm == OPTUNA:
        yield Complaint(("claims",), "claims are about lists of values; use search grid, or tuning")
        return
    found = list(_each_claim(study))
    yield from found or _undecidable(study)


def _each_claim(study: Study) -> Iterator[Complaint]:
    """Claims with a name that another one has, or that match no configuration."""
    names = [claim.name for claim in study.claims]
    for at, claim in enumerate(study.claims):
        path = ("claims", str(at))
        if claim.name in names[:at]:
            yield Complaint(path, f"two claims are named {claim.name}; rename one")
        try:
            _require_instances(claim, study)
            pairs(claim, _compared_points(claim, study))
        except ConfigError as error:
            yield Complaint(path, f"claim {claim.name}: {error}")


def _undecidable(study: Study) -> Iterator[Complaint]:
    """Claims whose tests cannot be significant with so few replicates or instances."""
    judging = [_pairs_that_judge(claim, study) for claim in study.claims]
    for at, why in undecidable(study.claims, judging).items():
        across, spare = study.claims[at].across, study.tuning.replicates if study.tuning else 0
        enough = fewest(study.claims) + spare
        cure = f"give {across} {enough} values" if across else f"say replicates: {enough}"
        cure += f", of which {spare} tune" if spare else ""
        yield Complaint(
            ("claims", str(at)),
            f"claim {study.claims[at].name}: {why}; {cure}, or state fewer claims",
        )


def _pairs_that_judge(claim: Claim, study: Study) -> int:
    """The number of replicates or instances that judge a claim."""
    every = len(study.grid[claim.across]) if claim.across else study.replicates
    return every - (study.tuning.replicates if study.tuning else 0)


def _require_instances(claim: Claim, study: Study) -> None:
    """Raise an error for a claim across instances if the space lists none, or too few."""
    if claim.across is None:
        return
    options = {key: axis for key, axis in study.grid.items() if key.startswith(PROBLEM)}
    instances = options.get(claim.across, [])
    if len(instances) < 2:
        raise ConfigError(
            "across must be an option of the problem that space lists with several values, "
            f"got {claim.across!r}{nearest(claim.across, options)}; "
            "say across: problem.seed, and problem.seed: [0, 1, …] in space"
        )
    if study.tuning and study.tuning.replicates >= len(instances):
        raise ConfigError(
            f"{study.tuning.replicates} instances tune and none of {len(instances)} is left to "
            f"judge; give {claim.across} more values"
        )


def _compared_points(claim: Claim, study: Study) -> list[dict[str, Any]]:
    """The distinct configurations that a claim compares."""
    left_out = {claim.across, study.tuning.over if study.tuning else None}
    fixed = {key: value for key, value in study.fixed.items() if key not in study.searched}
    points = [
        fixed | {key: value for key, value in point.items() if key not in left_out}
        for point in study.partition[0]
    ]
    return [point for at, point in enumerate(points) if point not in points[:at]]
