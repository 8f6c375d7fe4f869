"""Smoke mode: a study at a reduced size that runs in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zotune.core.settings import merged
from zotune.objectives import PROBLEMS
from zotune.study.points import size
from zotune.study.studyfile import RACE, RANDOM

if TYPE_CHECKING:
    from zotune.study.model import Study

SIZES = {"dim": 20, "samples": 100, "batch": 8, "train_size": 64, "validation_size": 32}
"""Maximum values of a problem's sizes."""
SECONDS = 0.005
"""Maximum seconds of a simulator per value."""
BUDGET, REPLICATES, TRIALS = 200, 2, 4


def smoked(study: Study) -> dict[str, Any]:
    """The mapping of a study at a reduced size, without claims, for which it is too small."""
    data = study.to_dict()
    for key in ("report_every", "claims", "tuning"):
        data.pop(key, None)
    small = [
        {k: _fewer(k, v) for k, v in space.items() if k != "problem.dim"} for space in study.spaces
    ]
    combined = sum(size(_lists(space)) for space in small)
    data |= {
        "name": f"{study.name}-smoke",
        "problem": {**study.problem, **_sizes(study)},
        "budget": min(study.budget, BUDGET),
        "replicates": min(study.replicates, REPLICATES),
        "space": small if isinstance(study.space, list) else small[0],
    }
    known = {**merged(small), **study.fixed}
    data["within"] = [key for key in study.within if key in known]
    if "q" in study.fixed:
        data["fixed"] = {**study.fixed, "q": min(study.fixed["q"], SIZES["dim"])}
    if study.search.trials is not None:
        least = combined if study.search.algorithm in (RANDOM, RACE) else 1
        trials = max(least, min(study.search.trials, TRIALS))
        data["search"] = {"algorithm": study.search.algorithm, "trials": trials}
    if study.total is not None:
        trials = data.get("search", {}).get("trials") or combined
        data["total"] = min(study.total, BUDGET * data["replicates"] * trials)
    return data


def _lists(space: dict[str, Any]) -> dict[str, list[Any]]:
    return {key: values for key, values in space.items() if isinstance(values, list)}


def _sizes(study: Study) -> dict[str, float]:
    most = SIZES | {"seconds": SECONDS}
    options = PROBLEMS[study.problem["name"]].options | study.problem
    given = {key: options[key] for key in most if options.get(key) is not None}
    return {key: min(size, most[key]) for key, size in given.items()}


def _fewer(key: str, written: Any) -> Any:
    """The first and the last of a list; one instance; blocks that the small dimension allows."""
    if key == "problem.seed" and isinstance(written, list):
        return written[:1]
    if key == "q" and isinstance(written, list):
        fitting = sorted({min(q, SIZES["dim"]) for q in written})
        return fitting if len(fitting) < 5 else fitting[:: len(fitting) // 2]
    if key == "q":
        ((kind, values),) = written.items()
        small = sorted({min(q, SIZES["dim"]) for q in values})
        return {kind if len(small) > 1 else "choice": small}
    if isinstance(written, list) and key != "estimator":
        return list(dict.fromkeys([written[0], written[-1]]))
    return written
