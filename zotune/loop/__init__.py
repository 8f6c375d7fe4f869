"""The query-budgeted loop: one configuration bound to one objective, ``state → state``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from zotune.choosing import resolve
from zotune.config import Config
from zotune.core.curve import rows_on_grid, together
from zotune.core.names import DIVERGED, EXHAUSTED, RUNNING
from zotune.core.state import LaneState, State
from zotune.evaluators import SERIAL, Evaluator
from zotune.iterates import Iterate, iterate_for
from zotune.loop.auto import AutoLane
from zotune.loop.lane import Lane


class Loop:
    """All replicates of a run.

    They are rows of one lane while all of them spend alike, and each has a lane of its own, with
    its own ledger, where the step or the block size depends on what was seen: then each is the run
    that it would be alone. ``spent`` is the mean, rounded down; a report waits until every
    replicate that still runs has passed its point.

    Args:
        config: the checked configuration.
        objective: what is minimised, over vectors or over the weights of a module.
        x0: the start of vectors, (d,) or (replicates, d); the objective's own unless given.
        evaluator: who answers the requests of the run; this process unless given.
    """

    def __init__(
        self, config: Config, objective: Any, x0: Any = None, evaluator: Evaluator = SERIAL
    ) -> None:
        self.config = config
        """As asked for; what ``auto`` became is in ``chosen``."""
        self.objective = objective
        config, self._reasons = resolve(
            config, objective.dim, batches=bool(getattr(objective, "draws_batches", False))
        )
        self.chooses = config.chooses
        """Whether the descent chooses everything by itself."""
        whole = iterate_for(objective, config, x0)
        self.lanes: tuple[Lane | AutoLane, ...] = (
            _one_a_replicate(config, whole, evaluator)
            if (config.goes_by_values and config.replicates > 1) or self.chooses
            else (Lane(config, whole, evaluator),)
        )
        self.iterate, self.grid = whole, self.lanes[0].grid
        self.minimum, self.gamma = whole.minimum, whole.gamma

    def answer_with(self, evaluator: Evaluator) -> None:
        """Let somebody else answer the requests from now on."""
        for lane in self.lanes:
            lane.evaluator = evaluator

    def watch(self, on_step: Callable[[], None]) -> None:
        """Call this after every step, or after many that are taken as one."""
        for lane in self.lanes:
            lane.on_step = on_step

    @property
    def newest(self) -> State:
        """The state after the last whole step, for a caller whose objective has raised."""
        return State(tuple(lane.newest for lane in self.lanes if lane.newest is not None))

    def init(self) -> State:
        """The state before the first step: its loss looked at, curvature probed where needed."""
        return State(tuple(lane.init() for lane in self.lanes))

    def adopt(self, state: State) -> State:
        """A state, maybe of another configuration, made ready to continue under this one."""
        return State(tuple(lane.adopt(one) for lane, one in self._each(state)))

    def step(self, state: State) -> State:
        """One step of every replicate that runs."""
        return State(
            tuple(
                lane.step(one) if lane.status(one) == RUNNING else one
                for lane, one in self._each(state)
            )
        )

    def advance(self, state: State, until: int | None = None) -> State:
        """Step until so much is spent, or until nothing more can be; the end is recorded."""
        for lane, one in self._each(state):
            lane.newest = one
        return State(tuple(lane.advance(one, until) for lane, one in self._each(state)))

    def stop(self, state: State) -> State:
        """The state with its end on its curve, where something else than its budget ends it."""
        return State(tuple(lane.stop(one) for lane, one in self._each(state)))

    def advance_to_report(self, state: State) -> State:
        """Step to the next multiple of ``report_every``, or to the end."""
        every = self.config.reports_at
        return self.advance(state, (self.reached(state) // every + 1) * every)

    def spent(self, state: State) -> int:
        """Spent budget of a replicate, in the unit of ``count``; the mean rounded down."""
        return sum(lane.spent(one) for lane, one in self._each(state)) // len(self.lanes)

    def charged(self, state: State) -> int:
        """What all replicates have spent together."""
        return sum(lane.spent(one) * lane.config.replicates for lane, one in self._each(state))

    def looked(self, state: State) -> int:
        """How often all replicates together have only looked at the loss."""
        return sum(one.ledger.monitored * lane.config.replicates for lane, one in self._each(state))

    def limit_to(self, together: int | None) -> None:
        """End when all replicates have spent so much together; None: at the budget, as usual."""
        budget = self.config.budget
        for lane in self.lanes:
            limit = budget if together is None else together // lane.config.replicates
            lane.limit_to(min(budget, limit))

    def reached(self, state: State) -> int:
        """What every replicate that still runs has spent at least."""
        each = [(lane.spent(one), lane.status(one)) for lane, one in self._each(state)]
        running = [spent for spent, status in each if status == RUNNING]
        return min(running) if running else max(spent for spent, _ in each)

    def status(self, state: State) -> str:
        """running, exhausted, or diverged when all replicates have."""
        found = {lane.status(one) for lane, one in self._each(state)}
        return next(status for status in (RUNNING, EXHAUSTED, DIVERGED) if status in found)

    def report(self, state: State) -> tuple[State, dict[str, Any]]:
        """A result row for the state as it is, and the state that has counted this look."""
        reports = [lane.report(one) for lane, one in self._each(state)]
        state = State(tuple(one for one, _ in reports))
        return state, together([seen for _, seen in reports]).row(self.status(state), self.minimum)

    @property
    def estimates_smoothness(self) -> bool:
        """Whether the step is divided by an estimated L: it is then not the theory's step."""
        return self.lanes[0].estimates

    def facts(self, state: State) -> dict[str, Any]:
        """What reports say beside an observation: the mean loss at the start, L, and its source."""
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
        """``chosen_*`` of a row, the same keys in every row of a run: what ``auto`` has become."""
        if self.chooses:
            return {"chosen_method": self.chosen(state).get("method", "")}
        return {f"chosen_{key}": why.partition(":")[0] for key, why in self._reasons.items()}

    def chosen(self, state: State) -> dict[str, str]:
        """What was chosen and why, where that was left to the run; of the first replicate."""
        return self._reasons | self.lanes[0].chosen(state.lanes[0])

    def curve_rows(
        self, state: State, after: int = -1, status: str | None = None
    ) -> list[dict[str, Any]]:
        """Rows on the grid past spent budget ``after``, as far as they are final.

        ``status`` is given of a run that somebody has ended.
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

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must agree on: problem and shape, not estimator, q or step."""
        shape = {"replicates": self.config.replicates, "count": self.config.count}
        return self.iterate.fingerprint() | shape

    def _each(self, state: State) -> Iterator[tuple[Lane | AutoLane, LaneState]]:
        return zip(self.lanes, state.lanes, strict=True)


def _one_a_replicate(
    config: Config, whole: Iterate, evaluator: Evaluator
) -> tuple[Lane | AutoLane, ...]:
    """A lane for each replicate, which is then the run that it would be alone."""
    kind = AutoLane if config.chooses else Lane
    lanes: list[Lane | AutoLane] = []
    for row, at in enumerate(config.replicate_indices):
        alone = config.model_copy(update={"replicate": at, "replicates": 1})
        lanes.append(kind(alone, whole.alone(alone, row), evaluator))
    return tuple(lanes)
