"""Whether a machine can hold a trial, asked of this one before Ray is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from zotune.study.launch import LaunchError
from zotune.study.shape import Resources


def require_capacity_here(wanted: Resources, workers: int | None = None) -> None:
    """Refuse trials that this machine cannot hold; a Ray that runs already is asked later."""
    import ray

    if not ray.is_initialized() and (refusal := too_large(wanted, [this_machine()], workers)):
        raise LaunchError(refusal)


def too_large(
    wanted: Resources, machines: Iterable[Mapping[str, float]], workers: int | None = None
) -> str:
    """Why no machine can hold a trial, or all of them its workers; empty where they can.

    ``workers`` is the most that a trial has, where that is not what the resources say.
    """
    known, workers = list(machines), wanted.workers if workers is None else workers
    for name in ("CPU", "GPU"):
        key = name.lower()
        each = [machine.get(name, 0.0) for machine in known]
        share, worker = getattr(wanted, key), getattr(wanted.worker, key) if workers else 0
        for who, what, where in (
            ("a trial", share, f"resources.{key}"),
            ("a worker", worker, f"resources.worker.{key}"),
        ):
            if what > max(each, default=0.0):
                return (
                    f"{who} wants {what:g} {name}, and the largest machine has "
                    f"{max(each, default=0.0):g}; lower {where}"
                )
        if share + workers * worker > sum(each):
            return (
                f"a trial with {workers} workers wants {share + workers * worker:g} {name}, and "
                f"all machines together have {sum(each):g}; lower workers or resources.worker.{key}"
            )
    return ""


def this_machine() -> dict[str, float]:
    """What Ray would find here if it were started; no limit where it hides how it looks."""
    try:
        from ray._private.resource_and_label_spec import ResourceAndLabelSpec
    except ImportError:
        return {"CPU": inf, "GPU": inf}
    found = ResourceAndLabelSpec().resolve(is_head=True)
    return {"CPU": float(found.num_cpus or 0), "GPU": float(found.num_gpus or 0)}
