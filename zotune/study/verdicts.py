"""Verdicts on a launch's claims, from the final losses in its trials' checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from zotune.claims import Finals, Verdict, judge
from zotune.curve import DIVERGED, EXHAUSTED
from zotune.run import Run, load_run

if TYPE_CHECKING:
    from ray import tune
    from rich.table import Table

    from zotune.study.model import Study

STYLES = {"holds": "green", "fails": "red", "undecided": "yellow"}


def verdicts_of(study: Study, results: tune.ResultGrid) -> list[Verdict]:
    """What the trials that came to their end say of the study's claims; none without claims."""
    if not study.claims:
        return []
    ended = [results[at] for at in range(len(results))]
    runs = [load_run(r) for r in ended if r.error is None and r.checkpoint is not None]
    finals = [
        finals_of(run)
        for run in runs
        if isinstance(run, Run) and run.status in (EXHAUSTED, DIVERGED)
    ]
    return judge(study.claims, finals, study.tuning) if finals else []


def finals_of(run: Run) -> Finals:
    """The final losses of a run; a diverged replicate counts as the contract says."""
    state = run.state
    worst = torch.maximum(state.start_loss, state.loss)
    losses = torch.where(state.diverged, worst, state.loss).tolist()
    return Finals(run.config.model_dump(), losses, run.minimum)


def verdict_table(verdicts: Sequence[Verdict], title: str = "claims") -> Table:
    """Every claim with its verdict and the sentence behind it."""
    from rich.table import Table

    shown = Table("claim", "step", "verdict", "p", "why", title=title, title_justify="left")
    for verdict in verdicts:
        word = f"[{STYLES[verdict.verdict]}]{verdict.verdict}[/]"
        p = "" if verdict.p is None else f"{verdict.p:.2g}"
        shown.add_row(verdict.says, verdict.step, word, p, verdict.why)
    return shown
