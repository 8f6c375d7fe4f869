"""N Ray workers that share the evaluations of a run, and exchange scalars with it.

Each worker has an objective of its own. Workers of a run that has addresses follow it (see
``following``); points are sent only where a descent makes them that no address tells. Parts of a
request are dealt out as workers become free. A worker that dies is replaced, and a part that takes
far longer than others did is given to an idle worker too: its first answer counts. The budget is
charged by the run alone, so that nothing that is evaluated again is charged again.
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
from zotune.iterates.parts import Parts

LOST = "lost"
"""What a worker answers whose copy of the run is out of date."""
DEATHS = 3
"""Workers that may die over one part before the run ends."""


@dataclass(frozen=True)
class Reply:
    """What a worker answers."""

    answers: list[Sent]
    seconds: float
    """Of all parts together."""
    failed: int
    """Evaluations that failed as the objective allows."""


class EvaluationActor:
    """Lives in a worker's process: builds the objective once and evaluates what it is dealt."""

    def open(self, build: Callable[[], Any], threads: int) -> Described | None:
        """Build the objective, and say what is known of it."""
        torch.set_num_threads(threads)
        self._objective = build()
        return described(self._objective)

    def join(self, make: Callable[[Any], FollowedLoop]) -> None:
        """Make a loop of the run with the objective that is open."""
        self._copy = Copy(make(self._objective))

    def evaluate(
        self, news: News | None, parts: Sequence[int], points: Sequence[Any]
    ) -> Reply | str:
        """Parts of the request that is asked now, or the function at points."""
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
        return Answer(iterate.objective.values(rows))


@dataclass
class Worker:
    """A worker, as the run knows it."""

    actor: Any
    opened: Any
    """The call that builds its objective."""
    position: Position = NOWHERE
    busy: Any = None
    """The call that it works on."""
    parts: list[int] = field(default_factory=list)
    began: float = 0.0
    answered: bool = False
    corrected: bool = False
    """Whether it was sent the state with its last call."""


class RayWorkers:
    """Evaluates with N workers.

    Args:
        count: N.
        build: makes the objective; it travels to each worker once, and is called there.
        share: what a worker gets of the machine, ``cpu`` and ``gpu``.
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
        """Whose requests are answered, once it has come (``attend``)."""
        self.pace = Pace()
        self.deaths = self.repeated = self.rejoined = 0
        """Workers that died; parts that were dealt again; workers that had to be sent the state."""
        self._died_at_start = 0
        """Workers in a row that died before they had joined."""
        self._actor: Any = ray.remote(EvaluationActor)
        self.workers = [self._started(at) for at in range(count)]

    def describe(self) -> Described | None:
        """What the first worker that is ready says of its objective; None of a module's weights."""
        import ray

        opening = [worker.opened for worker in self.workers]
        return _opened(ray.wait(opening, num_returns=1)[0][0])

    def attend(self, loop: FollowedLoop, make: Callable[[Any], FollowedLoop]) -> None:
        """Serve this loop from now on; ``make`` builds a worker's, given its objective."""
        import ray

        self._loop, self._make = loop, ray.put(make)
        self._history = None if loop.chooses else History(loop)
        for worker in self.workers:
            self._joining(worker)

    def gather(self, seconds: float = 60.0) -> None:
        """Wait until all workers have joined, so long at most; late ones join during the run."""
        import ray

        joining = [worker.busy for worker in self.workers]
        ray.wait(joining, num_returns=len(joining), timeout=seconds)

    def run(self, program: Callable[..., Program[Result]], *arguments: Any) -> Result:
        """The result of a program whose requests the workers answer."""
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
            worker.parts = []  # what they still work on is of an earlier request
        while not deal.done:
            for worker in self.workers:
                if worker.busy is None and (taken := deal.take()):
                    self._ask(worker, parts, taken)
            self._wait(deal)
        self.repeated += deal.repeated
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
            assert parts.points is not None  # a descent asks for values at points
            points = [parts.points(part).cpu().numpy() for part in taken]
        worker.busy = worker.actor.evaluate.remote(news, taken, points)
        worker.parts, worker.began = taken, monotonic()

    def _wait(self, deal: Deal) -> None:
        """Wait for a worker, or until a part is late."""
        import ray

        calls = {worker.busy: worker for worker in self.workers if worker.busy is not None}
        flying = [(worker.began, worker.parts) for worker in calls.values() if worker.parts]
        ready, _ = ray.wait(list(calls), num_returns=1, timeout=deal.patience(flying, monotonic()))
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
            return  # of a part that another worker has evaluated
        if reply is None:  # it has joined
            worker.position, self._died_at_start = (0, 0), 0
        elif reply == LOST:
            if worker.corrected:
                raise ZotuneError(
                    "a worker computes another run than this process from the same state; "
                    "install the same versions of zotune and torch on all machines"
                )
            worker.position = NOWHERE
            deal.give_back(parts)
        else:
            self._take(worker, reply, parts, deal)

    def _take(self, worker: Worker, reply: Reply, parts: list[int], deal: Deal) -> None:
        worker.answered = True
        if parts and deal.add(parts, reply.answers, reply.seconds):
            failed = getattr(self._loop.objective, "failed", 0) + reply.failed
            if reply.failed:
                self._loop.objective.failed = failed

    def _replace(self, worker: Worker, deal: Deal, parts: list[int], error: Exception) -> None:
        """Replace a dead worker; its parts go to the next that are free."""
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
        """A worker that opens its objective, and joins the run if there is one."""
        actor = self._actor.options(**self._options, **self._placed[at]).remote()
        worker = Worker(actor, actor.open.remote(self._build, self.threads))
        if self._make is not None:
            self._joining(worker)
        return worker

    def _joining(self, worker: Worker) -> None:
        worker.busy, worker.parts = worker.actor.join.remote(self._make), []
        worker.position, worker.answered = NOWHERE, False


def _opened(call: Any) -> Described | None:
    """What a worker says of its objective, or why it has none."""
    import ray

    try:
        found: Described | None = ray.get(call)
    except ray.exceptions.RayTaskError as error:
        raise ObjectiveError(f"a worker could not build the objective: {error}") from error
    return found


def threads_of(share: Mapping[str, float]) -> int:
    """Threads that a worker computes with, and the run beside it: whole CPUs, at least one."""
    return max(1, int(share.get("cpu", 1)))
