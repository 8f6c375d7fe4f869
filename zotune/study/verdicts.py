"""Verdicts on a launch's claims, from the final losses in its trials' checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from zotune.claims import Finals, Verdict, assumptions, judge, not_judged
from zotune.core.names import DIVERGED, EXHAUSTED
from zotune.errors import ConfigError
from zotune.runs.run import Run, load_run

if TYPE_CHECKING:
    from ray import tune
    from rich.table import Table

    from zotune.study.model import Study

STYLES = {"holds": "green", "fails": "red", "undecided": "yellow"}


def verdicts_of(study: Study, results: tune.ResultGrid) -> tuple[list[Verdict], str]:
    """Verdicts on the study's claims, and why there are none where there could be.

    Claims are about all of a study's runs at their end: among those that happen to be left, the
    smallest q would be another one.
    """
    if not study.claims:
        return [], ""
    ended = [results[at] for at in range(len(results))]
    runs = [load_run(r) for r in ended if r.error is None and r.checkpoint is not None]
    whole = [finals_of(run) for run in runs if run.status in (EXHAUSTED, DIVERGED)]
    if len(whole) < study.size:
        missing = study.size - len(whole)
        return [], not_judged(f"{missing} of {study.size} trials have not spent their budget")
    try:
        return judge(study.claims, whole, study.tuning), ""
    except ConfigError as error:
        return [], not_judged(str(error))


def finals_of(run: Run) -> Finals:
    """The final losses of a run; a diverged replicate counts as the contract says."""
    state = run.state
    start, last = (torch.as_tensor(loss).reshape(-1) for loss in (state.start_loss, state.loss))
    diverged = torch.as_tensor(state.diverged).reshape(-1)
    losses = torch.where(diverged, torch.maximum(start, last), last).tolist()
    estimated = isinstance(run, Run) and run.smoothness_estimated
    return Finals(run.config.model_dump(), losses, run.minimum, estimated)


def verdict_table(verdicts: Sequence[Verdict], title: str = "claims") -> Table:
    """Every claim with its verdict and the sentence behind it."""
    from rich.table import Table

    shown = Table("claim", "step", "verdict", "p", "why", title=title, title_justify="left")
    shown.caption, shown.caption_justify = assumptions(verdicts), "left"
    for verdict in verdicts:
        word = f"[{STYLES[verdict.verdict]}]{verdict.verdict}[/]"
        p = "" if verdict.p is None else f"{verdict.p:.2g}"
        shown.add_row(verdict.says, verdict.step, word, p, verdict.why)
    return shown
