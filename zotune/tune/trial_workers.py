"""Evaluation workers of a trial, each in a bundle of its placement group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ray import tune

from zotune._lazy import LazyModule
from zotune.errors import ConfigError
from zotune.runs.plugin_entries import Plugins, adopt_plugins, plugin_entries
from zotune.runs.shares import SHARE

if TYPE_CHECKING:
    import torch

    from zotune.evaluators.ray_workers import RayWorkers
    from zotune.runs import workers as run_workers
else:
    torch = LazyModule("torch")
    run_workers = LazyModule("zotune.runs.workers")


def bundles_for(
    workers: int,
    trial: Mapping[str, float] | None = None,
    worker: Mapping[str, float] | None = None,
) -> tune.PlacementGroupFactory:
    """The placement group of a trial: a bundle for itself, and one for each of its workers.

    Args:
        workers: the number of workers.
        trial: ``cpu`` and ``gpu`` of the trial itself.
        worker: the same for each worker.
    """
    shares = [SHARE | dict(trial or {}), *[SHARE | dict(worker or {})] * workers]
    bundles = [{"CPU": float(one["cpu"]), "GPU": float(one["gpu"])} for one in shares]
    return tune.PlacementGroupFactory(bundles)


def bundles_of(
    config: Mapping[str, Any], *, workers: int, trial: Any, worker: Any
) -> tune.PlacementGroupFactory:
    """The placement group for a configuration, which may set the number of workers."""
    return bundles_for(int(config.get("workers", workers)), trial, worker)


class TrialWorkers:
    """The workers of a trial's actor; a reused actor keeps them for its next trial.

    Args:
        resources: the resources of the trial, from Tune.
    """

    def __init__(self, resources: Any) -> None:
        bundles = [] if resources is None else resources.bundles
        self._first = 0 if resources is not None and resources.head_bundle_is_empty else 1
        self._bundles = bundles[self._first :]
        self._open = ExitStack()
        self._key: Any = None
        self._workers: RayWorkers | None = None

    def require(self, count: int) -> None:
        """Raise an error if workers have no bundles and would exceed the trial's resources."""
        if count > len(self._bundles):
            raise ConfigError(
                f"workers={count} need a bundle each in the trial's resources, which has "
                f"{len(self._bundles)} besides the first; use tune.PlacementGroupFactory("
                f"[{{'CPU': 1}}] + [{{'CPU': 1}}] * {count}), or leave resources to the trainable"
            )

    def open(self, count: int, key: Any, build: Callable[[torch.device], Any]) -> RayWorkers:
        """Workers with objectives built by ``build``; old ones are reused if ``key`` agrees."""
        if self._workers is None or self._key != (count, key):
            self.close()
            share = self._bundles[0]
            placed = [{"scheduling_strategy": self._place(at)} for at in range(count)]
            told = {"cpu": share.get("CPU", 0.0), "gpu": share.get("GPU", 0.0)}
            make = partial(_built, plugin_entries(), told["gpu"] > 0, build)
            opened = run_workers.own_workers(count, make, told, placed)
            self._workers = self._open.enter_context(opened)
            self._key = (count, key)
        return self._workers

    def close(self) -> None:
        """End all workers."""
        self._open.close()
        self._workers = None

    def _place(self, at: int) -> Any:
        from ray.util.placement_group import get_current_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        group = get_current_placement_group()
        assert group is not None  # a trial with bundles has one
        return PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=self._first + at
        )


def _built(plugins: Plugins, on_gpu: bool, build: Callable[[torch.device], Any]) -> Any:
    """Build a worker's objective, on its GPU if it has one."""
    adopt_plugins(plugins)
    return build(torch.device("cuda" if on_gpu and torch.cuda.is_available() else "cpu"))
