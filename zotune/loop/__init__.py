"""``Loop`` runs one configuration on one objective under a query budget: ``state → state``.

``minimize``, ``Minimizer`` and the Tune trainable drive it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from zotune.choosing import resolve
from zotune.config import Config
from zotune.core.curve import rows_on_grid, together
from zotune.core.names import CONVERGED, DIVERGED, EXHAUSTED, RUNNING
from zotune.core.state import LaneState, State
from zotune.evaluators import SERIAL, Evaluator
from zotune.iterates import Iterate, iterate_for
from zotune.loop.lane import Lane
from zotune.loop.programs import ProgramLane
from zotune.loop.replayed import Replayed
from zotune.methods import METHODS, Choice


class Loop:
    """All replicates of a run.

    A lane is a group of replicates that take their steps together. If all replicates spend the same
    amount per step, they share one lane, as rows of one tensor. If the step or the block size
    depends on observed values, each replicate has its own lane and its own ledger, and gives the
    same results as if it ran alone. ``spent`` is the mean over replicates, rounded down; a report
    waits until every running replicate has passed the reported point.

    Args:
        config: the checked configuration.
        objective: the function to minimise, over vectors or over the weights of a module.
        x0: the start, (d,) or (replicates, d), if x is a vector; default: the objective's start.
        evaluator: evaluates the requests of the run; default: this process.
    """

    def __init__(
        self, config: Config, objective: Any, x0: Any = None, evaluator: Evaluator = SERIAL
    ) -> None:
        self.config = config
        """The configuration as given; ``chosen`` says how each ``auto`` was resolved."""
        self.objective = objective
        config, self._choices = resolve(
            config,
            objective.dim,
            batches=bool(getattr(objective, "draws_batches", False)),
            residuals=bool(getattr(objective, "residuals", False)),
        )
        self.method = METHODS[config.method]
        """What spends the budget: the method that was asked for, or that ``auto`` stands for."""
        whole = iterate_for(objective, config, x0)
        kind = Replayed if self.method.replays else Lane
        self.lanes: tuple[ProgramLane, ...] = (
            _one_a_replicate(kind, config, whole, evaluator)
            if config.goes_by_values and config.replicates > 1
            else (kind(config, whole, evaluator),)
        )
        self.iterate, self.grid = whole, self.lanes[0].grid
        self.minimum, self.gamma = whole.minimum, whole.gamma
        self.repeated_before = 0
        """Evaluations that were made again before this loop, by a run that it continues."""

    def answer_with(self, evaluator: Evaluator) -> None:
        """Use another evaluator from now on."""
        for lane in self.lanes:
            lane.evaluator = evaluator

    def watch(self, on_step: Callable[[], None]) -> None:
        """Register a callback that runs after each step, or after each batch of fused steps."""
        for lane in self.lanes:
            lane.on_step = on_step

    @property
    def newest(self) -> State:
        """The state after the last completed step; used when the objective raises."""
        return State(tuple(lane.newest for lane in self.lanes if lane.newest is not None))

    def init(self) -> State:
        """The initial state. Evaluates the loss at the start, and estimates L if it is needed."""
        return State(tuple(lane.init() for lane in self.lanes))

    def adopt(self, state: State) -> State:
        """Prepare a state, possibly of another configuration, to continue under this one."""
        return State(tuple(lane.adopt(one) for lane, one in self._each(state)))

    def renew(self, state: State) -> State:
        """Go on from the points of a run of another function, as when its hyperparameters change.

        Spent budget and curve are kept. What is known of values and slopes is not: each replicate
        begins anew at its point, whose loss is evaluated.
        """
        return State(tuple(lane.renew(one) for lane, one in self._each(state)))

    def step(self, state: State) -> State:
        """One step of every running replicate."""
        return State(
            tuple(
                lane.step(one) if lane.status(one) == RUNNING else one
                for lane, one in self._each(state)
            )
        )

    def advance(self, state: State, until: int | None = None) -> State:
        """Step until ``until`` is spent or the budget covers no further step; record the end."""
        for lane, one in self._each(state):
            lane.newest = one
        return State(tuple(lane.advance(one, until) for lane, one in self._each(state)))

    def stop(self, state: State) -> State:
        """End the run before its budget is spent: record the last point of the curve."""
        return State(tuple(lane.stop(one) for lane, one in self._each(state)))

    def advance_to_report(self, state: State) -> State:
        """Step to the next multiple of ``report_every``, or to the end."""
        every = self.config.reports_at
        return self.advance(state, (self.reached(state) // every + 1) * every)

    def spent(self, state: State) -> int:
        """Spent budget of a replicate, in the unit of ``count``; the mean rounded down."""
        return sum(lane.spent(one) for lane, one in self._each(state)) // len(self.lanes)

    def charged(self, state: State) -> int:
        """Total budget spent by all replicates."""
        return sum(lane.spent(one) * lane.config.replicates for lane, one in self._each(state))

    def called(self, state: State) -> int:
        """Number of charged evaluations, over all replicates."""
        each = self._each(state)
        return sum(one.ledger.evaluations * lane.config.replicates for lane, one in each)

    def looked(self, state: State) -> int:
        """Number of uncharged evaluations of the loss, over all replicates."""
        return sum(one.ledger.monitored * lane.config.replicates for lane, one in self._each(state))

    @property
    def repeated(self) -> int:
        """Number of evaluations made again after a failure, beside those that are charged."""
        return self.repeated_before + self.lanes[0].evaluator.repeated

    def limit_to(self, together: int | None) -> None:
        """Limit the total over all replicates; None: each replicate runs to its budget."""
        budget = self.config.budget
        for lane in self.lanes:
            limit = budget if together is None else together // lane.config.replicates
            lane.limit_to(min(budget, limit))

    def reached(self, state: State) -> int:
        """The least that any running replicate has spent."""
        each = [(lane.spent(one), lane.status(one)) for lane, one in self._each(state)]
        running = [spent for spent, status in each if status == RUNNING]
        return min(running) if running else max(spent for spent, _ in each)

    def status(self, state: State) -> str:
        """``running``, ``exhausted``, or ``diverged`` if all replicates have diverged."""
        found = {lane.status(one) for lane, one in self._each(state)}
        return next(
            status for status in (RUNNING, EXHAUSTED, CONVERGED, DIVERGED) if status in found
        )

    def report(self, state: State) -> tuple[State, dict[str, Any]]:
        """A result row for this state, and the state with the report's evaluations counted."""
        reports = [lane.report(one) for lane, one in self._each(state)]
        state = State(tuple(one for one, _ in reports))
        return state, together([seen for _, seen in reports]).row(self.status(state), self.minimum)

    @property
    def estimates_smoothness(self) -> bool:
        """Whether the step uses an estimated L, for which the theory's bounds do not hold."""
        return self.lanes[0].estimates

    def facts(self, state: State) -> dict[str, Any]:
        """Run-wide facts for reports: the mean loss at the start, L, and where L is from."""
        start, smoothness = state.start_loss.double(), None
        if self.lanes[0].needs_smoothness:
            given = self.config.L
            smoothness = float((1 / state.inverse_smoothness).mean()) if given is None else given
        return {
            "start_loss": float((start / start.numel()).sum()),
            "L": smoothness,
            "L_estimated": self.estimates_smoothness,
        } | self._chosen_keys(state)

    def _chosen_keys(self, state: State) -> dict[str, str]:
        """The ``chosen_*`` entries of a row (how ``auto`` was resolved); same keys in every row."""
        if self.method.replays:
            chosen = {one.setting: one.value for one in self.chosen(state)}
            return {"chosen_method": chosen.get("method", "")}
        return {f"chosen_{one.setting}": one.value for one in self._choices}

    def chosen(self, state: State) -> tuple[Choice, ...]:
        """For each ``auto`` setting: what was chosen and why, for the first replicate."""
        return (*self._choices, *self.lanes[0].chosen(state.lanes[0]))

    def curve_rows(
        self, state: State, after: int = -1, status: str | None = None
    ) -> list[dict[str, Any]]:
        """Curve rows on the grid after spent budget ``after`` that can no longer change.

        ``status`` is passed if the run was ended from outside.
        """
        return rows_on_grid(
            [one.curve for one in state.lanes],
            self.grid,
            spent=self.reached(state),
            status=status or self.status(state),
            minimum=self.minimum,
            after=after,
        )

    def final_losses(self, state: State) -> list[float]:
        """The loss of each replicate at the last observation."""
        last = together([one.curve[-1] for one in state.lanes])
        losses: list[float] = last.tensors["loss"].tolist()
        return losses

    def drawn(self, state: State) -> str:
        """A hash of a direction that a resumed run draws again; empty for zotune's own kinds."""
        return self.lanes[0].drawn(state.lanes[0])

    def fingerprint(self) -> dict[str, Any]:
        """Facts that must match to resume a checkpoint: problem and shape, not the method."""
        shape = {"replicates": self.config.replicates, "count": self.config.count}
        return self.iterate.fingerprint() | shape

    def _each(self, state: State) -> Iterator[tuple[ProgramLane, LaneState]]:
        return zip(self.lanes, state.lanes, strict=True)


def _one_a_replicate(
    kind: type[ProgramLane], config: Config, whole: Iterate, evaluator: Evaluator
) -> tuple[ProgramLane, ...]:
    """One lane for each replicate, so that its results do not depend on the others."""
    lanes: list[ProgramLane] = []
    for row, at in enumerate(config.replicate_indices):
        alone = config.model_copy(update={"replicate": at, "replicates": 1})
        lanes.append(kind(alone, whole.alone(alone, row), evaluator))
    return tuple(lanes)
