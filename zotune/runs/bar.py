"""A progress bar for runs in a terminal; silent in a pipe."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


class Bar:
    """Shows how much of a budget is spent and the best loss so far, on standard error.

    Args:
        budget: the budget of the run.
        shown: whether to show the bar; default: in a terminal or a notebook.
    """

    def __init__(self, budget: int, *, shown: bool | None = None) -> None:
        self._budget = budget
        self._shown = (sys.stderr.isatty() or in_notebook()) if shown is None else shown
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    @property
    def is_shown(self) -> bool:
        """Whether the bar is shown."""
        return self._progress is not None

    def __enter__(self) -> Bar:
        if self._shown:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            text = TextColumn("{task.completed}/{task.total} best {task.fields[best]}")
            columns = (BarColumn(), text, TimeRemainingColumn())
            self._progress = Progress(*columns, console=_console(), transient=True)
            self._progress.start()
            self._task = self._progress.add_task("", total=self._budget, best="…")
        return self

    def show(self, spent: int, best: float) -> None:
        """Update the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=spent, best=f"{best:.6g}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def in_notebook() -> bool:
    """Whether this process shows its output in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _console() -> Console:
    """Standard error; in a notebook standard output, where alone it shows a bar."""
    from rich.console import Console

    return Console(force_jupyter=True) if in_notebook() else Console(stderr=True)
