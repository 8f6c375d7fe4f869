"""What a launch has recorded of its trials: where a resumed launch takes them from.

Tune's own snapshot is taken every few seconds, so it lacks what happened last. The account
(``core.account``) has a line for every report, checkpoint and end of a trial, written before Tune
continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotune.core.account import OVER, POINT, ROW, SAVED, events_in
from zotune.core.names import ACCOUNT_FILE, AGAIN, CHARGED, ENDING_FOLDER, REPEATED, STATE_FILE

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

FINISHED, FAILED = "finished", "failed"
"""How a trial has ended, in the account."""
ERROR_FILE = "error.txt"
"""Tune's file in the folder of a trial that has failed."""
CHECKPOINT = "checkpoint_"


@dataclass
class Past:
    """The recorded facts of one trial."""

    point: dict[str, Any] | None = None
    """Its point, if a sequential search has drawn it."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Its rows, in the order of its reports."""
    over: str = ""
    """How it has ended; empty if it has not."""
    error: str = ""
    """Why it has failed."""
    saved: dict[str, int] = field(default_factory=dict)
    """The position of each checkpoint, by name, in the order in which they were saved."""
    config: dict[str, Any] | None = None
    """The configuration that it has changed to (PBT); None: its first one."""
    source: tuple[str, int] | None = None
    """The checkpoint of another trial from which it continues, and its position."""
    _since: int = 0
    """How many rows it had when it changed to that."""

    @property
    def last(self) -> dict[str, Any] | None:
        """Its furthest row, not one that was repeated after a kill; None if it has none."""
        rows = self.rows[self._since :] or self.rows[-1:]
        return max(rows, key=lambda row: int(row.get(CHARGED, 0))) if rows else None

    def add(self, event: Mapping[str, Any]) -> None:
        """Add what an event says."""
        if event.get(ROW) is not None:
            self.rows.append(event[ROW])
        if POINT in event:
            self.point = event[POINT]
        if SAVED in event:
            self.saved[event[SAVED]] = event["position"]
            self.source = None
        if "config" in event:
            self.config, self.source = event["config"], (event["source"], event["at"])
            self._since = len(self.rows)
        if OVER in event:
            self.over, self.error = event[OVER], event.get("error", "")

    @property
    def position(self) -> int:
        """Where it has arrived by its furthest row."""
        return 0 if self.last is None else int(self.last.get(CHARGED, 0))

    def row_at(self, position: int) -> dict[str, Any]:
        """The newest row with a position; what is known of it if there is none."""
        rows = (row for row in reversed(self.rows) if row.get(CHARGED) == position)
        return dict(next(rows, {CHARGED: position}))


def past_of(folder: Path) -> dict[str, Past]:
    """The recorded trials of the launch in a folder, by id, in the order in which they began."""
    found: dict[str, Past] = {}
    for event in events_in(folder / ACCOUNT_FILE):
        trial = event.get("trial")
        if trial is None:
            continue
        if event.get("was") in found:
            found[trial] = found.pop(event["was"])
        found.setdefault(trial, Past()).add(event)
    return found


def ids_of(launch: str) -> str:
    """The first part of the ids of a launch's trials; the same whenever it is resumed."""
    return f"{sha256(launch.encode()).hexdigest()[:5]}_"


def give_back(trial: Trial, past: Past, folder: Path, repeated: int = 0) -> None:
    """Let a trial that Tune has just made be the one that was recorded.

    Args:
        trial: the new trial, with the id and the first configuration of the old one.
        past: what is known of it.
        folder: the folder of the launch.
        repeated: what it has repeated after kills.
    """
    found: Any = trial
    place = next(iter(sorted(folder.glob(f"{trial.trial_id}_*/"))), None)
    if past.config is not None:
        trial.config = {**trial.config, **past.config}
    if place is not None:
        found.relative_logdir = found.storage.trial_dir_name = place.name
        found.init_local_path()
        _give_checkpoints(found, past, place)
    if past.last is not None:
        told = {"config": trial.config, "done": bool(past.over)}
        told |= {REPEATED: repeated} if repeated or past.last.get(AGAIN) else {}
        found.update_last_result({**past.last, **told})
    if past.over:
        _give_end(found, past)


def _give_end(trial: Any, past: Past) -> None:
    """Let the trial have ended."""
    if past.over == FAILED:
        trial.init_local_path()
        trial.run_metadata.error_filename = ERROR_FILE
        Path(trial.local_path, ERROR_FILE).write_text(past.error, encoding="utf-8")
    trial.set_status(trial.ERROR if past.over == FAILED else trial.TERMINATED)


def _give_checkpoints(trial: Any, past: Past, place: Path) -> None:
    """Register the checkpoints that the trial has, and the state that it ended with."""
    found = [(place / name, at) for name, at in past.saved.items()]
    found += [] if past.source is None else [(Path(past.source[0]), past.source[1])]
    for path, position in found:
        if (path / STATE_FILE).is_file():
            _register(trial, path, past.row_at(position))
    trial.storage.current_checkpoint_index = _last_index(place)
    if past.over == FINISHED and past.position not in past.saved.values():
        give_ending(trial, past.row_at(past.position))


def give_ending(trial: Any, row: dict[str, Any]) -> None:
    """Let the last checkpoint of a trial be the state that it has ended with.

    The worker writes that before it reports the end; without it, nothing changes.
    """
    place = Path(trial.storage.trial_fs_path)
    kept, number = place / ENDING_FOLDER, _last_index(place) + 1
    if (kept / STATE_FILE).is_file():
        _register(trial, kept.rename(place / f"{CHECKPOINT}{number:06d}"), row)
        trial.storage.current_checkpoint_index = number


def _register(trial: Any, path: Path, row: dict[str, Any]) -> None:
    """Add a checkpoint to those that Tune knows of the trial, as the newest."""
    from ray.train._internal.session import _TrainingResult
    from ray.tune import Checkpoint

    checkpoint = Checkpoint(str(path), filesystem=trial.storage.storage_filesystem)
    saved = _TrainingResult(checkpoint, row)
    trial.run_metadata.checkpoint_manager.register_checkpoint(saved)


def _last_index(place: Path) -> int:
    """The number of the newest checkpoint in a trial's folder, whole or not; -1 for none."""
    names = (path.name.removeprefix(CHECKPOINT) for path in place.glob(f"{CHECKPOINT}*"))
    return max((int(name) for name in names if name.isdigit()), default=-1)
