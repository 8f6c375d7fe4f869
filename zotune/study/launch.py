"""Launches of a study: an id, a folder that one process locks, and a record of the status."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune.core.files import write_whole
from zotune.core.folders import written_by_others
from zotune.core.names import (
    CONTINUES,
    FINISHED,
    INTERRUPTED,
    LAUNCH_FILE,
    RUNNING,
    STUDY_FILE,
)
from zotune.core.provenance import versions
from zotune.errors import ZotuneError
from zotune.objectives import PROBLEMS
from zotune.study.defaults import BEFORE_CHOICES, LAUNCH_FORMAT, completed, defaults_of
from zotune.study.model import Study
from zotune.study.points import dimension
from zotune.study.studyfile import parse_document

if TYPE_CHECKING:
    from zotune.runs.run import Run

LOCK_FILE = ".lock"
FEW_KEPT, MANY_KEPT = 2, 16
"""Number of checkpoints that Tune keeps per trial, for large and for small states."""
SMALL = 2**20
"""Maximum bytes of a small state, of which many are kept.

Tune saves the state of all trials whenever one of them has made as many checkpoints as it keeps,
which is too slow with a thousand trials.
"""
SPARE = 16 * 2**20
"""Bytes needed for rows, logs and states, in addition to the checkpoints."""


class LaunchError(ZotuneError, RuntimeError):
    """A launch that cannot be started or continued."""


@dataclass(frozen=True)
class Launch:
    """One launch of a study, in ``<storage>/<study>/<id>/``."""

    study: Study
    storage: Path
    id: str
    state: str = RUNNING
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder with all files of the launch."""
        return self.storage / self.study.name / self.id

    def record(self, state: str, **notes: Any) -> Launch:
        """The launch with another state, which is written to its record."""
        changed = replace(self, state=state, notes={**self.notes, **notes})
        started = {"format": LAUNCH_FORMAT, "id": self.id, "study": self.study.name, "state": state}
        text = json.dumps(started | changed.notes, indent=2, default=str)
        write_whole(self.folder / LAUNCH_FILE, text.encode())
        return changed


def launch_id() -> str:
    """A new id: the time, and random digits for launches that begin in the same second."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


@contextmanager
def new_launch(study: Study, storage: Path, **notes: Any) -> Iterator[Launch]:
    """Create a launch: a new folder with the study in it, locked until the context ends."""
    launch = Launch(study, storage.absolute(), launch_id())
    check_storage(launch)
    with _locked(launch.folder):
        notes |= {"started": datetime.now(UTC).isoformat(), "pid": os.getpid()}
        notes["versions"] = versions()
        notes["defaults"] = defaults_of(study.problem["name"])
        launch = launch.record(RUNNING, **notes)
        write_whole(launch.folder / STUDY_FILE, study.to_yaml(complete=True).encode())
        yield launch


@contextmanager
def old_launch(study_name: str, storage: Path, wanted: str | None) -> Iterator[Launch]:
    """Load and lock the launch with that id, or the newest unfinished one."""
    folder = _find(study_name, storage.absolute(), wanted)
    _require_resumable(folder)
    with _locked(folder):
        named = ("format", "id", "study", "state")
        notes = {k: v for k, v in _record(folder).items() if k not in named}
        launch = Launch(_study_of(folder), storage.absolute(), folder.name, notes=notes)
        check_storage(launch)
        _require_trusted(folder)
        yield launch.record(RUNNING, pid=os.getpid())


def _require_resumable(folder: Path) -> None:
    """Raise an error for a launch of an older zotune, whose Ray pickles cannot be loaded."""
    if _resumable(_record(folder)):
        return
    raise LaunchError(
        f"launch {folder.name} was written by an older zotune and cannot be resumed as it was; "
        f"continue from its checkpoints with --resume {folder.name} --budget N, more than it had, "
        "or start a new launch (zotune.load_run reads its runs)"
    )


def _resumable(record: Mapping[str, Any]) -> bool:
    """Whether Ray's pickles in a launch can be loaded; assumed for an empty record."""
    return not record or "format" in record


def _require_trusted(folder: Path) -> None:
    """Raise an error if other users could have changed the folder: loading pickles runs code."""
    if (found := written_by_others(folder)) is not None:
        raise LaunchError(
            f"launch {folder.name} is not resumed, because another user owns or may write to "
            f"{found}, and resuming runs code from there; if you trust it all, make it yours "
            f"alone: chown -R $USER {folder} && chmod -R go-w {folder}"
        )


def launches_of(study: Study, storage: Path) -> list[Launch]:
    """Launches with the same trials that are not running now, oldest first.

    The question and the claims of the study may have changed since.
    """
    found = []
    for file in (storage.absolute() / study.name).glob(f"*/{STUDY_FILE}"):
        record = _record(file.parent)
        state = str(record.get("state", INTERRUPTED))
        usable = state == FINISHED or _resumable(record)
        if usable and _runs_the_same(file.parent, study):
            found.append(Launch(study, storage.absolute(), file.parent.name, state, record))
    open_ = [launch for launch in found if not _is_locked(launch.folder)]
    return sorted(open_, key=lambda launch: (str(launch.notes.get("started", "")), launch.id))


def _runs_the_same(folder: Path, study: Study) -> bool:
    try:
        return _what_runs(_study_of(folder)) == _what_runs(study)
    except ZotuneError:
        return False  # a study that is no longer valid


