"""The arguments of ``zotune run``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zotune.study.model import STORAGE
from zotune.study.studyfile import SUFFIXES, StudyError, read_document


@dataclass(frozen=True)
class RunRequest:
    """The arguments of the command."""

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
    """With resume: the larger budget or number of trials of a new launch that continues it."""
    total: int | None = None
    """Total budget of all trials; with resume like budget."""
    only: str | None = None
    """With resume and budget: continue the best trial only."""
    system_metrics: bool = False
    """Whether to record the load of this machine in MLflow."""
    as_json: bool = False
    report: bool = True
    """Whether to draw a figure and write a report at the end."""
    imports: Sequence[str] = ()
    """Files and modules of the user that register entries."""

    @property
    def extends(self) -> bool:
        """Whether this makes a new launch that continues an old one."""
        more = (self.budget, self.trials, self.only)
        return any(one is not None for one in more) or (
            self.total is not None and self.resume is not None
        )


def kept_under(request: RunRequest) -> str:
    """The study name under which the launches of a request are stored."""
    return _name(request.study) + ("-smoke" if request.smoke else "")


def _name(study: str) -> str:
    """The study name of a request, even if the study file no longer exists."""
    try:
        return str(read_document(study).data.get("name", study))
    except StudyError:
        if Path(study).suffix in SUFFIXES and not Path(study).is_file():
            raise
        return study
