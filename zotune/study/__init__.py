"""Studies: a question, a problem, a budget and a space, run by Ray Tune.

``studyfile``, ``shape``, ``points`` and ``checks`` read a file with its lines and ``--set``, say
what keys may hold, make the points of a space, and find out whether the whole can be run.
``model`` is the study, ``smoke`` its small version, ``tuning`` what Tune is told. ``launch``,
``running`` and ``quiet`` keep launch folders, run and resume them, and silence Ray. ``live``,
``summary``, ``verdicts`` and ``command`` show it while it runs and at its end.
"""

from zotune.study.model import Study, load_study

__all__ = ["Study", "load_study"]
