"""The keys of a study file and their types; collects all complaints at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from zotune.claims import Claim, Tuning
from zotune.claims.claim import Compare
from zotune.config import NAMED, Config, describe, parse_config
from zotune.core.grid import GRID_POINTS
from zotune.core.settings import PROBLEM, merged
from zotune.errors import ConfigError, ZotuneError, nearest, one_of
from zotune.objectives import PROBLEMS, build_any_problem
from zotune.registry import NAME
from zotune.study.points import Axis, Distribution, parse_axis
from zotune.study.studyfile import Complaint, Path_
from zotune.study.totals import with_race_budget

STUDY_FORMAT = 3
"""Format of study files; a file without a format is read as this one."""


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError(f"must be a number, got {value!r}")
    return value


Whole = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]


class FileMapping(BaseModel):
    """A mapping of a study file: known keys only, and no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Search(FileMapping):
    """How the points of the space are chosen."""

    algorithm: Literal["grid", "random", "optuna", "race"] = "grid"
    trials: Whole | None = Field(None, ge=1)
    """The total number of trials; determined by the lists for a grid or a race of lists."""
    auto: bool | None = None
    """Whether the automatic descent joins a race; None: if problem and total allow it."""


class Share(FileMapping):
    """Resources of one process."""

    cpu: Number = Field(1, ge=0)
    gpu: Number = Field(0, ge=0)


class Resources(Share):
    """Resources of one trial."""

    workers: Whole = Field(0, ge=0)
    """Default number of evaluation workers of a trial."""
    worker: Share = Field(default_factory=lambda: Share(cpu=1, gpu=0))
    """Resources of each worker."""


class StopKeys(FileMapping):
    """Stopping criteria for trials or the study, in addition to the budget."""

    loss: Number | None = None
    """A trial ends at a report with at most this loss."""
    plateau: Whole | None = Field(None, ge=1)
    """A trial ends after this many reports without a new best loss."""
    seconds: Number | None = Field(None, gt=0)
    """Maximum wall time of the study."""
    trial_seconds: Number | None = Field(None, gt=0)
    """Maximum wall time of a trial, checked at reports; it then ends as if its budget was spent."""


