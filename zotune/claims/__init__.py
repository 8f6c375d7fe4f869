"""Claims of a study as data, and verdicts on them with their uncertainty.

``claim`` is what a study file may say, ``comparing`` turns it into pairs of configurations,
``signflip`` tests paired differences exactly, and ``judging`` puts a verdict on every claim. No
Ray and no MLflow: a run is its configuration and the final losses of its replicates.
"""

from zotune.claims.claim import Claim, Tuning
from zotune.claims.judging import FAILS, HOLDS, UNDECIDED, Verdict, judge, not_judged
from zotune.claims.runs import AS_RUN, THEORY, TUNED, Finals

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
    "judge",
    "not_judged",
]
