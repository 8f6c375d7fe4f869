"""Verdicts: what the final losses say of each claim, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import expm1, inf, isfinite

import numpy as np

from zotune.claims.claim import Claim, Tuning
from zotune.claims.comparing import Pair, label, pairs
from zotune.claims.runs import Field, Finals, Vector, fields
from zotune.claims.signflip import holm, interval, p_all_above, p_some_below, smallest_p
from zotune.errors import ConfigError

HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
ALPHA = 0.05
RATIO, DIFFERENCE = "ratio", "difference"
LARGEST_LOG = 700.0
MANIFOLD = 10.0
"""Shares from which on a person is told a multiple."""


@dataclass(frozen=True)
class Verdict:
    """What is known of one claim at one step size."""

    name: str
    says: str
    step: str
    """theory, tuned, or as run where a study without tuning has steps of its own."""
    verdict: str
    """holds, fails or undecided."""
    estimate: float | None
    """How far the one that is said to be higher ends above the other, in the pair that decides:
    a share of the other (0.2 is a fifth above, −0.2 a fifth below), or a plain difference."""
    low: float | None
    high: float | None
    """The 95 % interval of the estimate, for this pair alone."""
    p: float | None
    """Two-sided, adjusted by Holm over the study's claims at this step."""
    pairs: int
    """Paired replicates."""
    why: str
    unit: str = RATIO


@dataclass(frozen=True)
class _Evidence:
    """A claim's comparisons before its p-value is set beside the others'."""

    claim: Claim
    unit: str = RATIO
    differences: tuple[Vector, ...] = ()
    """Of each pair, higher − lower."""
    tolerances: tuple[float, ...] = ()
    """How far below 0 a difference may be, for each pair."""
    names: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    p_holds: float = 1.0
    p_fails: float = 1.0
    decides: int = 0
    """The pair that speaks most against the claim."""
    problem: str | None = None

    @property
    def p(self) -> float:
        return min(1.0, 2 * min(self.p_holds, self.p_fails))


def judge(
    claims: Iterable[Claim],
    runs: Iterable[Finals],
    tuning: Tuning | None = None,
    *,
    alpha: float = ALPHA,
) -> list[Verdict]:
    """A verdict for each claim: at the theory's step, and at tuned ones if the study tunes.

    A claim holds if every one of its comparisons is shown, and fails if the opposite of one is.
    Differences are paired over replicates, which share their draws. Where configurations do not
    differ at all, the chance of any verdict but undecided is at most ``alpha``, over all claims of
    the study at one step.

    >>> runs = [
    ...     Finals({"q": 1}, [2.0, 2.1, 2.2, 1.9, 2.0, 2.1]),
    ...     Finals({"q": 9}, [1.0, 1.1, 1.0, 0.9, 1.0, 1.2]),
    ... ]
    >>> claim = Claim(name="blocks", says="Blocks help.", not_rising="q")
    >>> [verdict] = judge([claim], runs)
    >>> verdict.verdict, verdict.p, verdict.pairs
    ('holds', 0.03125, 6)
    """
    stated, ended = list(claims), list(runs)
    judged = [_judge_field(stated, field, alpha) for field in fields(ended, tuning)]
    return [verdict for both in zip(*judged, strict=True) for verdict in both]


def not_judged(why: str) -> str:
    """A sentence in place of verdicts."""
    return f"The study's claims are not judged: {why}."


def _judge_field(claims: list[Claim], field: Field, alpha: float) -> list[Verdict]:
    evidence = [_evidence(claim, field) for claim in claims]
    adjusted = holm([found.p for found in evidence])
    return [_verdict(*each, field, alpha) for each in zip(evidence, adjusted, strict=True)]


def _evidence(claim: Claim, field: Field) -> _Evidence:
    points = field.points
    try:
        compared = pairs(claim, points)
    except ConfigError as error:
        return _Evidence(claim, problem=str(error))
    unit, values = _values(field.runs)
    if unit == DIFFERENCE and claim.within is not None:
        return _Evidence(claim, problem="losses are not all above 0, so a share has no meaning")
    differences = tuple(values[pair.higher] - values[pair.lower] for pair in compared)
    shifted = np.stack(
        [x + pair.tolerance for x, pair in zip(differences, compared, strict=True)], axis=1
    )
    scaled = shifted.sum(axis=0) / np.maximum(np.sqrt((shifted**2).sum(axis=0)), 1e-300)
    named = [label(point, points) for point in points]
    return _Evidence(
        claim,
        unit=unit,
        differences=differences,
        tolerances=tuple(pair.tolerance for pair in compared),
        names=tuple((named[pair.lower], named[pair.higher]) for pair in compared),
        remarks=tuple(_remark(pair, named, field) for pair in compared),
        p_holds=p_all_above(shifted),
        p_fails=p_some_below(shifted),
        decides=int(scaled.argmin()),
    )


