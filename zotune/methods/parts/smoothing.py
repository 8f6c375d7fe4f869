"""Descent on f smoothed by a large, shrinking radius: an evolution strategy (CMA-ES).

A step moves the centre along Σ wᵢ yᵢ, the rank-weighted directions of a Gaussian block: an
estimate of the natural gradient of E f(x + σy). The radius σ shrinks by the length of the path
(CSA), the covariance follows the directions that won and leaves those that lost (rank one, rank μ
with negative weights). Hansen 2016, arXiv 1604.00772.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zotune.methods.parts.noise import middle
from zotune.methods.parts.oracle import Oracle, Stage, Vector

DIAGONAL = 300
"""Above this dimension the covariance is a diagonal."""
FLATTEST = 1e-14
"""Lower bound of the covariance's eigenvalues as a share of the largest; rounding is below it."""


class Rates(NamedTuple):
    """Hansen's constants, by the names in his tutorial."""

    w: Vector
    """Weights of the better half, best first; their sum is 1."""
    worse: Vector
    """Negative weights of the worse half, used for the covariance only."""
    total: float
    """Absolute sum of ``worse``."""
    mu: float
    """Effective number of points in the better half."""
    c_s: float
    c_c: float
    """Decay rates of the two evolution paths."""
    c_1: float
    c_mu: float
    """Learning rates of the covariance, from its path and from the block."""
    damp: float
    chi: float
    """E‖z‖ of a standard normal z."""


def rates(d: int, n: int, *, diagonal: bool) -> Rates:
    """The constants for n points in R^d; a diagonal covariance has a higher learning rate."""
    ranks = np.log((n + 1) / 2) - np.log(np.arange(1, n + 1))
    w, worse = ranks[: n // 2] / ranks[: n // 2].sum(), ranks[n // 2 :]
    mu, mu_worse = 1 / float((w**2).sum()), float(worse.sum() ** 2 / (worse**2).sum())
    c_s, c_c = (mu + 2) / (d + mu + 5), (4 + mu / d) / (d + 4 + 2 * mu / d)
    factor = (d + 2) / 3 if diagonal else 1.0
    c_1 = min(1.0, factor * 2 / ((d + 1.3) ** 2 + mu))
    c_mu = min(1 - c_1, factor * 2 * (mu - 1.75 + 1 / mu) / ((d + 2) ** 2 + mu))
    definite = (1 - c_1 - c_mu) / (d * c_mu)  # keeps the covariance positive definite
    total = min(1 + c_1 / c_mu, 1 + 2 * mu_worse / (mu + 2), definite)
    worse = -total * worse / worse.sum()
    damp = 1 + 2 * max(0.0, np.sqrt((mu - 1) / (d + 1)) - 1) + c_s
    chi = np.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d**2))
    return Rates(w, worse, total, mu, c_s, c_c, c_1, c_mu, damp, chi)


def smoothing(
    o: Oracle,
    x: Vector,
    sigma: float,
    scale: Vector,
    rng: np.random.Generator,
    *,
    spend: int,
    population: int | None = None,
    until: float = 1e-8,
    known: float = np.inf,
) -> Stage[tuple[Vector, float]]:
    """Spend at most ``spend`` evaluations; return the last centre and radius.

    For a noisy function, the centre becomes the answer if points around it are below ``known``.
    """
    d = o.dim
    n = population or 4 + int(3 * np.log(d))
    diagonal = d > DIAGONAL
    w, worse, total, mu, c_s, c_c, c_1, c_mu, damp, chi = rates(d, n, diagonal=diagonal)
    c = np.ones(d) if diagonal else np.eye(d)
    axes, roots = np.eye(1 if diagonal else d), np.ones(d)
    path_s, path_c = np.zeros(d), np.zeros(d)
    stop, every, count, first = o.left - spend, max(1, int(1 / (10 * d * (c_1 + c_mu)))), 0, sigma
    while o.left - n >= max(stop, 0) and sigma > until * first:
        z = rng.standard_normal((n, d))
        y = z * np.sqrt(c) if diagonal else (z * roots) @ axes.T
        points = o.inside(x + sigma * scale * y)
        y = (points - x) / (sigma * scale)
        values = yield from (o.once(points) if o.repeats else o.values(points))
        order = values.argsort(kind="stable")
        best, worst = order[: len(w)], order[len(w) :]
        move = w @ y[best]
        x = o.inside(x + sigma * scale * move)
        if o.answer is not None and (value := middle(values)) < known:
            o.answer = x, value
        white = move / np.sqrt(c) if diagonal else axes @ ((axes.T @ move) / roots)
        path_s = (1 - c_s) * path_s + np.sqrt(c_s * (2 - c_s) * mu) * white
        count += 1
        length = float(np.linalg.norm(path_s))
        stalled = length / np.sqrt(1 - (1 - c_s) ** (2 * count)) / chi < 1.4 + 2 / (d + 1)
        path_c = (1 - c_c) * path_c + stalled * np.sqrt(c_c * (2 - c_c) * mu) * move
        keep = 1 - c_1 - c_mu * (1 - total) + (0 if stalled else c_1 * c_c * (2 - c_c))
        bad = y[worst]
        lengths = ((bad / np.sqrt(c) if diagonal else bad @ axes / roots) ** 2).sum(axis=1)
        rank = np.concatenate([w, worse * d / np.maximum(lengths, 1e-300)])
        if diagonal:
            c = keep * c + c_1 * path_c**2 + c_mu * (rank @ y[order] ** 2)
        else:
            c = keep * c + c_1 * np.outer(path_c, path_c) + c_mu * (y[order].T * rank) @ y[order]
            if count % every == 0:
                squares, axes = np.linalg.eigh((c + c.T) / 2)
                if squares[0] < FLATTEST * squares[-1]:
                    squares = np.maximum(squares, FLATTEST * squares[-1])
                    c = (axes * squares) @ axes.T
                roots = np.sqrt(squares)
        sigma *= float(np.exp(min(1.0, (c_s / damp) * (length / chi - 1))))
    return x, sigma
