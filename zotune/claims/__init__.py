"""Claims of a study as data, and verdicts on them with their uncertainty.

``claim`` is what a study file may say, ``comparing`` turns it into pairs of configurations,
``runs`` makes values of the runs that can be compared, ``measures`` holds the exact tests of paired
differences about means (``signflip``) and medians (``signtest``), and ``judging`` puts a verdict on
every claim. No Ray and no MLflow: a run is its configuration and the final losses of its
replicates.
"""

from zotune.claims.claim import Claim, Tuning
from zotune.claims.judging import Verdict, assumptions, judge, not_judged
from zotune.claims.runs import AS_RUN, THEORY, TUNED, Finals
from zotune.claims.words import FAILS, HOLDS, UNDECIDED

__all__ = [
    "AS_RUN",
    "FAILS",
    "HOLDS",
    "THEORY",
    "TUNED",
    "UNDECIDED",
    "Claim",
    "Finals",
    "Tuning",
    "Verdict",
    "assumptions",
    "judge",
    "not_judged",
]
