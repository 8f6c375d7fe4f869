"""How far a trial goes before its next report: what it has to reserve of a study's total."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from zotune.config import Config, parse_config
from zotune.core.account import Account, Entry
from zotune.core.budget import DIRECTIONS
from zotune.steps import STEPS
from zotune.study import points
from zotune.tune.trainables import plain


def settings_of(shared: Mapping[str, Any], trial_config: Mapping[str, Any]) -> Config:
    """The configuration of a trial as Tune has it."""
    merged = {**shared, **trial_config}
    known = {key: value for key, value in merged.items() if key in Config.model_fields}
    return parse_config(plain(known))


def identity_of(config: Config) -> str:
    """A short name for what a run does, whatever its budget."""
    return hashlib.sha256(config.identity.encode()).hexdigest()[:16]


def step_cost(config: Config) -> int:
    """The most that one step of a replicate takes from its budget.

    A run that chooses everything by itself plans with its whole budget, and takes it whole.
    """
    return config.budget if config.chooses else points.step_cost(config)


def first_cost(config: Config, *, knows_smoothness: bool) -> int:
    """The most that a replicate has spent after its first step.

    Curvature is probed before it where the step needs L and the problem does not know its own.
    """
    return reach(config.model_copy(update={"report_every": 1}), fresh=not knows_smoothness)


def _is_even(config: Config) -> bool:
    """Whether every step costs the same."""
    return not STEPS[config.step].most_trials and isinstance(config.q, int)


def takes_rest(config: Config) -> bool:
    """Whether a trial can be told to end short of its next report, and all replicates with it."""
    return not config.chooses and (_is_even(config) or config.replicates == 1)


def reach(config: Config, spent: int = 0, *, fresh: bool = False) -> int:
    """The most that a replicate has spent at its next report.

    Args:
        config: of the trial.
        spent: by now.
        fresh: whether curvature may be probed first, as at the start.

    >>> plain = {"estimator": "avg", "q": 4, "update": "sgd", "L": 1, "count": "directions"}
    >>> config = parse_config(plain | {"budget": 100, "report_every": 10})
    >>> reach(config), reach(config, 12)
    (12, 20)
    """
    ends = [_end(config, spent)]
    if fresh and STEPS[config.step].needs_smoothness and config.L is None:
        from zotune.loop.curvature import probes_for, probing_cost  # with torch

        most = points.resolved(config).block_rule.most
        directions, evaluations = probing_cost(probes_for(most, config.budget))
        ends.append(
            _end(config, spent + (directions if config.count == DIRECTIONS else evaluations))
        )
    return max(ends)


def _end(config: Config, spent: int) -> int:
    cost, every = step_cost(config), config.reports_at
    target = (spent // every + 1) * every
    if not _is_even(config):
        return min(config.budget, target - 1 + cost)
    return min(config.budget, spent + -(-(target - spent) // cost) * cost)


def upto(config: Config, position: int, *, fresh: bool = False) -> int:
    """The same as positions of all replicates together."""
    return reach(config, position // config.replicates, fresh=fresh) * config.replicates


def is_reserved(entry: Entry, config: Config, position: int) -> bool:
    """Whether a trial has reserved what it spends from a position to its next report.

    After a kill it may also repeat what is charged already, and needs nothing for that.
    """
    return entry.knows(position) and (
        position < entry.high or upto(config, position) <= entry.may_reach
    )


def reserve_next(
    account: Account, trial: str, config: Config, position: int, *, fresh: bool = False
) -> bool:
    """Reserve up to a trial's next report, or all that is left if one step fits into it.

    Args:
        account: of the launch.
        trial: its id.
        config: of the trial.
        position: where the trial is.
        fresh: whether curvature may be probed first.

    Returns:
        Whether the trial may spend something from there.
    """
    entry = account.of(trial)
    if is_reserved(entry, config, position):
        return True
    if account.reserve(trial, upto(config, position, fresh=fresh)):
        return True
    rest = (account.left or 0) // config.replicates * config.replicates
    if not takes_rest(config) or rest < step_cost(config) * config.replicates:
        return entry.last and entry.may_reach > position
    return account.reserve(trial, max(position, entry.may_reach) + rest, last=True)
