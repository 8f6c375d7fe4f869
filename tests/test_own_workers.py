"""Tune's workers in a Ray of our own: started by one process each, with all the variables."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from ray.tune.execution import class_cache

from tests.study.small import SMALL, invoke
from zotune.clusters import own_workers
from zotune.clusters.own_workers import GIVEN, environment_shared, inherited

TELLING = """
import json
import os
from pathlib import Path

import ray
import zotune
from zotune import objectives


@objectives.register("telling", formula="‖x‖²")
def telling(place: str = "") -> zotune.Objective:
    "A bowl that writes down where its trial runs."
    if ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE:
        own = dict(ray.get_runtime_context().runtime_env)
        facts = {"own": own, "variable": os.environ.get("PL_DISABLE_FORK")}
        Path(place).write_text(json.dumps(facts))
    return zotune.objective(lambda x: (x**2).sum(), 12, L=2.0, optimum=0.0)
"""
TAKEN = "RAY_CHDIR_TO_TRIAL_DIR"


@pytest.mark.usefixtures("shared_ray")
def test_a_trial_has_no_environment_of_its_own_and_the_variables_all_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "telling.py").write_text(TELLING, encoding="utf-8")
    problem = {"name": "telling", "place": str(tmp_path / "facts")}
    study = tmp_path / "mine.yaml"
    study.write_text(json.dumps(SMALL | {"problem": problem, "space": {"q": [2]}}))
    try:
        told = ["--import", tmp_path / "telling.py", "--storage", tmp_path / "results"]
        done = invoke("run", study, *told, "--no-report")
    finally:
        sys.modules.pop("telling", None)
        sys.path[:] = [place for place in sys.path if place != str(tmp_path)]
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "facts").read_text()) == {"own": {}, "variable": "1"}


def test_tune_still_has_what_it_gives_to_workers() -> None:
    assert class_cache.DEFAULT_ENV_VARS == GIVEN
    assert TAKEN in class_cache.ENV_VARS_TO_PROPAGATE


def test_what_has_changed_since_our_ray_was_started_is_given_by_tune(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(TAKEN, raising=False)
    before = (class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE)
    with inherited():
        assert os.environ["PL_DISABLE_FORK"] == "1"
        with environment_shared():
            assert not class_cache.DEFAULT_ENV_VARS
            assert not class_cache.ENV_VARS_TO_PROPAGATE
        monkeypatch.setenv(TAKEN, "0")
        with environment_shared():
            assert {*class_cache.ENV_VARS_TO_PROPAGATE} == {TAKEN}
    after = (class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE)
    assert after == before


def test_a_ray_that_is_not_ours_gets_everything_from_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_workers, "_started_with", None)
    before = class_cache.ENV_VARS_TO_PROPAGATE
    with environment_shared():
        assert class_cache.DEFAULT_ENV_VARS == GIVEN
        assert class_cache.ENV_VARS_TO_PROPAGATE is before
