"""Minimise in this process, without Ray: the loop from start to end, and its result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from zotune.budget import EVALUATIONS
from zotune.checkpoint import holds_weights, load_state, save_state
from zotune.config import Config, parse_config
from zotune.curve import DIVERGED, RUNNING, above
from zotune.errors import CheckpointError, ConfigError
from zotune.finding import last_checkpoints
from zotune.grid import budget_grid
from zotune.loop import Loop
from zotune.objectives import Objective, build_problem, objective, problem_mapping
from zotune.sources import code_of
from zotune.state import State
from zotune.steps import THEORY
from zotune.weights.objective import WeightsObjective

if TYPE_CHECKING:
    import pandas as pd

    from zotune.weights.checkpoint import WeightsRun
    from zotune.weights.loop import WeightsLoop

_RUN_ID = re.compile(r"[0-9a-f]{32}")
"""What MLflow calls its runs."""

Problem = Objective | str | Mapping[str, Any] | Callable[[Tensor], Any]


@dataclass(frozen=True, repr=False)
class Run:
    """What came out of a run: the points and the curve.

    ``x`` has a row for each replicate. ``best_x`` is the best point that was looked at: at every
    step for small budgets, on the grid of 320 points for large ones.
    """

    config: Config
    state: State
    status: str
    minimum: float | None = None
    """The lowest value of the objective, where it is known."""
    smoothness_estimated: bool = False
    """Whether the step is divided by an L that was estimated: it is then not the theory's step."""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The curve as records, one a point of the grid, with the last step at or before it."""
        return self.state.curve.rows(
            budget_grid(self.config.budget, self.config.points),
            spent=self.spent,
            status=self.status,
            minimum=self.minimum,
        )

    @property
    def spent(self) -> int:
        """What was charged; less than the budget where its rest buys no direction."""
        ledger = self.state.ledger
        return ledger.evaluations if self.config.count == EVALUATIONS else ledger.queries

    @property
    def x(self) -> Tensor:
        """Where each replicate ended, (replicates, d)."""
        return self.state.x.clone()

    @property
    def smoothness(self) -> Tensor | None:
        """The L that the theory's step was divided by, (replicates,); None for other steps."""
        return (1 / self.state.inverse_smoothness[:, 0]) if self.config.step == THEORY else None

    @property
    def best_x(self) -> Tensor:
        """The best point of all replicates, (d,)."""
        return self.state.best_x[int(self.state.best_loss.argmin())].clone()

    @property
    def best_loss(self) -> float:
        """The loss at ``best_x``."""
        return float(self.state.best_loss.min())

    @property
    def curve(self) -> pd.DataFrame:
        """Rows on the grid of spent budget, from 0 to the last."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def __repr__(self) -> str:
        c = self.config
        first, last = self.rows[0]["loss"], self.rows[-1]
        return (
            f"Run({c.estimator} q={c.q}, {self.status} after {self.spent} of "
            f"{c.budget} {c.count}, loss {last['loss']:.6g}{above(last['loss'], first)}, "
            f"best {self.best_loss:.6g}{self._lost()}{self._estimated()})"
        )

    def _estimated(self) -> str:
        """Which L was taken, where it was estimated."""
        if self.smoothness is None or not self.smoothness_estimated:
            return ""
        low, high = f"{self.smoothness.min():.3g}", f"{self.smoothness.max():.3g}"
        return f"; L estimated, {low if low == high else f'{low} to {high}'}"

    def _lost(self) -> str:
        """How many replicates have diverged, and what helps."""
        lost, all_of_them = self.state.lost, self.config.replicates
        many = f", {lost} of {all_of_them} replicates diverged" if all_of_them > 1 else ""
        return f"{many}; give a smaller eta, or L" if lost else ""


def minimize(
    objective: Problem,
    x0: Any = None,
    *,
    estimator: str = "align",
    q: int = 1,
    budget: int,
    count: str = "directions",
    step: str = "theory",
    eta: float | None = None,
    L: float | None = None,
    mu: float | None = None,
    difference: str = "forward",
    directions: str = "gaussian",
    replicates: int = 1,
    seed: int = 0,
    on_report: Callable[[dict[str, Any]], None] | None = None,
    checkpoint: str | Path | None = None,
    **settings: Any,
) -> Run:
    """Minimise an objective with function values only, within a budget of queries.

    x ← x − η U c(v, U), with v the differences along the q directions of the block U and c the
    estimator's coefficients.

    Args:
        objective: an Objective (see ``zotune.objective``), a problem's name or mapping; a plain
            function of one vector if ``x0`` is given.
        x0: the start, (d,) or (replicates, d); the objective's own unless given.
        estimator: avg, align, align-diag or one of yours; ``zotune list`` shows them.
        q: directions a step.
        budget: what may be spent, in the unit of ``count``; never overspent.
        count: directions (as the paper counts) or evaluations (every call of f).
        step: theory, constant or sqrt-decay.
        eta: the step under constant, the first under sqrt-decay, a factor (1) under theory.
        L: Lipschitz constant of the gradient; the problem's own, or estimated, unless given.
        mu: radius of the differences; by dtype unless given, 1e-6 in float64.
        difference: forward (q + 1 evaluations a step) or central (2q).
        directions: gaussian, sphere, rademacher, coordinate or orthogonal.
        replicates: independent runs, as rows of one batched program.
        seed: of the directions; configurations with one seed share their draws.
        on_report: called with a result row about sixteen times a run, see ``report_every``.
        checkpoint: a file to save the state to: at the start, at every report, and where the
            objective raises or the run is interrupted. A run that finds it continues.
        settings: further keys of the configuration: replicate, report_every, diagnostics, …

    Returns:
        A ``Run`` with ``x``, ``best_x``, ``curve`` and ``status``.

    >>> import zotune
    >>> run = zotune.minimize({"name": "quadratic", "dim": 20}, estimator="align", q=20, budget=400)
    >>> run.status, run.x.shape, bool(run.best_loss < run.curve.loss[0])
    ('exhausted', torch.Size([1, 20]), True)
    """
    given = {
        "estimator": estimator,
        "q": q,
        "budget": budget,
        "count": count,
        "step": step,
        "eta": eta,
        "L": L,
        "mu": mu,
        "difference": difference,
        "directions": directions,
        "replicates": replicates,
        "seed": seed,
    }
    target, problem = as_objective(objective, x0)
    config = parse_config(given | settings | {"problem": problem})
    loop = Loop(config, target, x0)
    about = {"code": code_of(target), "start": digest_of(loop.begins_at)}
    return finish(loop, on_report=on_report, checkpoint=checkpoint, about=about)


def finish(
    loop: Loop,
    *,
    on_report: Callable[[dict[str, Any]], None] | None = None,
    checkpoint: str | Path | None = None,
    about: Mapping[str, str] | None = None,
) -> Run:
    """Run a loop to its end, from its checkpoint if there is one and it is of the same run.

    ``about`` tells runs of one configuration apart: the function and the start.
    """
    about = about or {}
    if checkpoint is not None and Path(checkpoint).is_dir():
        raise CheckpointError(
            f"checkpoint must be a file, got the folder {checkpoint}; give a file in it"
        )
    if checkpoint is not None and Path(checkpoint).is_file():
        state, notes = load_loop(loop, Path(checkpoint))
        _require_same_run(Path(checkpoint), notes, loop.config, about)
    else:
        state = loop.init()
        _save_if(checkpoint, loop, state, about)
    while loop.status(state) == RUNNING:
        try:
            state, row = loop.advance_to_report(state), None
        except BaseException:
            _save_if(checkpoint, loop, loop.newest or state, about)
            raise
        if on_report is not None:
            state, row = loop.report(state)
        _save_if(checkpoint, loop, state, about)
        if on_report is not None and row is not None:
            on_report(row | step_facts(loop, state))
    estimated = estimates_smoothness(loop)
    return Run(loop.config, state, loop.status(state), loop.objective.minimum, estimated)


def estimates_smoothness(loop: Loop | WeightsLoop) -> bool:
    """Whether the step is divided by an estimated L; for weights L must be given."""
    known = not isinstance(loop, Loop) or loop.known_smoothness is not None
    return loop.rule.needs_smoothness and not known


def step_facts(loop: Loop | WeightsLoop, state: Any) -> dict[str, Any]:
    """What rows say beside an observation: the mean loss at the start, L, and where L is from."""
    start = torch.as_tensor(state.start_loss, dtype=torch.float64)
    smoothness = None
    if loop.rule.needs_smoothness:
        given = loop.config.L
        smoothness = float((1 / state.inverse_smoothness).mean()) if given is None else given
    return {
        "start_loss": float((start / start.numel()).sum()),
        "L": smoothness,
        "L_estimated": estimates_smoothness(loop),
    }


def _save_if(
    checkpoint: str | Path | None, loop: Loop, state: State, about: Mapping[str, str]
) -> None:
    """Save the state where a checkpoint is wanted."""
    if checkpoint is not None:
        save_loop(loop, state, Path(checkpoint), **about)


def _require_same_run(
    path: Path, notes: Mapping[str, Any], config: Config, about: Mapping[str, str]
) -> None:
    """Refuse to go on from another run, which would be returned as this one's."""
    then, now = (json.loads(c.identity) for c in (Config(**notes["config"]), config))
    then |= {key: notes.get(key, value) for key, value in about.items()}
    differing = [key for key, value in (now | about).items() if then.get(key) != value]
    if differing:
        key = differing[0]
        what = {"code": "another function", "start": "another start"}.get(
            key, f"a run with {key} {then.get(key)!r}, not {now.get(key)!r}"
        )
        raise CheckpointError(
            f"{path} is of {what}; give each run a checkpoint of its own, or delete this one"
        )


