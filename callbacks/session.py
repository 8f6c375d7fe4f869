"""The recording of a launch: its spool, and the process that delivers it."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from zotune.callbacks.deliverer import Deliverer, deliverer_for
from zotune.callbacks.journal import Journal
from zotune.callbacks.records import POINTS
from zotune.callbacks.spool import (
    ABOUT,
    DELIVERED,
    FOLDER,
    Record,
    Spool,
    find_spools,
    read_json,
    read_records,
)
from zotune.callbacks.stores import (
    database_of,
    is_found_by_default,
    scheme_of,
    without_credentials,
)
from zotune.core.aim import Aim
from zotune.core.folders import from_here
from zotune.core.names import ENDING_FOLDER, STUDY_FILE
from zotune.core.provenance import versions
from zotune.core.settings import merged

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("zotune")
SPOOL = "ZOTUNE_SPOOL"
"""Variable with the folder of spools for experiments whose folder is not on this machine."""
OF_RAY = ("checkpoint_", "error.", "events.out.tfevents", "params.", "progress.csv", "result.json")
"""Beginnings of the names of files that Ray itself writes into the folder of a trial."""
LOOK_EVERY, START_EVERY = 1.0, 3.0
"""Seconds between two checks of the deliverer; minimum seconds between two starts of it."""
SILENT = 10.0
"""Seconds of waiting for the delivery before a message is printed."""
LONGEST_REASON = 100
"""Maximum length of a store's error in messages; the spool has the full text."""
_DATE = re.compile(r"_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d$")


def place_of(trial: Trial) -> tuple[Path | None, str]:
    """The experiment's folder, if it is on this machine, and its name."""
    storage = trial.storage
    if storage is None:
        return None, trial.trainable_name
    here = storage.storage_filesystem.type_name == "local"
    return Path(storage.experiment_fs_path) if here else None, storage.experiment_dir_name


def files_of(trial: Trial) -> list[str]:
    """Names of files that a trial itself has left in its folder, if it is on this machine."""
    storage = trial.storage
    if storage is None or storage.storage_filesystem.type_name != "local":
        return []
    found = sorted(path.name for path in Path(storage.trial_fs_path).glob("*"))
    return [name for name in found if not name.startswith((".", ENDING_FOLDER, *OF_RAY))]


def open_session(
    trials: list[Trial],
    uri: str,
    about: Mapping[str, Any],
    folder: str | None = None,
    *,
    expected: Iterable[str] = (),
) -> Session:
    """Continue the session that has one of the trials, or open a new one.

    Other trials of that session, unless they are expected, have been lost by Tune, and are marked
    as superseded.
    """
    place, name = place_of(trials[0])
    elsewhere = Path.cwd() / os.environ.get(SPOOL, "zotune-spool") / name
    home = Path(folder) if folder else (place or elsewhere) / FOLDER
    living = [*(trial.trial_id for trial in trials), *expected]
    for known in find_spools(home) if home.is_dir() else []:
        if any(record.get("trial") in living for record in read_records(known)[0]):
            return _opened(Spool(known), uri, living)
    described = describe(place, name, about)
    return _opened(Spool(home / described["launch_id"], described), uri, living)


def _opened(spool: Spool, uri: str, living: Iterable[str]) -> Session:
    """The session of a spool; a restarted launch finds the trials that it had begun."""
    about = read_json(spool.folder / ABOUT)
    constants = about.get("constants", ())
    journal = Journal(read_records(spool.folder)[0], axes_of(about), Aim.of(about), constants)
    session = Session(spool, journal, uri)
    session.write(journal.leave_out(living))
    return session


def axes_of(about: Mapping[str, Any]) -> list[str]:
    """Keys in which a study's trials differ."""
    study = yaml.safe_load(about.get("study") or "") or {}
    searched = list(merged(study.get("space")))
    return [*searched, "replicate"] if study.get("replicates_as") == "trials" else searched


