"""The defaults at the start of a launch, so that later changes of defaults do not affect it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zotune.config import Config
from zotune.core.budget import DIRECTIONS
from zotune.core.settings import PROBLEM, merged, place
from zotune.objectives import PROBLEMS
from zotune.runs.old_defaults import CHOICES_2, DEFAULTS_1, FREE_2, PROBLEM_DEFAULTS_1
from zotune.study.shape import STUDY_FORMAT, STUDY_WIDE

LAUNCH_FORMAT = 3
"""Format of launch.json; launches of the oldest version have none."""
BEFORE_CHOICES = 2
"""The last format of study files in which giving one setting fixed the defaults of the others."""


def defaults_of(problem: str) -> dict[str, Any]:
    """Defaults of all settings, and of all options of the problem that JSON can represent."""
    fields = {k: field for k, field in Config.model_fields.items() if not field.is_required()}
    settings = {key: field.default for key, field in fields.items() if key != "problem"}
    options = PROBLEMS[problem].defaults if problem in PROBLEMS else {}
    return settings | {PROBLEM + key: value for key, value in options.items()}


def saved_defaults(record: Mapping[str, Any], problem: str) -> dict[str, Any]:
    """The defaults in a launch's record, or those of format 1; empty without a record."""
    if not record or "format" in record:
        return dict(record.get("defaults", {}))
    options = PROBLEM_DEFAULTS_1.get(problem, {})
    return {**DEFAULTS_1, **{PROBLEM + key: value for key, value in options.items()}}


def completed(data: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """A launch's study with its original defaults filled in, where these have changed since."""
    given = data.get("problem")
    problem = given if isinstance(given, Mapping) else {"name": given}
    name = str(problem.get("name"))
    fixed, space = data.get("fixed") or {}, merged(data.get("space"))
    told = {*data, *fixed, *space, *(PROBLEM + option for option in problem)}
    now = json.loads(json.dumps(defaults_of(name)))
    saved = saved_defaults(record, name)
    if data.get("format") == BEFORE_CHOICES:  # of_today converts these
        saved = {key: value for key, value in saved.items() if key not in (*CHOICES_2, "count")}
    missing = [key for key in saved if key in now and key not in told]
    changed = {key: saved[key] for key in missing if saved[key] != now[key]}
    if not changed:
        return dict(data)
    wide = {k: v for k, v in changed.items() if k in STUDY_WIDE or k.startswith(PROBLEM)}
    rest = {key: value for key, value in changed.items() if key not in wide}
    return place({**data, "problem": problem, "fixed": {**fixed, **rest}}, wide)


def of_today(data: Mapping[str, Any]) -> dict[str, Any]:
    """A study of an older format, with the defaults of that format filled in."""
    written = data.get("format")
    fixed, space = data.get("fixed") or {}, data.get("space") or {}
    older = isinstance(written, int) and written <= BEFORE_CHOICES and not isinstance(written, bool)
    if not older or not isinstance(fixed, Mapping) or not isinstance(space, Mapping):
        return dict(data)
    told = {key for key in (*fixed, *space) if not str(key).startswith(PROBLEM)}
    chosen = written == BEFORE_CHOICES and not told - FREE_2
    then = {} if chosen else {key: v for key, v in CHOICES_2.items() if key not in told}
    return {"count": DIRECTIONS, **data, "format": STUDY_FORMAT, "fixed": {**fixed, **then}}
