"""Workers know whether their experiment's driver wants curve points."""

from __future__ import annotations

import ray

from zotune.tune.curve_requests import ask_for_curves, curves_wanted, stop_asking


def test_workers_know_whether_their_experiment_wants_curves(shared_ray: None) -> None:
    ask = ray.remote(curves_wanted)
    ask_for_curves("mine")
    assert ray.get([ask.remote("mine"), ask.remote("yours")]) == [True, False]
    stop_asking("mine")
    assert not ray.get(ask.remote("mine"))
    assert not curves_wanted("mine")
