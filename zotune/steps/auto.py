"""A line search with parabolic interpolation, which uses values of the estimate."""

from __future__ import annotations

from math import exp, inf, isfinite, isnan, log, nan, sqrt

from zotune.steps import Line, Search, register

TRIALS = 6
"""Maximum number of trial values per step."""
SUFFICIENT = 1e-4
"""Share of the predicted decrease that is sufficient (Armijo)."""
FARTHER = 3.0
"""If the parabola's minimum is at least this many times as far, there is one more trial there."""
LONGEST = 100.0
"""Maximum factor between two trials."""
LEAST = 1e-250
"""Shortest step that is remembered; a step of 0 has no logarithm."""
SHARE = 0.3
"""Weight of the newest step in the running mean of log step sizes."""
SETTLING = 10
"""Time constant of the decay 1/√(1 + t/SETTLING) of steps on mini-batches."""
FEWEST_BATCHES, SHARE_OF_RUN = 5, 0.25
"""Length of a window of mini-batches whose mean loss is compared with earlier windows: at least so
many, and at least this share of all steps so far, so that a long run makes few comparisons."""
RISEN, FALLEN = 2.5, 1.0
"""Standard errors by which the mean loss of a window must have risen or fallen to count."""


@register(
    "auto",
    formula="the minimum of a parabola through f(x), its slope and f at the trial step",
    default_eta=1.0,
    memory={
        "log": nan,
        "scale": 1.0,
        "batches": 0.0,
        "mean": 0.0,
        "squares": 0.0,
        "last": nan,
        "lowest": nan,
        "lowest_variance": nan,
    },
    most_trials=TRIALS,
)
def auto(line: Line) -> Search:
    """Descent or rejection, by the value at the trial point; no curvature is probed.

    f(x), the slope −gᵀΔ/η by the estimate and f(x − Δ) determine a parabola, whose minimum is the
    next step size (as a running mean of logarithms over steps) or the next trial. A value that is
    not lower, or not finite, is rejected and a shorter step is tried; after the last trial x stays.
    The value at an accepted point is the f(x) of the next step, so an accepted step costs as many
    evaluations as a plain one. eta is a factor (1). Nocedal, Wright 2006, section 3.5; with noisy
    values Berahas, Cao, Scheinberg 2021.

    The best step on a mini-batch overfits that batch. If every step has another mini-batch, steps
    are shortened by 1/√(1 + t/10), unless there is a schedule (Robbins, Monro 1951), and scaled
    down while the losses of new mini-batches stay above their lowest level. The running mean is
    then taken of curvatures (1/η), so that a mini-batch without curvature along the line cannot
    make the next steps arbitrarily long.
    """
    memory = line.memory
    known = not isnan(memory["log"])
    eta = line.natural or (exp(memory["log"]) if known else line.first())
    factor = line.eta or 1.0
    if line.sees_batches:
        _watch_losses(line)
        factor *= memory["scale"] / sqrt(1 + line.t / SETTLING)
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
    """The minimum of the parabola through the trial; inf if it has none."""
    bend = value - line.value + eta * line.slope()
    if not isfinite(value) or line.slope() <= 0:
        return nan
    return eta * eta * line.slope() / (2 * bend) if bend > line.rounding else inf


def _remember(line: Line, best: float | None, reached: float, last: float, factor: float) -> None:
    """Update the running mean of log step sizes, without the factor, by the result."""
    memory = line.memory
    if best is None:
        memory["log"] = log(max(last / factor, LEAST))
        return
    taken = max(best / factor, LEAST)
    found = log(min(max(reached, taken / 10), 10 * taken) if isfinite(reached) else 2 * taken)
    before = memory["log"]
    if isnan(before):
        memory["log"] = found
    elif line.sees_batches:
        memory["log"] = -log((1 - SHARE) * exp(-before) + SHARE * exp(-found))
    else:
        memory["log"] = (1 - SHARE) * before + SHARE * found


def _watch_losses(line: Line) -> None:
    """Adapt the scale of steps to the trend of f(x) over mini-batches.

    f(x) on a new mini-batch is an unbiased value: that mini-batch did not choose the step to x.
    Windows of mini-batches are compared: a mean above the lowest that is not falling halves the
    scale, and a falling mean multiplies it by √2, up to 1.
    """
    if not isfinite(line.value):
        return
    memory = line.memory
    memory["batches"] += 1
    deviation = line.value - memory["mean"]
    memory["mean"] += deviation / memory["batches"]
    memory["squares"] += deviation * (line.value - memory["mean"])
    count, mean = memory["batches"], memory["mean"]
    if count < max(FEWEST_BATCHES, SHARE_OF_RUN * line.t):
        return
    variance = memory["squares"] / (count - 1) / count
    if not mean > memory["lowest"]:
        memory.update({"lowest": mean, "lowest_variance": variance})
    error = sqrt(variance + memory["lowest_variance"])
    if mean - memory["lowest"] > RISEN * error and mean >= memory["last"]:
        memory["scale"] /= 2
    if memory["last"] - mean > FALLEN * sqrt(2 * variance):
        memory["scale"] = min(1.0, sqrt(2) * memory["scale"])
    memory.update({"last": mean, "batches": 0.0, "mean": 0.0, "squares": 0.0})