def _values(runs: Sequence[Finals]) -> tuple[str, list[Vector]]:
    """Logarithms of losses above the minimum; the losses themselves where some are not above 0."""
    losses = [np.asarray(run.losses, np.float64) for run in runs]
    minima = [run.minimum for run in runs if run.minimum is not None]
    if len(minima) == len(runs):
        lowest = [np.finfo(np.float64).eps * max(abs(minimum), 1e-290) for minimum in minima]
        each = zip(losses, minima, lowest, strict=True)
        return RATIO, [np.log(np.maximum(x - minimum, least)) for x, minimum, least in each]
    if all((x > 0).all() for x in losses):
        return RATIO, [np.log(x) for x in losses]
    return DIFFERENCE, losses


def _remark(pair: Pair, named: list[str], field: Field) -> str:
    said = [f"{named[at]} at {field.remarks[at]}" for at in pair[:2] if at in field.remarks]
    return "; ".join(said)


def _verdict(found: _Evidence, p: float, field: Field, alpha: float) -> Verdict:
    claim, n = found.claim, len(field.runs[0].losses) if field.runs else 0
    if found.problem is not None:
        why = f"cannot be judged: {found.problem}"
        return Verdict(
            claim.name, claim.says, field.step, UNDECIDED, None, None, None, None, n, why
        )
    word = UNDECIDED if p > alpha else HOLDS if found.p_holds <= found.p_fails else FAILS
    at = found.decides
    x = found.differences[at]
    low, high = interval(x)
    estimate, low, high = (_shown(value, found.unit) for value in (float(x.mean()), low, high))
    return Verdict(
        name=claim.name,
        says=claim.says,
        step=field.step,
        verdict=word,
        estimate=_finite(estimate),
        low=_finite(low),
        high=_finite(high),
        p=p,
        pairs=n,
        why=_why(found, at, word, (estimate, low, high), n, p, alpha),
        unit=found.unit,
    )


def _shown(value: float, unit: str) -> float:
    """A difference of logarithms as a share."""
    if unit == DIFFERENCE or not isfinite(value):
        return -1.0 if unit == RATIO and value == -inf else value
    return expm1(min(value, LARGEST_LOG))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _why(
    found: _Evidence,
    at: int,
    word: str,
    shown: tuple[float, float, float],
    n: int,
    p: float,
    alpha: float,
) -> str:
    """One sentence: the pair that decides, how far apart it is, and what else must be known."""
    (lower, higher), (estimate, low, high) = found.names[at], shown
    side = "above" if estimate >= 0 else "below"
    amount = f"{_amount(abs(estimate), found.unit)} {side}"
    if found.unit == RATIO and estimate > MANIFOLD:
        amount = f"at {1 + estimate:.3g} times"
    ends = f"{_amount(low, found.unit)} to {_amount(high, found.unit)}"
    text = f"{higher} ends {amount} {lower} (95 % interval {ends})"
    if len(found.differences) > 1:
        text += f", the one of {len(found.differences)} comparisons that decides"
    if found.claim.within is not None:
        text += f", where {_amount(found.claim.within, found.unit)} is allowed"
    if word == UNDECIDED:
        so = int((found.differences[at] > -found.tolerances[at]).sum())
        text += f"; as claimed in {so} of {n} replicates"
    if word == UNDECIDED and smallest_p(n) > alpha:
        text += ", too few to decide anything"
    if found.remarks[at]:
        text += f"; {found.remarks[at]}"
    return text + "."


def _amount(value: float, unit: str) -> str:
    if unit == DIFFERENCE or not isfinite(value):
        return f"{value:.3g}"
    if value > MANIFOLD:
        return f"{1 + value:.3g} times"
    return f"{100 * value:.2g} %" if abs(value) < 0.1 else f"{100 * value:.0f} %"