def _what_runs(study: Study) -> dict[str, Any]:
    said = ("question", "claims", "tuning")
    data = parse_document(study.to_yaml(complete=True)).data
    runs = {key: value for key, value in data.items() if key not in said}
    if study.refines and study.tuning is not None:
        over = study.tuning.over, study.tuning.replicates
        runs["refined"] = over, {(claim.measure, claim.across) for claim in study.claims}
    return runs


@contextmanager
def extended_launch(
    study_name: str,
    storage: Path,
    wanted: str | None,
    *,
    best_of: Callable[[Path], Run] | None = None,
    budget: int | None = None,
    **more: int | None,
) -> Iterator[Launch]:
    """Create a launch that continues an old one, finished or not, with a larger budget.

    If ``best_of`` is given, it finds the best run of a folder, and only that one is continued.
    """
    from zotune.study.carrying import extended, only_best

    folder = _find(study_name, storage.absolute(), wanted, also_finished=True)
    with _locked(folder):
        study = _study_of(folder)
        if best_of is None:
            study = extended(study, budget, **more)
        else:
            study = only_best(study, best_of(folder), budget)
        with new_launch(study, storage, **{CONTINUES: folder.name}) as launch:
            yield launch


def _study_of(folder: Path) -> Study:
    """The study of a launch, with the defaults that it was started with."""
    record = _record(folder)
    if record.get("format", LAUNCH_FORMAT) not in (BEFORE_CHOICES, LAUNCH_FORMAT):
        raise LaunchError(
            f"launch {folder.name} has format {record['format']!r}, and this zotune reads "
            f"{BEFORE_CHOICES}, {LAUNCH_FORMAT} and launches without one; "
            "use the version that wrote it"
        )
    text = (folder / STUDY_FILE).read_text(encoding="utf-8")
    data = parse_document(text, str(folder / STUDY_FILE)).data
    return Study(**completed(data, record))


def _find(
    study_name: str, storage: Path, wanted: str | None, *, also_finished: bool = False
) -> Path:
    home = storage / study_name
    folders = [f.parent for f in home.glob(f"*/{STUDY_FILE}")]
    if wanted is not None:
        if home / wanted not in folders:
            known = ", ".join(sorted(f.name for f in folders)) or "none"
            raise LaunchError(
                f"no launch {wanted!r} of {study_name} in {storage}; launches: {known}"
            )
        if _record(home / wanted).get("state") == FINISHED and not also_finished:
            raise LaunchError(
                f"launch {wanted} of {study_name} is finished; start a new one, "
                "or continue it with --budget or --trials"
            )
        return home / wanted
    free = [f for f in folders if not _is_locked(f)]
    open_ = [f for f in free if also_finished or _record(f).get("state") != FINISHED]
    if not open_:
        kind = "launch" if also_finished else "unfinished launch"
        raise LaunchError(f"no {kind} of {study_name} in {storage}; leave out --resume")
    return max(open_, key=lambda f: (str(_record(f).get("started", "")), f.name))


def _record(folder: Path) -> dict[str, Any]:
    try:
        record = json.loads((folder / LAUNCH_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the launch; the lock is released when the process ends, even by a crash."""
    with (folder / LOCK_FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LaunchError(f"launch {folder.name} is running in another process") from None
        yield


def _is_locked(folder: Path) -> bool:
    try:
        with _locked(folder):
            return False
    except LaunchError:
        return True


def check_storage(launch: Launch) -> None:
    """Create the launch's folder and test writing to it, to report bad paths before any trial."""
    if "://" in str(launch.storage) or ":/" in str(launch.storage):
        raise LaunchError(
            f"storage must be a folder, got {launch.storage}; on a cluster, one that all nodes see"
        )
    probe = launch.folder / f".probe.{os.getpid()}"
    try:
        launch.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(probe, bytes(4096))
        probe.unlink()
        free = shutil.disk_usage(launch.folder).free
    except OSError as error:
        reason = error.strerror or str(error)
        raise LaunchError(
            f"cannot write to {launch.folder}: {reason}; choose another --storage"
        ) from None
    needed = _bytes(launch.study)
    if free < needed:
        raise LaunchError(
            f"{launch.storage} has {free / 1e6:.0f} MB left, and the study's checkpoints take up "
            f"to {needed / 1e6:.0f} MB; make room, or choose another --storage"
        )


def kept_checkpoints(study: Study) -> int:
    """The number of checkpoints that Tune keeps per trial."""
    return MANY_KEPT if is_small(study) else FEW_KEPT


def is_small(study: Study) -> bool:
    """Whether checkpoints of its trials are small."""
    return _checkpoint_bytes(study) <= SMALL


def _bytes(study: Study) -> int:
    """Maximum bytes of all checkpoints; Tune briefly has one more than it keeps."""
    return SPARE + study.size * (kept_checkpoints(study) + 1) * _checkpoint_bytes(study)


def _checkpoint_bytes(study: Study) -> int:
    """Bytes of a checkpoint: the weights, or x, best x and an average for each replicate."""
    settings = PROBLEMS[study.problem["name"]].settings_of(study.problem)
    if settings is not None:
        return int(settings.checkpoint_bytes)
    return 3 * 8 * study.replicates * dimension(study.problem)
