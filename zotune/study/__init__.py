"""Studies: a question, a problem, a budget and a space, run by Ray Tune.

``model`` is the study. ``studyfile`` reads its file with the lines of all entries, and ``--set``;
``shape`` says what keys may hold, ``points`` makes the points of a space, ``checks`` and
``claim_checks`` find out whether the whole can be run, ``smoke`` makes it small, ``scaffold``
writes a new one. ``tuning``, ``searching`` and ``scheduling`` tell Tune what to do; ``totals``,
``reserving`` and ``spending`` keep a total, ``racing`` and ``race`` share it out, ``breeding`` is
population-based training. ``launch`` keeps launch folders, ``running`` runs and resumes them,
``carrying`` goes on from earlier ones, ``quiet`` silences Ray. ``snapshot``, ``progress`` and
``live`` show trials while they run.
"""

from zotune.study.model import Study, load_study

__all__ = ["Study", "load_study"]
