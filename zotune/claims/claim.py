"""What a study may claim, and how its step is tuned before it is judged."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from zotune.errors import ConfigError

SMALLEST, LARGEST = "smallest", "largest"
"""Words for values: the least and the greatest of those that were run."""
MEAN: Literal["mean"] = "mean"
MEDIAN: Literal["median"] = "median"
"""What of the final losses is compared."""
KINDS = ("compare", "best", "not_falling", "not_rising", "over")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Compare(_Part):
    """Two configurations, and which of them is said to end lower."""

    lower: dict[str, Any]
    higher: dict[str, Any]


class Claim(_Part):
    """One statement about final losses; exactly one of its five kinds.

    ``compare``: the one configuration ends lower than the other. ``best``: these values end lower
    than all others. ``not_falling`` and ``not_rising``: from each value of a setting to the next
    one, the loss does not fall, or rise. ``over`` with ``within``: any two values of a setting end
    within this share of each other. ``within`` is a tolerance for the others too.

    Shares are of the loss above its known minimum; of the loss itself where none is known. They
    compare means of its logarithm over replicates, or medians with ``measure: median``. With
    ``across: problem.seed`` the instances of the problem are what is paired and counted, and each
    instance's replicates are brought to one number first.

    >>> Claim(name="a", says="…", best={"q": 1}, where={"estimator": "avg"}).kind
    'best'
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    says: str
    where: dict[str, Any] = Field(default_factory=dict)
    """Settings of all configurations that the claim is about."""
    compare: Compare | None = None
    best: dict[str, Any] | None = Field(None, min_length=1)
    not_falling: str | None = None
    not_rising: str | None = None
    over: str | None = None
    within: float | None = Field(None, gt=0)
    measure: Literal["mean", "median"] = MEAN
    across: str | None = None
    """An option of the problem whose values are the units of replication; None: replicates are."""

    @model_validator(mode="after")
    def _has_one_kind(self) -> Claim:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ConfigError(f"a claim has exactly one of {', '.join(KINDS)}; got {found}")
        if self.over is not None and self.within is None:
            raise ConfigError("a claim over a setting needs within, the largest share allowed")
        if self.compare is not None and self.within is not None:
            raise ConfigError("compare takes no within; say not_rising, or best, with a tolerance")
        return self

    @property
    def kind(self) -> str:
        """Which of the five it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)


class Tuning(_Part):
    """Which setting is chosen anew for every configuration, by rows that do not judge.

    The first ``replicates`` rows of each run choose, by the measure that the claim is judged by;
    the others judge. For a claim ``across`` instances the first so many instances choose.
    """

    over: str
    replicates: int = Field(ge=1)
    theory: float | dict[str, float] | None = None
    """The value that stands for the theory's own, or one for each estimator; None: there is none"""