def digest_of(point: Tensor) -> str:
    """A few characters that tell one point from another."""
    return hashlib.sha256(point.cpu().contiguous().numpy().tobytes()).hexdigest()[:16]


def make_loop(config: Config, objective: Objective | WeightsObjective) -> Loop | WeightsLoop:
    """The loop that an objective needs: over points, or over the weights of a module."""
    if isinstance(objective, WeightsObjective):
        from zotune.weights.loop import WeightsLoop

        return WeightsLoop(config, objective)
    return Loop(config, objective)


def save_loop(loop: Loop | WeightsLoop, state: Any, path: Path, **notes: Any) -> None:
    """Save a state with what is needed to read it without the objective."""
    if not isinstance(loop, Loop):
        from zotune.weights.checkpoint import save_weights

        save_weights(loop, state, path, **notes)
        return
    save_state(
        state,
        path,
        loop.fingerprint(),
        config=loop.config.model_dump(),
        status=loop.status(state),
        minimum=loop.objective.minimum,
        smoothness_estimated=estimates_smoothness(loop),
        **notes,
    )


def load_loop(loop: Loop | WeightsLoop, path: Path) -> tuple[Any, dict[str, Any]]:
    """A state made ready for this loop to continue, and the notes saved with it."""
    if not isinstance(loop, Loop):
        from zotune.weights.checkpoint import load_weights

        return load_weights(loop, path)
    state, notes = load_state(path, loop.fingerprint(), device=str(loop.objective.device))
    return loop.adopt(state), notes


