"""Defaults of settings and options under older file formats, for files that omit them."""

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
"""Defaults under formats 1 and 2, for runs that set the method but not these settings."""
FREE_2 = {
    *("problem", "budget", "bounds", "scale", "count", "replicates", "replicate", "seed"),
    *("report_every", "points", "curve", "workers"),
}
"""Settings that did not count as setting the method under format 2."""


def defaults_2(told: Iterable[str]) -> dict[str, Any]:
    """The defaults of format 2 that have changed since, given the settings of a file.

    >>> defaults_2(["budget"])["update"], defaults_2(["budget", "q"])["update"]
    ('auto', 'sgd')
    """
    if set(told) - FREE_2:
        return {**CHOICES_2, "count": DIRECTIONS}
    return {**dict.fromkeys(CHOICES, AUTO), "count": EVALUATIONS}


def config_of_format_2(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete configuration converted to today's format.

    In format 2, update and step ``auto`` meant the automatic descent even with the defaults of
    estimator and q, and block settings were ignored.
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
"""All defaults under format 1, with equivalents of ``update`` and ``bounds``, which did not exist.

For every new setting, add the value here that is equivalent to the behaviour before it existed.
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
"""All options of the problems under format 1."""
