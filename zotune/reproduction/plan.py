"""Which experiments the paper is reproduced by, at which size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zotune.errors import one_of, unknown
from zotune.study import Study, load_study

SMALL, FULL = "small", "full"
MEASUREMENTS = "measurements"
POINTS = 80
"""Of a curve at the small size; a store takes longer over 320 than a small trial."""


@dataclass(frozen=True)
class Experiment:
    """A study, and what makes it small."""

    study: str
    shrink: tuple[str, ...] = ()
    """Settings of the small size: mostly a tenth of the dimension, of the blocks and of the budget.

    Trials of a second report seldom: a report and its checkpoint would cost more than they save.
    """

    def at(self, size: str) -> Study:
        """The study at a size; the small one has a name of its own."""
        if size == FULL:
            return load_study(self.study)
        settings = [*self.shrink, f"points={POINTS}", f"name={self.study}-{SMALL}"]
        return load_study(self.study, settings=settings)


TENTH = ("problem.dim=100", "budget=2000", "space.q=[1,10,50,100]", "report_every=500")
FIFTH_500 = (
    "problem.dim=200",
    "budget=100",
    "space.q=[1,10,100]",
    "replicates=31",
    "report_every=50",
)
"""Less than a tenth of the small budget is decided by chance; more replicates judge, as well."""
THEOREM = "tuning.theory={avg: 0.0022, align: 0.23}"
"""The largest first steps that the stochastic theorems allow at d = 100."""

EXPERIMENTS = (
    Experiment("strongly-convex-tuned", (*TENTH, "replicates=31")),
    Experiment("strongly-convex-tuned-500", FIFTH_500),
    Experiment("convex-tuned", (*TENTH, "problem.samples=100")),
    Experiment("convex-tuned-500", (*FIFTH_500, "problem.samples=200")),
    Experiment("nonconvex-tuned", TENTH),
    Experiment("nonconvex-tuned-500", FIFTH_500),
    Experiment(
        "stochastic-tuned",
        (
            *TENTH,
            "problem.samples=500",
            "space.eta=[0.0022,0.01,0.03,0.1,0.23,0.3,1,3,10,30,100]",
            THEOREM,
        ),
    ),
    Experiment(
        "stochastic-tuned-500",
        (
            *FIFTH_500,
            "problem.samples=1000",
            "space.eta=[0.0007,0.003,0.01,0.03,0.1,0.14,0.3,1,3,10,30]",
            "tuning.theory={avg: 0.0007, align: 0.14}",
        ),
    ),
    Experiment("well-conditioned", ("report_every=1280",)),
    Experiment("evaluations", ("report_every=1000",)),
    Experiment("directions", ("space.eta=[0.5,1,2,4,6]", "report_every=1280")),
    Experiment("bias"),
)


def chosen(size: str, only: Sequence[str] = ()) -> list[Study]:
    """The studies to run, in order; all of them unless some are named."""
    one_of("size", size, (SMALL, FULL))
    known = [experiment.study for experiment in EXPERIMENTS]
    for name in only:
        if name not in (*known, MEASUREMENTS):
            raise unknown("experiment", name, [*known, MEASUREMENTS])
    return [e.at(size) for e in EXPERIMENTS if not only or e.study in only]
