"""Trials that a machine cannot hold are refused before Ray is started."""

from __future__ import annotations

import pytest

from zotune.study import capacity
from zotune.study.launch import LaunchError
from zotune.study.shape import Resources


def test_a_trial_fits_where_one_machine_has_all_of_a_kind() -> None:
    machines = [{"CPU": 2.0}, {"CPU": 8.0, "GPU": 1.0}]
    assert capacity.too_large(Resources(cpu=8, gpu=0.5), machines) == ""
    assert capacity.too_large(Resources(cpu=9, gpu=0), machines) == (
        "a trial wants 9 CPU, and the largest machine has 8; lower resources.cpu"
    )
    assert "wants 1 GPU, and the largest machine has 0" in capacity.too_large(
        Resources(gpu=1), [{"CPU": 1.0}]
    )


def test_this_machine_is_what_ray_would_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 3, "GPU": 1}')
    capacity.require_capacity_here(Resources(cpu=3, gpu=1))
    with pytest.raises(LaunchError, match="wants 2 GPU, and the largest machine has 1"):
        capacity.require_capacity_here(Resources(gpu=2))
