"""What was typed after ``zotune run``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zotune.study.model import STORAGE
from zotune.study.studyfile import SUFFIXES, StudyError, read_document


@dataclass(frozen=True)
class RunRequest:
    """What was typed."""

    study: str
    settings: Sequence[str] = ()
    smoke: bool = False
    tracking_uri: str | None = None
    storage: Path = Path(STORAGE)
    address: str | None = None
    resume: str | None = None
    """A launch's id, "" for the newest unfinished one, None for a new launch."""
    budget: int | None = None
    trials: int | None = None
    """With resume: what a new launch, which goes on from the old one, has more of."""
    total: int | None = None
    """What all trials together may spend; with resume like budget."""
    only: str | None = None
    """With resume and budget: go on with the best trial alone."""
    system_metrics: bool = False
    """Whether the load of this machine is recorded in MLflow."""
    as_json: bool = False
    report: bool = True
    """Whether a figure is drawn and a report written at the end."""
    imports: Sequence[str] = ()
    """Files and modules of the user's, which register what the study names."""

    @property
    def extends(self) -> bool:
        """Whether a new launch goes on from an old one."""
        more = (self.budget, self.trials, self.only)
        return any(one is not None for one in more) or (
            self.total is not None and self.resume is not None
        )


def kept_under(request: RunRequest) -> str:
    """The name under which the launches of a request are kept."""
    return _name(request.study) + ("-smoke" if request.smoke else "")


def _name(study: str) -> str:
    """The name under which a study keeps its launches, even if its file has gone since."""
    try:
        return str(read_document(study).data.get("name", study))
    except StudyError:
        if Path(study).suffix in SUFFIXES and not Path(study).is_file():
            raise
        return study
