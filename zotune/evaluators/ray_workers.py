"""Ray workers that share the evaluations of a run and exchange scalars with it.

Each worker has its own objective. If directions have addresses, workers replicate the run (see
``following``); points are sent only for methods that yield points, which cannot be derived from
an address. Idle workers get the next parts of a request. A worker that dies is replaced, and its
parts are evaluated again. A part that takes far longer than others is also given to an idle worker,
and the first answer counts, but only if the function may be called beside the budget. Only the run
itself charges the budget; repeated evaluations are counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import torch

from zotune.errors import ConfigError, ObjectiveError, ZotuneError
from zotune.evaluators.dealing import Deal, Pace
from zotune.evaluators.described import Described, described
from zotune.evaluators.following import Copy, FollowedLoop, News, Sent, arrived, sent
from zotune.evaluators.history import NOWHERE, History, Position
from zotune.evaluators.serial import run
from zotune.iterates import Answer, Program, Request, Result
from zotune.iterates.parts import Parts, answer_at

LOST = "lost"
"""Reply of a worker whose copy of the run is out of date."""
DEATHS = 3
"""Number of workers that may die while evaluating one part before the run fails."""


@dataclass(frozen=True)
class Reply:
    """The reply of a worker."""

    answers: list[Sent]
    seconds: float
    """Total seconds for all parts."""
    failed: int
    """Number of failed evaluations, by exceptions that the objective allows."""


class EvaluationActor:
    """The actor in a worker's process: builds the objective once and evaluates parts."""

    def open(self, build: Callable[[], Any], threads: int) -> Described | None:
        """Build the objective, and return its description."""
        torch.set_num_threads(threads)
        self._objective = build()
        return described(self._objective)

    def join(self, make: Callable[[Any], FollowedLoop]) -> None:
        """Build a copy of the run's loop with the objective of this worker."""
        self._copy = Copy(make(self._objective))

    def evaluate(
        self, news: News | None, parts: Sequence[int], points: Sequence[Any]
    ) -> Reply | str:
        """Evaluate parts of the current request, or the function at given points."""
        loop = self._copy.loop
        with torch.inference_mode() if loop.iterate.pure else torch.no_grad():
            if news is not None and not self._copy.follow(news):
                return LOST
            began, before = monotonic(), getattr(loop.objective, "failed", 0)
            if news is not None:
                answers = self._copy.evaluate(parts)
            else:
                answers = [self._at(one) for one in points]
            seconds = monotonic() - began
            failed = getattr(loop.objective, "failed", 0) - before
            return Reply([sent(answer) for answer in answers], seconds, failed)

    def _at(self, points: Any) -> Answer:
        iterate = self._copy.loop.iterate
        rows = torch.from_numpy(points.copy()).to(iterate.device, iterate.dtype)
        return answer_at(iterate.objective, rows)


@dataclass
class Worker:
    """A worker, seen from the run."""

    actor: Any
    opened: Any
    """Reference to the call that builds its objective."""
    position: Position = NOWHERE
    busy: Any = None
    """Reference to its current call."""
    parts: list[int] = field(default_factory=list)
    began: float = 0.0
    answered: bool = False
    corrected: bool = False
    """Whether it was sent the state with its last call."""


