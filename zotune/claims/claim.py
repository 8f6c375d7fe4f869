"""The claims of a study file, and the tuning of a setting before claims are judged."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from zotune.errors import ConfigError

SMALLEST, LARGEST = "smallest", "largest"
"""Words for values: the smallest and the largest of those that were run."""
MEAN: Literal["mean"] = "mean"
MEDIAN: Literal["median"] = "median"
"""The centre of the final losses that is compared."""
KINDS = ("compare", "best", "not_falling", "not_rising", "over")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Compare(_Part):
    """Two configurations, one of which is claimed to have the lower final loss."""

    lower: dict[str, Any]
    higher: dict[str, Any]


class Claim(_Part):
    """One statement about final losses, of exactly one of five kinds.

    - ``compare``: one configuration has a lower final loss than another.
    - ``best``: these values of settings have lower final losses than all others.
    - ``not_falling`` and ``not_rising``: from each value of a setting to the next, the final loss
      does not decrease, or increase.
    - ``over`` with ``within``: the final losses of any two values of a setting differ by at most
      this share.

    ``within`` is a tolerance for the other kinds, too. Shares are relative to the loss above its
    minimum if that is known, else to the loss itself. They compare means of logarithms over
    replicates, or medians with ``measure: median``. With ``across: problem.seed``, instances of the
    problem are paired instead, after the replicates of each have been reduced to one number.

    >>> Claim(name="a", says="…", best={"q": 1}, where={"estimator": "avg"}).kind
    'best'
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    says: str
    where: dict[str, Any] = Field(default_factory=dict)
    """Settings that select the configurations of the claim."""
    compare: Compare | None = None
    best: dict[str, Any] | None = Field(None, min_length=1)
    not_falling: str | None = None
    not_rising: str | None = None
    over: str | None = None
    within: float | None = Field(None, gt=0)
    measure: Literal["mean", "median"] = MEAN
    across: str | None = None
    """The option of the problem whose values are paired; None: replicates are paired."""

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
        """Its kind, one of the five."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)


class Tuning(_Part):
    """A setting that is tuned for every configuration, on replicates that are not used to judge.

    The first ``replicates`` replicates of each run choose the value, by the measure of the claim;
    the others judge. For a claim ``across`` instances, the first instances choose.
    """

    over: str
    replicates: int = Field(ge=1)
    theory: float | dict[str, float] | None = None
    """The value that is the theory's, or one for each estimator; None: there is none."""
    refine: bool = True
    """Whether values are added beside the best one of a grid, where a neighbour ends higher."""