class Shape(FileMapping):
    """The keys of a study."""

    format: Whole = Field(STUDY_FORMAT, ge=1)
    name: str = Field(pattern=f"^{NAME.pattern}$")
    question: str = ""
    problem: dict[str, Any]
    budget: Whole = Field(ge=1)
    """Budget of each trial, per replicate."""
    total: Whole | None = Field(None, ge=1)
    """Total budget of all trials and replicates; None: no limit."""
    count: Literal["directions", "evaluations"] = "evaluations"
    replicates: Whole = Field(1, ge=1)
    replicates_as: Literal["rows", "trials"] = "rows"
    seed: Whole = 0
    space: Any = Field(default_factory=dict)
    """Settings that are searched: a mapping, or a list of mappings, each a space of its own."""
    fixed: dict[str, Any] = Field(default_factory=dict)
    search: Search = Field(default_factory=lambda: Search(trials=None))
    scheduler: Literal["none", "asha", "median", "pbt"] = "none"
    within: list[str] = Field(default_factory=list)
    """The scheduler compares only trials that have the same values of these settings."""
    resources: Resources = Field(default_factory=lambda: Resources(cpu=1, gpu=0, workers=0))
    stop: StopKeys = Field(
        default_factory=lambda: StopKeys(plateau=None, seconds=None, trial_seconds=None)
    )
    report_every: Whole | None = Field(None, ge=1)
    points: Whole = Field(GRID_POINTS, ge=2, le=GRID_POINTS)
    """Maximum number of points of each curve."""
    claims: list[Claim] = Field(default_factory=list)
    """The claims that the study tests."""
    tuning: Tuning | None = None
    """The setting that is tuned before claims are judged, and the number of replicates for it."""

    @model_validator(mode="before")
    @classmethod
    def _one_racer_may_have_it_all(cls, data: Any) -> Any:
        return with_race_budget(data)

    @field_validator("space")
    @classmethod
    def _space_is_a_mapping_or_several(cls, value: object) -> object:
        spaces = value if isinstance(value, list) else [value]
        if not spaces or not all(isinstance(one, Mapping) for one in spaces):
            raise ValueError(f"must be a mapping, or a list of mappings, got {value!r}")
        return value

    @property
    def spaces(self) -> list[dict[str, Any]]:
        """The spaces, one unless ``space`` is a list."""
        return self.space if isinstance(self.space, list) else [self.space]

    @property
    def searched(self) -> dict[str, Any]:
        """Every searched setting, with the values of all spaces."""
        return merged(self.space)

    @field_validator("problem", mode="before")
    @classmethod
    def _problem_is_a_mapping(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value


TOP = tuple(Shape.model_fields)
PARTS: dict[str, type[BaseModel]] = {
    "search": Search,
    "resources": Resources,
    "worker": Share,
    "stop": StopKeys,
    "tuning": Tuning,
    "claims": Claim,
    "compare": Compare,
}
STUDY_WIDE = [key for key in TOP if key in Config.model_fields and key != "problem"]
"""Settings that all trials of a study share."""
SETTINGS = [key for key in Config.model_fields if key not in (*STUDY_WIDE, "problem", "replicate")]
"""Settings that may be fixed or searched."""


def format_complaints(data: Mapping[str, Any]) -> Iterator[Complaint]:
    """A complaint if the format is newer than this version can read."""
    written = data.get("format")
    if isinstance(written, int) and not isinstance(written, bool) and written > STUDY_FORMAT:
        yield Complaint(
            ("format",),
            f"format must be at most {STUDY_FORMAT}, got {written}; "
            "the file was written for a later zotune, use that one",
        )


def shaped(data: Mapping[str, Any]) -> Shape | list[Complaint]:
    """The keys of a study; or complaints about unknown keys and wrong types."""
    try:
        return Shape(**data)
    except ValidationError as error:
        found = [(tuple(str(part) for part in p["loc"]), dict(p)) for p in error.errors()]
    return [
        Complaint(path[:4], claim_prefix(data, path) + _described(path, problem))
        for path, problem in found
    ]


def claim_prefix(data: Mapping[str, Any], path: Path_) -> str:
    """The claim that a complaint is about, by its name or else its number."""
    if path[0] != "claims" or len(path) < 2:
        return ""
    entry = data["claims"][int(path[1])]
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return f"claim {name or int(path[1]) + 1}: "


def _described(path: Path_, problem: dict[str, Any]) -> str:
    in_claim = path[0] == "claims" and len(path) > 1
    key, came = ".".join(path[2:] if in_claim else path), problem.get("input")
    match problem["type"]:
        case "value_error":
            return f"{key} {problem['ctx']['error']}".strip()
        case "missing" if in_claim:
            return f"{key} is missing; a claim needs name, says and what it compares"
        case "missing" if len(path) > 1:
            return f"{key} is missing"
        case "missing":
            return f"{key} is missing; a study needs name, problem and budget"
        case "extra_forbidden":
            return _not_a_key(path)
        case "literal_error":
            known = re.findall("'([^']*)'", problem["ctx"]["expected"])
            return _unknown_name(key, came, known)
        case "string_pattern_mismatch":
            return f"name must be letters, digits, '-', '_' and '.', for a folder; got {came!r}"
        case "dict_type" if path == ("problem",) and callable(came):
            return (
                "problem must be a name, got a function; register it with "
                "@zotune.objectives.register(name, formula=…), or minimise it with zotune.minimize"
            )
        case "string_type":
            quotes = "; put it in quotes" if isinstance(came, int | float) else ""
            return f"{key} must be text, got {came!r}{quotes}"
        case "model_type" | "dict_type":
            return f"{key} must be a mapping, got {came!r}".strip()
        case _:
            return describe(problem | {"loc": path[2:] if in_claim else path})


def _unknown_name(key: str, came: Any, known: list[str]) -> str:
    try:
        return one_of(key, came, known)
    except ConfigError as error:
        return str(error)


def _not_a_key(path: Path_) -> str:
    key = path[-1]
    if len(path) > 1:
        part = next((p for p in ("compare", "worker") if p in path[:-1]), path[0])
        known = list(PARTS[part].model_fields)
        named = "a claim" if part == "claims" else part
        return f"{key!r} is not a key of {named}{nearest(key, known)}; keys: {', '.join(known)}"
    if key in SETTINGS:
        return f"{key!r} is a setting of a trial; it belongs under fixed, or under space as a list"
    return f"{key!r} is not a key of a study{nearest(key, TOP)}; keys: {', '.join(TOP)}"


def problem_complaints(problem: Mapping[str, Any]) -> Iterator[Complaint]:
    """Unknown names and options; then the values, by checking or building a small instance."""
    if "name" not in problem:
        yield Complaint(("problem",), f"problem needs a name; known: {', '.join(PROBLEMS)}")
        return
    try:
        entry = PROBLEMS[problem["name"]]
    except ZotuneError as error:
        yield Complaint(("problem", "name"), str(error))
        return
    unknown = [key for key in problem if key != "name" and key not in entry.options]
    for key in unknown:
        yield Complaint(
            ("problem", key),
            f"problem {entry.name!r} has no option {key!r}{_place_of(str(key), entry.options)}",
        )
    if not unknown:
        yield from _instance_complaints(problem)


def _place_of(key: str, options: Iterable[str]) -> str:
    """Where a key belongs that is not an option of the problem; else the known options."""
    if key in TOP:
        return f", {key} is a key of the study: write it beside problem"
    if key in SETTINGS:
        return f", {key} is a setting: write it under fixed"
    return f"{nearest(key, options)}; it takes {', '.join(options)}"


def _instance_complaints(problem: Mapping[str, Any]) -> Iterator[Complaint]:
    try:
        if _is_usual(problem):
            return
        settings = PROBLEMS[problem["name"]].settings_of(problem)
        if settings is not None:
            settings.check()
        elif problem["name"] in PROBLEMS.plugins:
            build_any_problem(problem)
        else:
            build_any_problem({key: _small(value) for key, value in problem.items()})
    except Exception as error:  # problems of users may raise anything
        keys = [key for key in problem if f"problem.{key}" in str(error)]
        text = str(error) if isinstance(error, ZotuneError) else f"problem cannot be built: {error}"
        yield Complaint(("problem", *keys[:1]), text)


def _is_usual(problem: Mapping[str, Any]) -> bool:
    """Whether a built-in problem has default options except for dimension and seed.

    Such a problem is valid, and need not be built, which would import torch.
    """
    if problem["name"] in PROBLEMS.plugins:
        return False
    usual = PROBLEMS[problem["name"]].options
    least = {"dim": 1, "seed": 0}
    return all(
        (type(value) is int and value >= least[key]) if key in least else value == usual[key]
        for key, value in problem.items()
        if key != "name"
    )


def _small(value: Any) -> Any:
    """Sizes limited to 8: a small problem is built faster, and has the same errors."""
    return min(value, 8) if isinstance(value, int) and not isinstance(value, bool) else value


def entry_complaints(data: Mapping[str, Any]) -> Iterator[Complaint]:
    """Complaints about the keys and values of ``fixed`` and ``space``."""
    fixed, space = data.get("fixed", {}), data.get("space", {})
    problem = data.get("problem")
    sections: list[tuple[Path_, Any]] = [(("fixed",), fixed)]
    if isinstance(space, list):
        sections += [(("space", str(at)), one) for at, one in enumerate(space)]
    else:
        sections.append((("space",), space))
    for path, entries in sections:
        if not isinstance(entries, Mapping):
            continue
        for key, written in entries.items():
            for message in _entry(path[0], str(key), written, problem):
                yield Complaint((*path, str(key)), message)
            if path[0] == "space" and isinstance(fixed, Mapping) and key in fixed:
                yield Complaint((*path, key), f"{key} is both searched and fixed; keep one")


def _entry(section: str, key: str, written: Any, problem: Any) -> Iterator[str]:
    name = problem.get("name") if isinstance(problem, Mapping) else problem
    options = PROBLEMS[name].options if isinstance(name, str) and name in PROBLEMS else None
    searchable = [*SETTINGS, *(f"problem.{option}" for option in options or ())]
    if key in STUDY_WIDE or key == "problem":
        yield f"{key} holds for the whole study; it belongs at the top of the file"
    elif key == "replicate":
        yield "replicate is numbered by the study; say replicates: N at the top of the file"
    elif key.startswith(PROBLEM) and options is None:
        return
    elif key not in searchable:
        near = nearest(key, [*searchable, *TOP])
        yield f"{key!r} is not a setting{near}; settings: {', '.join(SETTINGS)}"
    else:
        yield from _value_complaints(section, key, written, problem)


def _value_complaints(section: str, key: str, written: Any, problem: Any) -> Iterator[str]:
    try:
        axis: Axis = parse_axis(key, written) if section == "space" else [written]
    except ConfigError as error:
        yield str(error)
        return
    if isinstance(axis, Distribution) and axis.kind != "choice" and key in NAMED:
        yield f"{key} is a name, which {axis.kind} cannot draw; use {{choice: […]}}"
        return
    if isinstance(axis, Distribution) and axis.kind in FRACTIONAL and _is_whole(key, problem):
        yield f"{key} is a whole number, which {axis.kind} cannot draw; use {FRACTIONAL[axis.kind]}"
        return
    for value in axis.ends if isinstance(axis, Distribution) else axis:
        try:
            checked(key, value, problem)
        except ConfigError as error:
            yield str(error)


FRACTIONAL = {"uniform": "randint", "loguniform": "lograndint"}
"""Distributions of real numbers, and the corresponding ones of integers."""


def _is_whole(key: str, problem: Any) -> bool:
    """Whether a setting takes whole numbers only."""
    if not key.startswith(PROBLEM):
        return key == "q" or Config.model_fields[key].annotation in (int, int | None)
    name = problem if isinstance(problem, str) else problem["name"]
    default = PROBLEMS[name].options[key.removeprefix(PROBLEM)]
    return isinstance(default, int) and not isinstance(default, bool)


def checked(key: str, value: Any, problem: Any) -> Any:
    """A setting's value after validation, as in a configuration."""
    if key.startswith(PROBLEM):
        mapping = {"name": problem} if isinstance(problem, str) else dict(problem)
        mapping[key.removeprefix(PROBLEM)] = value
        for complaint in problem_complaints(mapping):
            raise ConfigError(complaint.message)
        return value
    return getattr(parse_config({"budget": 1, key: value}), key)
