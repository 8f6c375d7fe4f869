"""Studies: a question, a problem, a budget and a search space, run by Ray Tune.

- The study: ``model`` (the class), ``studyfile`` (reading YAML with line numbers, ``--set``),
  ``shape`` (keys and types), ``points`` (grids and samplers), ``checks`` and ``claim_checks``
  (validation), ``smoke`` (a small version), ``scaffold`` (``zotune init``).
- Ray Tune: ``tuning`` (the Tuner), ``searching`` (Optuna), ``scheduling`` (early stopping),
  ``totals``, ``reserving`` and ``spending`` (a total budget of all trials), ``racing`` and ``race``
  (successive halving), ``breeding`` (population-based training).
- Launches: ``launch`` (folders), ``running`` (run and resume), ``chronicle`` and ``past`` (what is
  recorded of trials), ``recalling`` (trials of a resumed launch), ``carrying`` (continue an earlier
  launch with a larger budget), ``quiet`` (Ray without noise).
- Display: ``snapshot``, ``progress`` and ``live``.
"""

from zotune.study.model import Study, load_study

__all__ = ["Study", "load_study"]
