"""Names that cross a process or a file; each stands here and nowhere else."""

from __future__ import annotations

import re

RUNNING, EXHAUSTED, DIVERGED, STOPPED = "running", "exhausted", "diverged", "stopped"
"""Statuses of a run."""
OUT_OF_TIME = "out of time"
"""The status of a trial that had so much wall time and no more."""
COMPLETE = (EXHAUSTED, DIVERGED, OUT_OF_TIME)
"""Statuses of runs that came to the end that they were given."""
INTERRUPTED, FINISHED = "interrupted", "finished"
"""Further states of a launch or a trial."""
FAILED, STOPPED_EARLY = "failed", "stopped early"
"""Further states of a trial: an error ended it, or a scheduler or a stopper did."""

STATE_FILE, SCALARS_FILE = "state.safetensors", "scalars.json"
"""In the folder of a checkpoint: the state, and the scalar log of a model's run."""
STUDY_FILE, LAUNCH_FILE = "study.yaml", "launch.json"
"""In the folder of a launch: the study as it was run, and what became of it."""
CONTINUES = "continues"
"""In the second of them: the id of the launch that this one goes on from."""
ACCOUNT_FILE = "spent.jsonl"
"""In the folder of a launch, too: what every trial has reserved and spent."""
BEST_POINT_FILE = "best-point.safetensors"
"""There too, after a race: the checkpoint that has the best point of all."""

CHARGED, CHARGED_BEFORE, LOOKED = "charged", "charged_before", "looked"
"""Row keys, of all replicates together: what was spent by now, and before this report; how often
the loss was only looked at."""
CURVE_KEY = "_zotune_curve"
"""The private key under which a row carries its curve points, for callbacks to take out."""
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
        "minimum",
        "gamma",
        "done",
        "config",
        "repeated",
        CHARGED,
        CHARGED_BEFORE,
        LOOKED,
    ]
)
"""Columns of a result row that metrics of the user's may not take."""
LOG10_ETA = "log10_eta"
"""Among the last values of a run whose step was searched: its logarithm, for linear axes."""
LOSSES_KEY = "losses"
"""In the last point of a curve: the loss of each replicate."""
MINIMUM_KEY, GAMMA_KEY = "minimum", "gamma"
"""Beside it: the objective's lowest value and its strong convexity, where they are known."""

STATUS_TAG, ERROR_TAG, TRIAL_TAG = "zotune.status", "zotune.error", "zotune.trial_id"
LAUNCH_TAG, FINAL_LOSSES_TAG = "zotune.launch_id", "zotune.final_losses"
MINIMUM_TAG = "zotune.minimum"
SPENT_TAG, POINT_TAG, KIND_TAG = "zotune.spent", "zotune.point", "zotune.kind"
GROUP_TAG, LAUNCH_GROUP_TAG = "zotune.group", "zotune.group_of_launch"
ESTIMATED_TAG, NONFINITE_TAG, TRIALS_TAG = "zotune.L_estimated", "zotune.nonfinite", "zotune.trials"
NOW_TAG = "zotune.now."
"""Tags of a run in MLflow; the last is followed by the name of a param that has changed."""
OF_TRIAL, OF_LAUNCH = "trial", "summary"
"""Values of ``KIND_TAG``: the run of a trial, and the one of a launch."""
FINAL = "final_"
"""What the names of a run's last values in MLflow begin with."""
RUN_ID = re.compile(r"[0-9a-f]{32}")
"""What MLflow calls its runs."""
