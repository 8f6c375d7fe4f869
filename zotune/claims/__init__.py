"""Claims of a study as data, and verdicts on them with their uncertainty.

``claim`` defines the claims of a study file, ``comparing`` turns them into pairs of configurations,
``runs`` extracts comparable values from runs, ``fields`` chooses those at one step size,
``refining`` says which steps must be tried before, ``measures`` has the exact tests of paired
differences for means (``signflip``) and medians (``signtest``), and ``judging`` computes a verdict
on every claim. Nothing here depends on Ray or MLflow: a run is its configuration and the final
losses of its replicates.
"""

from zotune.claims.claim import Claim, Tuning
from zotune.claims.deciding import undecidable
from zotune.claims.fields import AS_RUN, THEORY, TUNED
from zotune.claims.judging import Verdict, assumptions, judge, not_judged
from zotune.claims.refining import refinement
from zotune.claims.runs import Finals
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
    "refinement",
    "undecidable",
]
