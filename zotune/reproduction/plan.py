"""Which experiments the paper is reproduced by, at which size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zotune.claims.deciding import fewest
from zotune.errors import ConfigError, one_of, unknown
from zotune.study import Study, load_study

SMALL, FULL = "small", "full"
MEASUREMENTS = "measurements"
POINTS = 80
"""Of a curve at the small size; a store takes longer over 320 than a small trial."""
INSTANCE = "problem.seed"
CHOOSING, REPLICATES = 3, 2
"""Instances that choose a step, and runs of each configuration on each instance."""


@dataclass(frozen=True)
class Experiment:
    """A study, and what makes it small."""

    study: str
    shrink: tuple[str, ...] = ()
    """Settings of the small size: mostly a tenth of the dimension, of the blocks and of the budget.

    Trials of a second report seldom: a report and its checkpoint would cost more than they save.
    """
    beyond: bool = False
    """Whether it asks what the paper does not, and runs only where it is named."""

    @property
    def follows_instances(self) -> bool:
        """Whether the number of instances is given from outside, not by the study itself."""
        return INSTANCE not in load_study(self.study).searched

    def at(self, size: str, instances: int = 0) -> Study:
        """The study at a size, maybe over instances; only the paper's own keeps the plain name."""
        settings = [*self.shrink, f"points={POINTS}", f"name={self.study}-{SMALL}"]
        study = load_study(self.study, settings=[] if size == FULL else settings)
        return over_instances(study, instances) if instances else study


TENTH = ("problem.dim=100", "budget=2000", "space.q=[1,10,50,100]", "report_every=500")
FIFTH = ("problem.dim=200", "budget=4000", "space.q=[1,10,50,200]", "report_every=1000")
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
    Experiment("updates", FIFTH, beyond=True),
    Experiment("updates-convex", (*FIFTH, "problem.samples=200"), beyond=True),
    Experiment("updates-nonconvex", FIFTH, beyond=True),
    Experiment("updates-stochastic", (*FIFTH, "problem.samples=1000"), beyond=True),
    Experiment("updates-tuned", FIFTH, beyond=True),
    Experiment("updates-convex-tuned", (*FIFTH, "problem.samples=200"), beyond=True),
    Experiment("updates-nonconvex-tuned", FIFTH, beyond=True),
    Experiment("updates-stochastic-tuned", (*FIFTH, "problem.samples=1000"), beyond=True),
)


def over_instances(study: Study, instances: int) -> Study:
    """A study whose claims are judged over so many instances of its problem.

    Where a step is tuned, further instances choose it, which do not judge. A study that searches
    the instance already is left as it is.
    """
    if INSTANCE in study.searched:
        return study
    written = study.to_dict()
    tuning, choosing = written.get("tuning"), 0
    if tuning:
        choosing = min(CHOOSING, tuning["replicates"])
        written["tuning"] = {**tuning, "replicates": choosing}
    seeds = list(range(choosing + instances))
    claims = [{**claim, "across": INSTANCE} for claim in written["claims"]]
    return Study.from_dict(
        written
        | {"name": f"{study.name}-instances", "replicates": REPLICATES, "claims": claims}
        | {"space": _with_instances(study, seeds)}
    )


def _with_instances(study: Study, seeds: list[int]) -> Any:
    """The space of a study, or each of its spaces, over instances of its problem."""
    spaces = [{INSTANCE: seeds, **space} for space in study.spaces]
    return spaces if isinstance(study.space, list) else spaces[0]


def chosen(size: str, only: Sequence[str] = (), instances: int = 0) -> list[Study]:
    """The studies to run, in order; all of the paper's unless some are named."""
    one_of("size", size, (SMALL, FULL))
    named = {experiment_of(name) for name in only}
    wanted = [e for e in EXPERIMENTS if e.study in named or not (only or e.beyond)]
    if instances:
        _require_instances(instances, wanted)
    return [e.at(size, instances) for e in wanted]


def _require_instances(instances: int, experiments: Sequence[Experiment]) -> None:
    """Raise an error if so many instances cannot decide the claims of some experiment."""
    claims = {e.study: e.at(SMALL).claims for e in experiments if e.follows_instances}
    needed = {study: fewest(some) for study, some in claims.items()}
    short = {study: n for study, n in needed.items() if n > instances}
    if short:
        hardest = max(short, key=lambda study: short[study])
        raise ConfigError(
            f"instances must be at least {short[hardest]} to decide the {len(claims[hardest])} "
            f"claims of {hardest}, got {instances}; raise --instances, or leave it out"
        )


def experiment_of(name: str) -> str:
    """The experiment that somebody means by a name: a tuned study asks the plain one's claims, too.

    >>> experiment_of("bias"), experiment_of("strongly-convex"), experiment_of("convex-500")
    ('bias', 'strongly-convex-tuned', 'convex-tuned-500')
    """
    known = [*(experiment.study for experiment in EXPERIMENTS), MEASUREMENTS]
    tuned = f"{name.removesuffix('-500')}-tuned" + ("-500" if name.endswith("-500") else "")
    for candidate in (name, tuned):
        if candidate in known:
            return candidate
    raise unknown("experiment", name, known)
