"""Read curves from the spool of a launch, the queue of records for MLflow.

The spool holds plain numbers. The same curves in checkpoints are tensors; reading them imports
torch, which takes a second in every command.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from zotune.callbacks.records import POINTS, of_last_attempts
from zotune.callbacks.spool import FOLDER, Record, find_spools, read_records
from zotune.core.names import GAMMA_KEY, LOSSES_KEY, LOST_KEY, MINIMUM_KEY
from zotune.results.trial import History


@dataclass
class Spooled:
    """The records of one trial."""

    history: History = field(default_factory=dict)
    losses: tuple[float, ...] | None = None
    minimum: float | None = None
    gamma: float | None = None
    diverged: tuple[bool, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it has the curve from its start to its end."""
        return self.losses is not None and 0 in self.history.get("loss", {})

    def add(self, record: Record) -> None:
        """Add the points of a record."""
        for step, values in record["points"]:
            for key, value in values.items():
                self.history.setdefault(key, {})[int(step)] = value
        if LOSSES_KEY in record:
            self.losses, self.minimum = tuple(record[LOSSES_KEY]), record[MINIMUM_KEY]
            self.gamma = record.get(GAMMA_KEY)
            self.diverged = tuple(record.get(LOST_KEY, ()))


def spooled_in(folder: Path) -> dict[str, Spooled]:
    """The trials in the spools of a launch, by their ids."""
    found: dict[str, Spooled] = {}
    for spool in find_spools(folder / FOLDER):
        for record in of_last_attempts(read_records(spool)[0]):
            if record["kind"] == POINTS:
                found.setdefault(record["trial"], Spooled()).add(record)
    return found
