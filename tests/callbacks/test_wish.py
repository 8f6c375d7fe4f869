"""Workers know whether their driver wants curve points."""

from __future__ import annotations

import ray

from zotune.callbacks.wish import ask_for_curves, curves_wanted, stop_asking


def test_workers_know_whether_curves_are_wanted(shared_ray: None) -> None:
    ask = ray.remote(curves_wanted)
    ask_for_curves()
    assert ray.get(ask.remote())
    stop_asking()
    assert not ray.get(ask.remote())
    assert not curves_wanted()