class RayWorkers:
    """Evaluates with N workers.

    Args:
        count: N.
        build: builds the objective; sent to each worker once, and called there.
        share: resources of a worker, ``cpu`` and ``gpu``.
        placed: Ray's scheduling options of each worker, for bundles of a placement group.
    """

    in_process = False

    def __init__(
        self,
        count: int,
        build: Callable[[], Any],
        *,
        share: Mapping[str, float] | None = None,
        placed: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        import ray

        share = {"cpu": 1.0, "gpu": 0.0} | dict(share or {})
        self._options = {"num_cpus": share["cpu"], "num_gpus": share["gpu"], "max_restarts": 0}
        self._placed = list(placed or [{}] * count)
        self.threads = threads_of(share)
        self._build = ray.put(build)
        self._make: Any = None
        self._history: History | None = None
        self._loop: FollowedLoop
        """The loop whose requests are answered; set by ``attend``."""
        self.pace = Pace()
        self.deaths = self.repeated = self.rejoined = 0
        """Numbers of workers that died, of this loop's evaluations made again, of states sent."""
        self.on_calls: Callable[[int], None] | None = None
        """Called with the number of evaluations that are given to a worker."""
        self._died_at_start = 0
        """Number of workers in a row that died before they had joined."""
        self._actor: Any = ray.remote(EvaluationActor)
        self.workers = [self._started(at) for at in range(count)]

    def describe(self) -> Described | None:
        """The description of the objective by the first worker that is ready; None for models."""
        import ray

        opening = [worker.opened for worker in self.workers]
        return _opened(ray.wait(opening, num_returns=1)[0][0])

    def attend(self, loop: FollowedLoop, make: Callable[[Any], FollowedLoop]) -> None:
        """Serve this loop from now on; ``make`` builds a worker's copy from its objective."""
        import ray

        self._loop, self._make = loop, ray.put(make)
        self._history = None if loop.method.replays else History(loop)
        self.repeated = 0
        for worker in self.workers:
            self._joining(worker)

    def gather(self, seconds: float = 60.0) -> None:
        """Wait at most ``seconds`` until all workers have joined; late ones join during the run."""
        import ray

        joining = [worker.busy for worker in self.workers]
        ray.wait(joining, num_returns=len(joining), timeout=seconds)

    def run(self, program: Callable[..., Program[Result]], *arguments: Any) -> Result:
        """Run a program whose requests the workers answer; return its result."""
        if self._history is None:
            return run(program(*arguments), self._answered)
        owner: Any = program.__self__  # type: ignore[attr-defined]
        self._history.begin(self._loop.lanes.index(owner), program.__name__, arguments)
        result = run(program(*arguments), self._answered)
        self._history.end(result)
        return result

    def close(self) -> None:
        """End all workers."""
        import ray

        for worker in self.workers:
            ray.kill(worker.actor)
        self.workers = []

    def _answered(self, request: Request) -> Answer:
        if request.parts is None:
            raise ConfigError("this run asks for something that workers cannot evaluate")
        parts = request.parts()
        deal = Deal(parts.count, len(self.workers), self.pace)
        for worker in self.workers:
            worker.parts = []  # parts still in progress belong to an earlier request
        while not deal.done:
            for worker in self.workers:
                if worker.busy is None and (taken := deal.take()):
                    self._ask(worker, parts, taken)
            self._wait(deal)
        if request.charged:
            self.repeated += sum(parts.size(part) for part in deal.repeated)
        device = self._loop.iterate.device
        answer = parts.join([arrived(*deal.found[at], device) for at in range(parts.count)])
        if self._history is not None:
            self._history.add(sent(answer))
        return answer

    def _ask(self, worker: Worker, parts: Parts, taken: list[int]) -> None:
        news, points = None, []
        if self._history is not None:
            self.rejoined += worker.position == NOWHERE and worker.answered
            news, worker.position = self._history.news_for(worker.position, parts.count)
            worker.corrected = news.to_join is not None
        else:
            assert parts.points is not None  # such methods request values at points
            points = [parts.points(part).cpu().numpy() for part in taken]
        if self.on_calls is not None:
            self.on_calls(sum(parts.size(part) for part in taken))
        worker.busy = worker.actor.evaluate.remote(news, taken, points)
        worker.parts, worker.began = taken, monotonic()

    def _wait(self, deal: Deal) -> None:
        """Wait for a reply, or until a part is late."""
        import ray

        calls = {worker.busy: worker for worker in self.workers if worker.busy is not None}
        flying = [(worker.began, worker.parts) for worker in calls.values() if worker.parts]
        once = self._loop.iterate.charges_looks  # a licence or a bill may be paid for every call
        patience = None if once else deal.patience(flying, monotonic())
        ready, _ = ray.wait(list(calls), num_returns=1, timeout=patience)
        if not ready:
            deal.deal_again(flying, monotonic())
        for call in ready:
            self._received(calls[call], deal)

    def _received(self, worker: Worker, deal: Deal) -> None:
        import ray

        call, parts = worker.busy, worker.parts
        worker.busy, worker.parts = None, []
        try:
            reply = ray.get(call)
        except ray.exceptions.RayActorError as error:
            self._replace(worker, deal, parts, error)
            return
        except ray.exceptions.RayTaskError:
            if parts:
                raise
            if worker.position == NOWHERE:
                _opened(worker.opened)
                raise
            return  # another worker has evaluated the part
        if reply is None:  # the reply to ``join``
            worker.position, self._died_at_start = (0, 0), 0
        elif reply == LOST:
            if worker.corrected:
                raise ZotuneError(
                    "a worker computes another run than this process from the same state; "
                    "install the same versions of zotune and torch on all machines"
                )
            worker.position = NOWHERE
            deal.give_back(parts, begun=False)
        else:
            self._take(worker, reply, parts, deal)

    def _take(self, worker: Worker, reply: Reply, parts: list[int], deal: Deal) -> None:
        worker.answered = True
        if parts and deal.add(parts, reply.answers, reply.seconds):
            failed = getattr(self._loop.objective, "failed", 0) + reply.failed
            if reply.failed:
                self._loop.objective.failed = failed

    def _replace(self, worker: Worker, deal: Deal, parts: list[int], error: Exception) -> None:
        """Replace a dead worker; its parts go to the next idle ones."""
        import ray

        self.deaths += 1
        self._died_at_start += worker.position == NOWHERE
        if self._died_at_start >= DEATHS * len(self.workers):
            raise ObjectiveError(f"workers end before they have begun: {error}") from error
        if deal.blame(parts) >= DEATHS:
            raise ObjectiveError(
                f"evaluating the objective has ended {DEATHS} workers in a row; it must not end "
                f"its process (memory, signals): {error}"
            ) from error
        deal.give_back(parts)
        ray.kill(worker.actor)
        at = self.workers.index(worker)
        self.workers[at] = self._started(at)

    def _started(self, at: int) -> Worker:
        """Start a worker that builds its objective, and joins the run if it has begun."""
        actor = self._actor.options(**self._options, **self._placed[at]).remote()
        worker = Worker(actor, actor.open.remote(self._build, self.threads))
        if self._make is not None:
            self._joining(worker)
        return worker

    def _joining(self, worker: Worker) -> None:
        worker.busy, worker.parts = worker.actor.join.remote(self._make), []
        worker.position, worker.answered = NOWHERE, False


def _opened(call: Any) -> Described | None:
    """A worker's description of its objective; raises an error if it could not be built."""
    import ray

    try:
        found: Described | None = ray.get(call)
    except ray.exceptions.RayTaskError as error:
        raise ObjectiveError(f"a worker could not build the objective: {error}") from error
    return found


def threads_of(share: Mapping[str, float]) -> int:
    """Number of threads of a worker and of the run: whole CPUs, at least one."""
    return max(1, int(share.get("cpu", 1)))
