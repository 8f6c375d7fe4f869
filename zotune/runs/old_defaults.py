"""What settings and options were under older formats, where a file leaves them out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zotune.config import CHOICES, OF_BLOCKS, Config
from zotune.core.budget import DIRECTIONS, EVALUATIONS
from zotune.steps import AUTO

CHOICES_2: Mapping[str, Any] = {
    "estimator": "align",
    "q": 1,
    "update": "sgd",
    "step": "theory",
}
"""Under formats 1 and 2, of a run that said something of how it descends, but not these."""
FREE_2 = {
    *("problem", "budget", "bounds", "scale", "count", "replicates", "replicate", "seed"),
    *("report_every", "points", "curve", "workers"),
}
"""Under format 2, settings that left it to the run how it descends."""


def defaults_2(told: Iterable[str]) -> dict[str, Any]:
    """The defaults of format 2 that are others today, by the settings that were given.

    >>> defaults_2(["budget"])["update"], defaults_2(["budget", "q"])["update"]
    ('auto', 'sgd')
    """
    if set(told) - FREE_2:
        return {**CHOICES_2, "count": DIRECTIONS}
    return {**dict.fromkeys(CHOICES, AUTO), "count": EVALUATIONS}


def config_of_format_2(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete configuration as it is written today.

    With update and step ``auto``, everything was chosen beside the defaults of estimator and q too,
    and settings of blocks were ignored.
    """
    searched = (config["update"], config["step"]) == (AUTO, AUTO)
    unsaid = (AUTO, AUTO), (CHOICES_2["estimator"], CHOICES_2["q"])
    if not searched or (config["estimator"], config["q"]) not in unsaid:
        return dict(config)
    chosen = (*CHOICES, *OF_BLOCKS)
    return {**config, **{key: Config.model_fields[key].default for key in chosen}}


DEFAULTS_1: Mapping[str, Any] = {
    "estimator": "align",
    "q": 1,
    "directions": "gaussian",
    "difference": "forward",
    "mu": None,
    "update": "sgd",
    "step": "theory",
    "eta": None,
    "bounds": None,
    "scale": None,
    "L": None,
    "count": "directions",
    "replicates": 1,
    "replicate": 0,
    "seed": 0,
    "report_every": None,
    "points": 320,
    "block_bytes": 2**29,
    "schedule": "constant",
    "warmup": 0.0,
    "clip": None,
    "momentum": 0.0,
    "workers": 0,
    "embedding_rows": "seen",
    "memory": "auto",
    "keep_best": None,
    "curve": False,
    "diagnostics": False,
}
"""Every setting under format 1; ``update`` and ``bounds`` were not there, and were this in effect.

A setting that is new in the configuration is added here with the value that it had in effect.
"""
PROBLEM_DEFAULTS_1: Mapping[str, Mapping[str, Any]] = {
    "language-model": {
        "model": "tiny-qwen3",
        "revision": "main",
        "dataset": "made-reviews",
        **dict.fromkeys(("validation", "text", "label", "labels", "template", "words")),
        "head": "linear",
        "pooling": "last",
        "trainable": "all",
        "lora_rank": 8,
        "lora_alpha": 16.0,
        "batch": 16,
        "max_length": None,
        "train_size": None,
        "validation_size": None,
        "dtype": "float32",
        "seed": 0,
    },
    "logistic": {"dim": 1000, "samples": 1000, "seed": 0, "dtype": "float64"},
    "quadratic": {
        "dim": 1000,
        "seed": 0,
        "condition": None,
        "epsilon": 0.001,
        "dtype": "float64",
    },
    "rosenbrock": {"dim": 1000, "seed": 0, "start": "half-normal", "dtype": "float64"},
    "stochastic-logistic": {
        "dim": 1000,
        "samples": 5000,
        "batch": 64,
        "rho": 0.001,
        "seed": 0,
        "dtype": "float64",
    },
}
"""Every option of the problems under format 1."""
