"""The results of a study: Tune's ``ResultGrid`` with runs and plots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ray.tune import ResultGrid

from zotune._lazy import LazyModule
from zotune.core.pictures import pictures

if TYPE_CHECKING:
    from zotune.reporting.drawing import Drawing
    from zotune.runs import run as runs
    from zotune.runs.run import Run
else:
    runs = LazyModule("zotune.runs.run")


class StudyResults(ResultGrid):
    """Tune's ``ResultGrid`` of a study, with its runs and their curves."""

    @property
    def runs(self) -> list[Run]:
        """The run of each trial that has a checkpoint."""
        return list(self._runs())

    @property
    def best(self) -> Run:
        """The run with the lowest final loss."""
        return runs.load_run(self.get_best_result("loss", "min"))

    def plot(self) -> Drawing:
        """Curves of the best of each estimator and q, in the report's style."""
        drawing: Drawing = pictures().plot_results(self._runs())
        return drawing

    def _repr_html_(self) -> str:
        """In a notebook: the best of each estimator and q, and their curves."""
        return str(pictures().results_html(self._runs()))

    def _runs(self) -> Iterator[Run]:
        for at in range(len(self)):
            if self[at].checkpoint is not None:
                yield runs.load_run(self[at])


def of_study(results: ResultGrid) -> StudyResults:
    """Convert Tune's results to those of a study."""
    return StudyResults(results._experiment_analysis)