def load_run(source: Any) -> Run | WeightsRun:
    """The run behind a result or a checkpoint: the point back, not only the number.

    Args:
        source: a Ray Tune ``Result`` or ``Checkpoint``; the file that ``minimize`` wrote; the
            folder of a checkpoint, of a trial (its last checkpoint), of a launch (its best trial)
            or of a study (its newest launch); or the id of a run that ``MLflowCurves`` logged, in
            the store that ``MLFLOW_TRACKING_URI`` names, else in ``mlflow.db``.

    The best trial has the lowest loss. Where trials of a launch have different problems (options
    of the problem are searched), it is the smallest gap above its own problem's minimum if all
    minima are known; else it is the lowest loss still, though of different functions.

    Returns:
        A ``Run`` with ``x``, ``best_x``, ``curve`` and ``status``; of a model's weights a
        ``WeightsRun`` with ``weights()`` in their place.
    """
    if isinstance(source, str) and _RUN_ID.fullmatch(source) and not Path(source).exists():
        from zotune.callbacks import run_from_mlflow

        return run_from_mlflow(source)
    if hasattr(source, "checkpoint"):
        if source.checkpoint is None:
            raise CheckpointError(
                f"the result at {source.path} has no checkpoint; its trial ended before the first"
            )
        source = source.checkpoint
    if hasattr(source, "as_directory"):
        with source.as_directory() as folder:
            return load_run(folder)
    return _run_at(_best_of(last_checkpoints(Path(source))))


def _run_at(path: Path) -> Run | WeightsRun:
    if holds_weights(path):
        from zotune.weights.checkpoint import load_weights_run

        return load_weights_run(path)
    state, notes = load_state(path)
    estimated = notes.get("smoothness_estimated", False)  # older checkpoints do not say
    return Run(Config(**notes["config"]), state, notes["status"], notes["minimum"], estimated)


def _best_of(paths: list[Path]) -> Path:
    """The checkpoint of the best run: by loss, or above the minima of several problems."""
    if len(paths) == 1:
        return paths[0]
    ends = [_end_of(path) for path in paths]
    several = len({problem for problem, _, _ in ends}) > 1
    gaps = [gap for _, _, gap in ends if gap is not None]
    ranks = gaps if several and len(gaps) == len(ends) else [loss for _, loss, _ in ends]
    return paths[ranks.index(min(ranks))]


def _end_of(path: Path) -> tuple[str, float, float | None]:
    """The problem of a run, its final loss, and its gap where the minimum is known."""
    run = _run_at(path)
    problem, last = json.dumps(run.config.problem, sort_keys=True, default=str), run.rows[-1]
    if run.status == DIVERGED:
        return problem, inf, inf
    return problem, float(last["loss"]), None if last["gap"] is None else float(last["gap"])


def as_objective(target: Problem, x0: Any = None) -> tuple[Objective, dict[str, Any]]:
    """The objective and the mapping by which the configuration knows it."""
    if isinstance(target, Objective):
        return target, {"name": target.name, "dim": target.dim}
    if isinstance(target, str | Mapping):
        mapping = problem_mapping(target)
        return build_problem(mapping), mapping
    if not callable(target):
        raise ConfigError(
            f"objective must be an Objective, a problem's name or a function, "
            f"got {type(target).__name__}; wrap yours with zotune.objective(fn, dim)"
        )
    if x0 is None:
        raise ConfigError(
            "a plain function does not tell its dimension; give x0, "
            "or wrap it with zotune.objective(fn, dim)"
        )
    return as_objective(objective(target, _dimension_of(x0)))


def _dimension_of(x0: Any) -> int:
    """How many coordinates a start has, (d,) or (replicates, d)."""
    try:
        start = torch.as_tensor(x0)
    except (TypeError, ValueError, RuntimeError):
        start = torch.empty(())
    if start.dim() not in (1, 2):
        raise ConfigError(
            f"x0 must be a vector, (d,), or one for each replicate, (replicates, d), got {x0!r}; "
            "give [0.0] for a function of one number"
        )
    return start.shape[-1]
