"""Names that are shared between processes or written to files; defined here only."""

from __future__ import annotations

import re

RUNNING, EXHAUSTED, DIVERGED, STOPPED = "running", "exhausted", "diverged", "stopped"
CONVERGED = "converged"
"""Statuses of a run; converged: its method ended before the budget was spent."""
RAN_TO_END = (EXHAUSTED, CONVERGED)
"""Statuses of runs that did all that they could do with their budget."""
OUT_OF_TIME = "out of time"
"""The status of a trial whose time limit was reached."""
COMPLETE = (*RAN_TO_END, DIVERGED, OUT_OF_TIME)
"""Statuses of runs that have ended regularly."""
INTERRUPTED, FINISHED = "interrupted", "finished"
"""Further states of a launch or a trial."""
FAILED, STOPPED_EARLY = "failed", "stopped early"
"""Further states of a trial: an error ended it, or a scheduler or a stopper did."""

STATE_FILE, SCALARS_FILE = "state.safetensors", "scalars.json"
"""Files of a checkpoint: the state, and the scalar log of a model's run."""
STUDY_FILE, LAUNCH_FILE = "study.yaml", "launch.json"
"""Files of a launch: the study as it was run, and the status of the launch."""
CONTINUES = "continues"
"""Key in ``LAUNCH_FILE``: the id of the launch that this one continues."""
ACCOUNT_FILE = "spent.jsonl"
"""File of a launch: the budget that every trial has reserved and spent."""
CALLS_FOLDER = "calls"
"""Folder of a launch: for each trial, how often its processes have called the function."""
ENDING_FOLDER = "ending"
"""Folder of a trial: the state that it has ended with, until Tune has saved its last checkpoint."""
BEST_POINT_FILE = "best-point.safetensors"
"""File of a launch after a race: the checkpoint with the best point of all trials."""

CHARGED, CALLED, LOOKED = "charged", "called", "looked"
"""Row keys, totals over all replicates: spent budget; number of charged evaluations, and of
uncharged ones."""
CHARGED_BEFORE, CALLED_BEFORE, LOOKED_BEFORE = "charged_before", "called_before", "looked_before"
"""The same at the start of this report's part."""
AGAIN = "again"
"""Row key: number of evaluations that the trial's workers have made again."""
REPEATED = "repeated"
"""Row key: what the trial has repeated, by its workers and after kills, if anything."""
TOTALS = (CHARGED, CALLED, LOOKED, CHARGED_BEFORE, CALLED_BEFORE, LOOKED_BEFORE, AGAIN)
CURVE_KEY = "_zotune_curve"
"""Private row key of the curve points, which callbacks remove from the row."""
ROW_KEYS = frozenset(
    [
        "queries",
        "evaluations",
        "monitored",
        "steps",
        "q",
        "spent",
        "seconds",
        "loss",
        "loss_std",
        "best_loss",
        "gap",
        "grad_norm2",
        "average_loss",
        "diverged",
        "status",
        "snr",
        "cosine",
        "unmoved",
        "accuracy",
        "train_loss",
        "start_loss",
        "L",
        "L_estimated",
        "losses",
        "which_diverged",
        "minimum",
        "gamma",
        "done",
        "config",
        REPEATED,
        *TOTALS,
    ]
)
"""Columns of a result row, which are not allowed as names of user metrics."""
LOG10_ETA = "log10_eta"
"""Final value of a run with a tuned eta: its logarithm, for linear axes."""
LOSSES_KEY = "losses"
"""Key in the last point of a curve: the loss of each replicate."""
MINIMUM_KEY, GAMMA_KEY, LOST_KEY = "minimum", "gamma", "which_diverged"
"""Further keys there: the minimum of the objective and its strong convexity, if known; and for each
replicate whether it has diverged."""
ENDS_KEY = "_zotune_ends"
"""Key in the rows of a trial whose driver refines a grid: in the last row the losses of replicates,
whether they diverged, and the minimum, as JSON; empty in the others."""

STATUS_TAG, ERROR_TAG, TRIAL_TAG = "zotune.status", "zotune.error", "zotune.trial_id"
LAUNCH_TAG, FINAL_LOSSES_TAG = "zotune.launch_id", "zotune.final_losses"
MINIMUM_TAG, LOST_TAG = "zotune.minimum", "zotune.which_diverged"
SPENT_TAG, POINT_TAG, KIND_TAG = "zotune.spent", "zotune.point", "zotune.kind"
GROUP_TAG, LAUNCH_GROUP_TAG = "zotune.group", "zotune.group_of_launch"
METRIC_TAG, MODE_TAG, ATTEMPT_TAG = "zotune.metric", "zotune.mode", "zotune.attempt"
ESTIMATED_TAG, NONFINITE_TAG, TRIALS_TAG = "zotune.L_estimated", "zotune.nonfinite", "zotune.trials"
ACCOUNT_TAG = "zotune.account"
"""Tag of a summary run: all numbers of ``SPENT_TAG`` as JSON."""
NOW_TAG = "zotune.now."
"""Tags of a run in MLflow; the last is a prefix of the name of a changed param."""
OF_TRIAL, OF_LAUNCH = "trial", "summary"
"""Values of ``KIND_TAG``: the run of a trial, and the summary run of a launch."""
FINAL = "final_"
"""Prefix of the final values of a run in MLflow."""
RUN_ID = re.compile(r"[0-9a-f]{32}")
"""Pattern of MLflow's run ids."""
