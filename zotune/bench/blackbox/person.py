"""A person's problem: thirty conductivities of a rod from noisy measurements of its warming.

A rod of thirty cells is heated at its left end and cools at its right one. The temperature u obeys
u_t = (k u_x)_x with a conductivity kᵢ in [0, 10] on the left side of each cell, and is measured in
every cell at ten moments. The loss is the sum of squared differences to the measurements of the
true rod, divided by their number, in units of a hundredth of a degree; every evaluation adds noise
with a deviation of 10⁻³. Ten rods and noises, 2000 evaluations, from 5 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from zotune.bench.blackbox.counting import Function, Vector
from zotune.bench.blackbox.problems import BlackboxProblem, TrueValues

SEEDS, BUDGET, NOISE = 10, 2000, 1e-3
LOW, HIGH, START = 0.0, 10.0, 5.0
MOMENTS, STEPS, LENGTH = 10, 4, 2.0
"""Measurements, implicit steps of Euler between two of them, and the length of a step."""
UNIT = 0.01
DIFFERENCE = 0.05
"""The difference that a person gives to solvers which do not find one themselves."""


def load(suite: str, dims: Sequence[int]) -> Iterator[BlackboxProblem]:
    """Ten rods of d cells."""
    for dim in dims:
        for seed in range(SEEDS):
            yield BlackboxProblem(
                name=f"rod-{dim}-{seed}",
                start=np.full(dim, START),
                budget=BUDGET,
                opened=noisy(loss_of(dim, seed), seed),
                minimum=0.0,
                bounds=(LOW, HIGH),
                difference=DIFFERENCE,
            )


def temperatures(k: Vector) -> Vector:
    """Measured temperatures, (MOMENTS, d), of a rod that is cold at first."""
    d = len(k)
    flow = np.diag(k + np.append(k[1:], 1.0)) - np.diag(k[1:], 1) - np.diag(k[1:], -1)
    warming = np.zeros(d)
    warming[0] = k[0]  # the wall at the left has temperature 1, that at the right 0
    step = np.linalg.inv(np.eye(d) + LENGTH * flow)
    u, measured = np.zeros(d), []
    for _ in range(MOMENTS):
        for _ in range(STEPS):
            u = step @ (u + LENGTH * warming)
        measured.append(u)
    return np.stack(measured)


def loss_of(dim: int, seed: int) -> Function:
    """The noise-free loss of one rod."""
    truth = np.random.default_rng(seed).uniform(LOW + 1, HIGH - 1, dim)
    measured = temperatures(truth)

    def loss(x: Vector) -> float:
        return float((((temperatures(np.asarray(x)) - measured) / UNIT) ** 2).mean())

    return loss


def noisy(loss: Function, seed: int) -> Callable[[], Any]:
    """The loss with noise, and its true values; every run sees the same noise."""

    @contextmanager
    def opened() -> Iterator[tuple[Function, TrueValues]]:
        rng = np.random.default_rng([seed, 1])
        history: list[tuple[int, float]] = []
        count = 0

        def function(x: Vector) -> float:
            nonlocal count
            count, true = count + 1, loss(x)
            if not history or true < history[-1][1]:
                history.append((count, true))
            return true + NOISE * float(rng.standard_normal())

        yield function, TrueValues(lambda: history, loss)

    return opened
