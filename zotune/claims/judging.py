"""Verdicts on claims, with p-values and confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from zotune.claims.claim import MEAN, Claim, Tuning
from zotune.claims.evidence import Evidence, evidence_of
from zotune.claims.fields import Field, fields
from zotune.claims.measures import ALPHA, MEASURES, RATIO
from zotune.claims.outliers import outliers
from zotune.claims.runs import Finals
from zotune.claims.signflip import holm
from zotune.claims.words import FAILS, HOLDS, UNDECIDED, as_share, why


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim at one step size."""

    name: str
    says: str
    step: str
    """``theory``, ``tuned``, or ``as run`` if the study has no tuning."""
    verdict: str
    """holds, fails or undecided."""
    estimate: float | None
    """In the deciding pair, how far the loss claimed to be higher is above the other one: relative
    (0.2 is a fifth above, −0.2 a fifth below), or a plain difference."""
    low: float | None
    high: float | None
    """The 95 % confidence interval of the estimate, for this pair only."""
    p: float | None
    """The two-sided p-value, Holm-adjusted over the study's claims at this step."""
    pairs: int
    """Number of paired replicates, or of instances of the problem."""
    why: str
    unit: str = RATIO
    measure: str = MEAN
    """``mean`` (sign-flip test) or ``median`` (sign test); of logarithms if unit is ratio. If runs
    have diverged it is ``median``, whatever the claim says."""
    across: str | None = None
    """The option of the problem whose values were paired; None: replicates were paired."""
    tuning_cost: int | None = None
    """Budget of the runs that tuning did not choose, in the unit of ``count``; None if the step was
    not tuned."""
    outliers: tuple[str, ...] = ()
    """Pairs whose difference is an outlier in the comparison that decides: ``replicate 3``."""
    diverged: tuple[int, int] = (0, 0)
    """In the deciding pair, the number of replicates or instances that diverged: of the
    configuration claimed to be lower, and of the other."""
    means: tuple[float, float] | None = None
    """Arithmetic means of the two, in the same order: what figures show; the estimate compares
    geometric means. None if there is no ratio, or if a run has diverged."""


def judge(
    claims: Iterable[Claim],
    runs: Iterable[Finals],
    tuning: Tuning | None = None,
) -> list[Verdict]:
    """A verdict for each claim: at the theory's step, and at tuned ones if the study tunes.

    A claim holds if all of its comparisons are significant, and fails if the opposite of one is.
    Differences are paired over replicates, which share their random directions, or over instances
    of the problem. If configurations do not differ, the probability of any verdict other than
    undecided is at most ``ALPHA``, over all claims of the study at one step. Tests of means assume
    symmetric differences; tests of medians do not. A run that has diverged is worse than all that
    have not, and a claim with one is judged by the sign test.

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
    known: dict[tuple[str, str | None], list[Field]] = {}
    for claim in stated:
        kind = (claim.measure, claim.across)
        if kind not in known:
            known[kind] = fields(ended, tuning, MEASURES[claim.measure], claim.across)
    found = [known[claim.measure, claim.across] for claim in stated]
    judged = [_judge_step(stated, step) for step in zip(*found, strict=True)]
    return [verdict for both in zip(*judged, strict=True) for verdict in both]


def not_judged(why: str) -> str:
    """A sentence in place of verdicts."""
    return f"The study's claims are not judged: {why}."


def assumptions(verdicts: Iterable[Verdict]) -> str:
    """A sentence on the tests behind verdicts, and their assumptions."""
    used = {verdict.measure for verdict in verdicts}
    tests = [
        f"{MEASURES[name].test}, which assumes {MEASURES[name].assumes}"
        for name in MEASURES
        if name in used
    ]
    return f"p by {'; of medians by '.join(tests)}. Adjusted by Holm over the claims at one step."


def _judge_step(claims: list[Claim], at: Sequence[Field]) -> list[Verdict]:
    """Verdicts on all claims at one step, each on the field of its own measure."""
    evidence = [evidence_of(claim, field) for claim, field in zip(claims, at, strict=True)]
    adjusted = holm([found.p for found in evidence])
    return [_verdict(*each) for each in zip(evidence, adjusted, at, strict=True)]


def _verdict(found: Evidence, p: float, field: Field) -> Verdict:
    claim = found.claim
    unjudged = Verdict(
        name=claim.name,
        says=claim.says,
        step=field.step,
        verdict=UNDECIDED,
        estimate=None,
        low=None,
        high=None,
        p=None,
        pairs=len(field.units),
        why=f"cannot be judged: {found.problem}",
        measure=claim.measure,
        across=claim.across,
        tuning_cost=field.tuning_cost,
    )
    if found.problem is not None:
        return unjudged
    word = UNDECIDED if p > ALPHA else HOLDS if found.p_holds <= found.p_fails else FAILS
    decides, measure = found.deciding, MEASURES[found.measure]
    x = decides.differences
    limits = (measure.centre(x), *measure.interval(x))
    shown = [as_share(v, found.unit) if isfinite(v) else v for v in limits]
    estimate, low, high = (value if isfinite(value) else None for value in shown)
    odd = () if found.is_censored else tuple(field.units[place] for place in outliers(x))
    return replace(
        unjudged,
        verdict=word,
        estimate=estimate,
        low=low,
        high=high,
        p=p,
        why=why(found, word, shown, odd, field.tuning_cost),
        unit=found.unit,
        measure=found.measure,
        outliers=odd,
        diverged=decides.diverged,
        means=decides.means if claim.across is None else None,
    )
