"""Run or resume a launch until it ends or is interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

from zotune.callbacks.deliverer import prepared
from zotune.callbacks.stores import NOWHERE
from zotune.clusters.own_workers import environment_shared
from zotune.core.account import spent_in
from zotune.core.names import CONTINUES, FINISHED, INTERRUPTED, LAUNCH_FILE
from zotune.core.processes import Interrupt, handled
from zotune.study.capacity import too_large
from zotune.study.launch import Launch, LaunchError
from zotune.study.quiet import callbacks_uncounted, ray_running

if TYPE_CHECKING:
    from ray import tune

    from zotune.study.model import Study

DISABLE_TUNES_HANDLER = "TUNE_DISABLE_SIGINT_HANDLER"
STORE = "tracking_uri"
"""Key in the records of launches and spools: the address of the store, without credentials."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a launch."""

    launch: Launch
    results: tune.ResultGrid
    interrupted: bool
    seconds: float
    """Wall time of the trials, without the start of Ray."""
    signal: int = 0
    """The signal that interrupted it; 0 for none."""


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Let the first Ctrl-C end Tune's loop with its state saved, and the second abort everything.

    SIGTERM and a closed terminal count as the first Ctrl-C, even if repeated. Tune's own handler
    for Ctrl-C does not show whether it was called. Tune handles SIGUSR1 in the same way, so our
    handler calls that one; before Tune has installed it, all signals raise KeyboardInterrupt.
    """
    noted = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stop = signal.getsignal(signal.SIGUSR1)
        again, noted.number = bool(noted.number), noted.number or number
        if not callable(stop) or (again and number == signal.SIGINT):
            raise KeyboardInterrupt
        stop(number, frame)

    before, environment = signal.getsignal(signal.SIGUSR1), os.environ.get(DISABLE_TUNES_HANDLER)
    os.environ[DISABLE_TUNES_HANDLER] = "1"
    try:
        with handled(handle) as noted.listen:
            yield noted
    finally:
        signal.signal(signal.SIGUSR1, before or signal.SIG_DFL)
        del os.environ[DISABLE_TUNES_HANDLER]
        if environment is not None:
            os.environ[DISABLE_TUNES_HANDLER] = environment


def store_of(tracking_uri: str | None) -> str | None:
    """The full address of the MLflow store; None for none. Raises an error if it is malformed."""
    from zotune.callbacks.stores import resolve_uri

    return None if tracking_uri == NOWHERE else resolve_uri(tracking_uri)


def with_store(launch: Launch, given: str | None) -> Launch:
    """The launch with its store in the record; raises an error if it had another store before."""
    from zotune.callbacks.stores import remember, without_credentials

    store = store_of(given)
    bare = NOWHERE if store is None else without_credentials(store)
    before = launch.notes.get(CONTINUES)
    kept = _started_with(launch.folder.parent / str(before) if before else launch.folder)
    if given is None and kept is not None:
        return launch.record(launch.state, **{STORE: kept})
    if kept not in (None, bare) and not before:
        raise LaunchError(
            f"launch {launch.id} is recorded in {kept}, and cannot continue in {bare}; "
            "leave out --tracking-uri, or start a new launch"
        )
    if store is not None:
        remember(store)
    return launch.record(launch.state, **{STORE: bare})


def _started_with(folder: Path) -> str | None:
    """The store that a launch was started with; None if it is not in the record."""
    from zotune.callbacks.spool import ABOUT, FOLDER, find_spools, read_json

    files = [folder / LAUNCH_FILE, *(spool / ABOUT for spool in find_spools(folder / FOLDER))]
    return next(filter(None, (read_json(file).get(STORE) for file in files)), None)


def known_store(launch: Launch) -> str:
    """The store of a launch, with the credentials that this process knows."""
    from zotune.callbacks.stores import with_credentials

    return with_credentials(str(launch.notes[STORE]))


def curves(
    study: Study, tracking_uri: str | None, *, system_metrics: bool | None = None
) -> list[tune.Callback]:
    """The callback that records a launch in MLflow, optionally with this machine's load."""
    from zotune.callbacks import MLflowCurves

    store = store_of(tracking_uri)
    if store is None:
        return []
    return [
        MLflowCurves(
            store, study.name, question=study.question or None, system_metrics=system_metrics
        )
    ]


def run_launch(
    launch: Launch,
    *,
    callbacks: Iterable[Any] = (),
    address: str | None = None,
    resume: bool = False,
) -> Outcome:
    """Run a launch to its end, and record the outcome.

    Args:
        launch: the launch, locked by this process.
        callbacks: Tune callbacks, made after Ray has started.
        address: address of a running cluster; default: the Ray of this process, or this machine.
        resume: continue an interrupted launch.
    """
    try:
        with interruptible() as interrupt, prepared(_store(launch)), ray_running(address):
            interrupt.listen()
            tuner = _tuner(launch, callbacks, resume)
            start = monotonic()
            with callbacks_uncounted(), environment_shared():
                results = tuner.fit()
            seconds, stopped = monotonic() - start, interrupt.number
    except (KeyboardInterrupt, SystemExit):  # Ray raises SystemExit at SIGTERM while it starts
        launch.record(INTERRUPTED)
        raise KeyboardInterrupt from None
    launch = launch.record(INTERRUPTED if stopped else FINISHED, failed=len(results.errors))
    return Outcome(launch, results, bool(stopped), seconds, stopped)


def _store(launch: Launch) -> str | None:
    """The store that a launch is recorded in; None if there is none, or not known yet."""
    return store_of(known_store(launch)) if STORE in launch.notes else None


def _tuner(launch: Launch, callbacks: Iterable[Any], resume: bool) -> tune.Tuner:
    """The launch's Tuner; a resumed one takes its trials from the records of the launch."""
    from zotune.callbacks import MLflowCurves
    from zotune.study.past import past_of
    from zotune.study.tuning import build_tuner

    _check_resources(launch)
    past, callbacks = past_of(launch.folder) if resume else {}, [*callbacks]
    for callback in callbacks:
        if isinstance(callback, MLflowCurves):
            callback.expect(past)
    return build_tuner(
        launch.study,
        storage_path=launch.storage,
        name=launch.id,
        callbacks=callbacks,
        carried=_carried(launch),
        before=_spent_before(launch),
        past=past,
    )


def _check_resources(launch: Launch) -> None:
    """Raise an error if no machine has the resources of a trial; Tune would wait for ever."""
    import ray

    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = [node["Resources"] for node in known if node["Alive"]]
    if refusal := too_large(launch.study.resources, nodes, launch.study.most_workers):
        launch.record(FINISHED, refused=True)
        raise LaunchError(refusal)


def _carried(launch: Launch) -> dict[str, str]:
    """Checkpoints of the launch that this one continues."""
    from zotune.study.carrying import carried

    before = launch.notes.get(CONTINUES)
    return carried(launch.folder.parent / str(before), launch.study) if before else {}


def _spent_before(launch: Launch) -> int:
    """Budget spent by the launch that this one continues, and by all before it."""
    earlier = launch.notes.get(CONTINUES)
    if earlier is None:
        return 0
    spending = spent_in(launch.folder.parent / str(earlier))
    return spending.before + spending.charged + spending.reserved
