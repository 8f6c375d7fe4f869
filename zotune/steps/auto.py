"""A step size from values that are there anyway."""

from __future__ import annotations

from math import exp, inf, isfinite, isnan, log, nan, sqrt

from zotune.steps import Line, Search, register

TRIALS = 6
"""The most values that a step may ask for."""
SUFFICIENT = 1e-4
"""The share of the predicted decrease that is enough (Armijo)."""
FARTHER = 3.0
"""How many times as far the parabola's minimum must be for one more trial there."""
LONGEST = 100.0
"""The largest factor between two trials."""
LEAST = 1e-250
"""The shortest step that is remembered; trials below it would come to 0, which has no logarithm."""
SHARE = 0.3
"""The weight of the newest step in the running mean of log step sizes."""
SETTLING = 10
"""Steps on mini-batches after which steps become shorter, as 1/√(1 + t/SETTLING)."""


@register(
    "auto",
    formula="the minimum of a parabola through f(x), its slope and f at the trial step",
    default_eta=1.0,
    memory={"log": nan},
    most_trials=TRIALS,
)
def auto(line: Line) -> Search:
    """Descent or rejection, by the value at the trial point; no curvature is probed.

    f(x), the slope −gᵀΔ/η by the estimate and f(x − Δ) fit a parabola, whose minimum is the next
    step size (a running mean of logarithms, from step to step) or the next trial. A value that is
    not lower, or not finite, is rejected and a shorter step is tried; after the last trial x stays.
    The value at an accepted point is the f(x) of the next step, so an accepted step costs as many
    evaluations as a plain one. eta is a factor (1). Nocedal, Wright 2006, section 3.5; with noisy
    values Berahas, Cao, Scheinberg 2021.

    The best step on a mini-batch fits that batch. Where every step sees another one, steps are
    shortened by 1/√(1 + t/10), unless there is a schedule (Robbins, Monro 1951).
    """
    memory = line.memory
    known = not isnan(memory["log"])
    eta = line.natural or (exp(memory["log"]) if known else line.first())
    factor = (line.eta or 1.0) / (sqrt(1 + line.t / SETTLING) if line.sees_batches else 1.0)
    eta *= factor
    best, best_value, reached = None, inf, nan
    for trial in range(TRIALS):
        value = yield eta
        minimum = _minimum(line, eta, value)
        if isfinite(minimum):
            reached = minimum
        if value <= line.value - SUFFICIENT * eta * max(line.slope(), 0.0) + 2 * line.rounding:
            if value >= best_value:
                break
            best, best_value = eta, value
            free = line.natural is not None and not line.sees_batches
            farther = minimum > FARTHER * eta and (free or not known)
            if not farther or trial == TRIALS - 1:
                break
            eta = min(minimum, LONGEST * eta)
        elif best is not None:
            break
        else:
            eta = 0.1 * eta if isnan(minimum) else min(max(minimum, 0.01 * eta), 0.5 * eta)
    _remember(line, best, reached, eta, factor)
    return best


def _minimum(line: Line, eta: float, value: float) -> float:
    """Where the parabola through the trial has its minimum; inf where it has none."""
    bend = value - line.value + eta * line.slope()
    if not isfinite(value) or line.slope() <= 0:
        return nan
    return eta * eta * line.slope() / (2 * bend) if bend > line.rounding else inf


def _remember(line: Line, best: float | None, reached: float, last: float, factor: float) -> None:
    """The running mean of log step sizes, before the factor, moved towards what was found."""
    memory = line.memory
    if best is None:
        memory["log"] = log(max(last / factor, LEAST))
        return
    taken = max(best / factor, LEAST)
    found = log(min(max(reached, taken / 10), 10 * taken) if isfinite(reached) else 2 * taken)
    before = memory["log"]
    memory["log"] = found if isnan(before) else (1 - SHARE) * before + SHARE * found
