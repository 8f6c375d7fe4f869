"""The evaluator of a run, by its ``workers``: this process, or Ray workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import torch

from zotune.clusters.own_ray import own_ray, resources
from zotune.config import Config
from zotune.errors import ConfigError
from zotune.loop import Loop
from zotune.runs.counting import Place, counted
from zotune.runs.plugin_entries import Plugins, adopt_plugins, plugin_entries
from zotune.runs.shares import checked_share

if TYPE_CHECKING:
    from zotune.evaluators.ray_workers import RayWorkers


@contextmanager
def workers_here(
    count: int, build: Callable[[], Any], worker: Mapping[str, float] | None = None
) -> Iterator[RayWorkers]:
    """Workers on the connected Ray, or on a local Ray that is started and ends with them."""
    share = checked_share(worker)
    with own_ray(cpus=max(1, ceil(count * share["cpu"]))), own_workers(count, build, share) as all_:
        yield all_


@contextmanager
def own_workers(
    count: int,
    build: Callable[[], Any],
    share: Mapping[str, float],
    placed: Sequence[Mapping[str, Any]] | None = None,
    kind: type[RayWorkers] | None = None,
) -> Iterator[RayWorkers]:
    """Workers on the connected Ray, which end with the context."""
    from zotune.evaluators.ray_workers import RayWorkers

    if placed is None:
        require_shares(count, share)
    workers = (kind or RayWorkers)(count, build, share=share, placed=placed)
    threads = torch.get_num_threads()
    torch.set_num_threads(workers.threads)  # the same rounding as in the workers
    try:
        yield workers
    finally:
        workers.close()
        torch.set_num_threads(threads)


def require_shares(count: int, share: Mapping[str, float]) -> None:
    """Raise an error if the connected Ray lacks resources: the workers would wait for ever."""
    there = resources()
    for name in ("CPU", "GPU"):
        wanted, has = count * share[name.lower()], there.get(name, 0.0)
        if wanted > has:
            raise ConfigError(
                f"workers={count} want {wanted:g} {name}, and Ray has {has:g}; lower workers, or "
                f"give worker={{{name.lower()!r}: {has / count:g}}}"
            )


def serve(workers: RayWorkers, loop: Loop, x0: Any = None, counts: Place | None = None) -> None:
    """Let workers answer the requests of a loop; ``counts`` is where they count their calls."""
    memory = getattr(loop.iterate, "memory", loop.config.memory)  # the same choice in workers
    alike = loop.config.model_copy(update={"memory": memory})
    workers.attend(loop, partial(_copy_of, alike, x0, plugin_entries(), counts))
    loop.answer_with(workers)


def _copy_of(
    config: Config, x0: Any, plugins: Plugins, counts: Place | None, objective: Any
) -> Loop:
    """A worker's loop."""
    adopt_plugins(plugins)
    return Loop(config, counted(objective, counts), x0)