def describe(place: Path | None, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a spool; the launch id is the study's, or a new one."""
    study = place / STUDY_FILE if place is not None else None
    of_study = study is not None and study.is_file()
    launch = re.sub(r"[^-.\w]", "-", name)
    if study is not None and place is not None and of_study:
        found = {"experiment": place.parent.name, "study": study.read_text(encoding="utf-8")}
    else:
        found = {"experiment": _DATE.sub("", name)}
        launch = f"{launch}-{secrets.token_hex(3)}"
    given = {key: value for key, value in about.items() if value is not None}
    own = {"launch_id": launch, "time": time.time_ns() // 10**6, "versions": versions()}
    return {**found, **own, **given}


def page_of_launch(folder: Path) -> str:
    """The path of a delivered launch's page on the server; empty if there is none."""
    home = folder / FOLDER
    pages = [read_json(spool / DELIVERED).get("page", "") for spool in find_spools(home)]
    return str(next(filter(None, pages), ""))


@dataclass
class Session:
    """Writes records to a spool, and keeps a delivery process running."""

    spool: Spool
    journal: Journal
    uri: str
    """The store's address with credentials, which only the deliverer gets."""
    _deliverer: Deliverer | None = None
    _looked: float = field(default=0.0)
    _started: float = field(default=-START_EVERY)

    def write(self, records: Iterable[Record]) -> None:
        """Write records and sync them."""
        records = list(records)
        if records:
            self.spool.append(*records)

    def look(self) -> None:
        """Start the deliverer, or start it again if something has killed it."""
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        running = self._deliverer is not None and self._deliverer.code is None
        if not running and now - self._started > START_EVERY:
            self._end_deliverer()
            self._started = now
            self._deliverer = deliverer_for(self.uri)
            self._deliverer.deliver(self.spool.folder)

    def end_or_wait(self, seconds: float) -> None:
        """Called when all trials have ended: end the delivery, now or with ``ending_later``."""
        endings = _later.get()
        if endings is not None:
            endings.add(self, seconds)
        else:
            self.end(seconds)

    def end(self, seconds: float, report: str = "") -> None:
        """End the session: wait for the delivery, and print where the curves are."""
        self.write([self.journal.close(report)])
        self.finish(seconds)
        if lacks := self.journal.lacks:
            logger.warning(
                f"MLflow: no trial has reported {lacks!r}, so none is called the best; name what "
                "you optimise in tune.TuneConfig, or with MLflowCurves(metric=…, mode=…)"
            )
        if said := self.where_to_look():
            print(said)

    def finish(self, seconds: float) -> None:
        """Wait for the delivery while it makes progress, and report what is left.

        Args:
            seconds: maximum seconds without progress; 0 is used if the store has never answered.
        """
        taken, deadline = None, time.monotonic() + seconds
        told_at = time.monotonic() + SILENT
        try:
            while not (self.is_delivered() or self.is_absent()) and time.monotonic() < deadline:
                self.look()
                time.sleep(0.05)
                steps = read_json(self.spool.folder / DELIVERED).get("steps")
                if steps != taken:
                    taken, deadline = steps, time.monotonic() + seconds
                if taken and time.monotonic() > told_at:
                    told_at = float("inf")
                    left = self._points_left() or "the summary and the page"
                    logger.warning(f"MLflow: waiting for the store to take {left}")
        finally:
            self._end_deliverer()
            self.spool.close()
        if not self.is_delivered():
            logger.warning(self.left())
        elif why := read_json(self.spool.folder / DELIVERED).get("page_problem"):
            logger.warning(f"MLflow: all curves are delivered; {why}")

    def where_to_look(self) -> str:
        """A line on how to see the curves; empty for a study, whose command prints it."""
        about, told = (read_json(self.spool.folder / name) for name in (ABOUT, DELIVERED))
        if about.get("study") or not self.is_delivered():
            return ""
        shown = without_credentials(self.uri)
        if told.get("page") and scheme_of(self.uri) in ("http", "https"):
            return f"MLflow: the curves are at {shown.rstrip('/')}{told['page']}"
        database = database_of(self.uri)
        words = ["zotune", "ui", str(about["experiment"])]
        words += [] if is_found_by_default(self.uri) else ["--tracking-uri", shown]
        where = shown if database is None else from_here(database)
        return f"MLflow: the curves are in {where}; to see them, type: {shlex.join(words)}"

    def is_delivered(self) -> bool:
        """Whether the deliverer has ended, with everything delivered and nothing refused."""
        if self._deliverer is None or self._deliverer.code != 0:
            return False
        told = read_json(self.spool.folder / DELIVERED)
        return told.get("offset") == self.spool.size and not told.get("problem")

    def is_absent(self) -> bool:
        """Whether the store has never answered, not even since the last record was written."""
        told = read_json(self.spool.folder / DELIVERED)
        return bool(told.get("absent")) and told.get("seen") == self.spool.size

    def _end_deliverer(self) -> None:
        if self._deliverer is not None:
            self._deliverer.end()

    def left(self) -> str:
        """One short line: what has not been delivered, why, and the command to deliver it."""
        told = read_json(self.spool.folder / DELIVERED)
        why = " ".join(str(told.get("problem") or "it took too long").split())
        shown = why if len(why) <= LONGEST_REASON else f"{why[:LONGEST_REASON]}…"
        later = shlex.join(["zotune", "sync", _shown(self.spool.folder)])
        kept = self._points_left() or "ends of trials"
        return f"MLflow: {shown}; {kept} are kept. Later: {later}"

    def _points_left(self) -> str:
        """The number of points that are not delivered, in words; empty if there are none."""
        told = read_json(self.spool.folder / DELIVERED)
        records, _ = read_records(self.spool.folder, int(told.get("offset", 0)))
        points = sum(len(record["points"]) for record in records if record["kind"] == POINTS)
        trials = {record["trial"] for record in records if "trial" in record}
        return f"{points} curve points of {len(trials)} trials" if points else ""


class Endings:
    """Sessions whose trials have ended, and whose delivery ends later."""

    def __init__(self) -> None:
        self._open: list[tuple[Session, float]] = []

    def add(self, session: Session, wait: float) -> None:
        """Add a session whose trials have ended, with the time to wait for its delivery."""
        self._open.append((session, wait))

    def end(self, report: str = "") -> None:
        """End the delivery of all sessions; attaches a folder of the experiment, if given."""
        while self._open:
            session, wait = self._open.pop()
            try:
                session.end(wait, report)
            except Exception as error:  # must not fail: the trials are complete and saved
                said = without_credentials(f"{type(error).__name__}: {error}")
                logger.warning(f"MLflow: the delivery was not ended: {said}")


_later: ContextVar[Endings | None] = ContextVar("endings", default=None)


@contextmanager
def ending_later() -> Iterator[Endings]:
    """Within the context, do not wait for deliveries when trials end; wait at its end."""
    endings = Endings()
    token = _later.set(endings)
    try:
        yield endings
    finally:
        _later.reset(token)
        endings.end()


def _shown(spool: Path) -> str:
    """The path of the folder to sync, as short as possible: the experiment's, if it has one."""
    folder = spool.parent.parent if spool.parent.name == FOLDER else spool
    return str(from_here(folder))
