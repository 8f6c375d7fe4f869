"""The budget that a trial has to reserve from a study's total before its next report."""

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
    """The complete configuration of a Tune trial."""
    merged = {**shared, **trial_config}
    known = {key: value for key, value in merged.items() if key in Config.model_fields}
    return parse_config(plain(known))


def identity_of(config: Config) -> str:
    """A hash of a configuration without its budget."""
    return hashlib.sha256(config.identity.encode()).hexdigest()[:16]


def step_cost(config: Config) -> int:
    """Maximum cost of one step of a replicate.

    A method that yields points plans with its whole budget, which counts as one step.
    """
    return config.budget if config.replays else points.step_cost(config)


def first_cost(config: Config, *, knows_smoothness: bool) -> int:
    """Maximum spent budget of a replicate after its first step.

    Curvature is probed before it if the step needs L and the problem does not know it.
    """
    return reach(config.model_copy(update={"report_every": 1}), fresh=not knows_smoothness)


def _is_even(config: Config) -> bool:
    """Whether every step costs the same."""
    return not STEPS[config.step].most_trials and isinstance(config.q, int)


def takes_rest(config: Config) -> bool:
    """Whether a trial, with all of its replicates, can end before its next report."""
    return not config.replays and (_is_even(config) or config.replicates == 1)


def reach(config: Config, spent: int = 0, *, fresh: bool = False) -> int:
    """Maximum spent budget of a replicate at its next report.

    Args:
        config: the configuration of the trial.
        spent: the spent budget now.
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
    """The same as a position, the sum over all replicates."""
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
    """Reserve the budget up to a trial's next report, or the rest if it covers one step.

    Args:
        account: the account of the launch.
        trial: its id.
        config: its configuration.
        position: its current position.
        fresh: whether curvature may be probed first.

    Returns:
        Whether the trial may continue.
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
