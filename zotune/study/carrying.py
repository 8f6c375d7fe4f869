"""Going on from an earlier launch with a larger budget or more trials.

A new launch is made, and the old one stays as it was. Each trial that the old one had too begins at
its newest checkpoint there, with what it had spent by then; nothing is evaluated twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune._lazy import LazyModule
from zotune.core.names import STATE_FILE
from zotune.core.settings import setting
from zotune.errors import CheckpointError, ConfigError
from zotune.objectives import complete_problem
from zotune.study.model import Study
from zotune.study.racing import AUTO_SETTINGS
from zotune.study.studyfile import GRID, RACE

if TYPE_CHECKING:
    from zotune.runs import checkpoint as checkpoints
    from zotune.runs import run as runs
    from zotune.runs.run import Run
else:  # most launches go on from none
    checkpoints = LazyModule("zotune.runs.checkpoint")
    runs = LazyModule("zotune.runs.run")


def carried(folder: Path, study: Study) -> dict[str, str]:
    """The newest whole checkpoint of each trial in a launch's folder, by the trial's identity.

    Args:
        folder: of the launch.
        study: the one that goes on; it fills in options of the problem that trials left out.
    """
    found: dict[str, str] = {}
    for trial in sorted({path.parent for path in folder.glob("*/checkpoint_*")}):
        for checkpoint in sorted(trial.glob("checkpoint_*"), reverse=True):
            try:
                config = runs.load_run(checkpoint).config
            except CheckpointError:
                continue  # cut short by a kill; the one before it is whole
            problem = complete_problem({**study.config["problem"], **config.problem})
            identity = config.model_copy(update={"problem": problem}).identity
            newest = checkpoint / STATE_FILE
            before = found.get(identity)  # Tune had lost the trial, and started it again
            if before is None or checkpoints.charged_in(newest) > checkpoints.charged_in(
                Path(before)
            ):
                found[identity] = str(newest)
            break
    return found


BEST = "best"
"""What ``--only`` may name: the trial of a launch with the lowest loss."""


def extended(
    study: Study,
    budget: int | None = None,
    trials: int | None = None,
    total: int | None = None,
) -> Study:
    """The study with more to spend or more trials."""
    changes: dict[str, Any] = {}
    if total is not None:
        if study.search.algorithm == RACE:
            raise ConfigError(
                "the shares of a race follow from its total, and cannot be changed afterwards; go "
                f"on with its winner: --only {BEST} --budget N"
            )
        if total <= (study.total or 0):
            raise ConfigError(
                f"--total must be more than the {study.total} that the launch had, got {total}"
            )
        changes["total"] = total
    if budget is not None:
        if budget <= study.budget:
            raise ConfigError(
                f"--budget must be more than the {study.budget} that the launch had, got {budget}"
            )
        changes["budget"] = budget
    if trials is not None:
        if study.search.algorithm in (GRID, RACE):
            raise ConfigError(
                "--trials is for random and optuna searches; a grid or a race has as many as it "
                "has points"
            )
        if trials <= (study.search.trials or 0):
            raise ConfigError(
                f"--trials must be more than the {study.search.trials} that the launch had, "
                f"got {trials}"
            )
        changes["search"] = {"algorithm": study.search.algorithm, "trials": trials}
    return Study(**study.to_dict() | changes)


def only_best(study: Study, best: Run, budget: int | None) -> Study:
    """The best trial of a launch alone, with a larger budget.

    Args:
        study: of the launch.
        best: the run of that trial.
        budget: what the trial may have spent in the end, a replicate.
    """
    if budget is None or budget <= best.spent:
        raise ConfigError(
            f"--only {BEST} needs --budget, more than the {best.spent} that the best trial has "
            f"spent, got {budget}"
        )
    config = best.config.model_dump()
    chosen = AUTO_SETTINGS if best.config.chooses else {}  # in a race, whatever the study fixes
    data = study.to_dict() | {
        "budget": budget,
        "report_every": study.reports_at,
        "space": {key: [setting(config, key)] for key in study.space},
        "fixed": study.fixed | {key: chosen[key] for key in chosen if key not in study.space},
        "search": {"algorithm": GRID},
    }
    dropped = ("total", "scheduler", "within", "claims", "tuning")
    return Study(**{key: value for key, value in data.items() if key not in dropped})


def points_of(study: Study, known: Mapping[str, str]) -> list[dict[str, Any]]:
    """Where carried trials stand in the space, as a searcher is told points to begin with."""
    configs = (json.loads(key) for key in known)
    return [{axis: setting(config, axis) for axis in study.axes} for config in configs]
