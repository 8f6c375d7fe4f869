"""Check that machines have the resources of a trial; this machine before Ray is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from zotune.study.launch import LaunchError
from zotune.study.shape import Resources


def require_capacity_here(wanted: Resources, workers: int | None = None) -> None:
    """Raise an error if this machine lacks the resources of a trial; skipped if Ray is running."""
    import ray

    if not ray.is_initialized() and (refusal := too_large(wanted, [this_machine()], workers)):
        raise LaunchError(refusal)


def too_large(
    wanted: Resources, machines: Iterable[Mapping[str, float]], workers: int | None = None
) -> str:
    """Why no machine has the resources of a trial, or all of them of its workers; empty if they do.

    ``workers`` is the maximum number of workers of a trial, if it differs from the resources.
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
    """The resources that Ray would detect on this machine; no limit if its API has changed."""
    try:
        from ray._private.resource_and_label_spec import ResourceAndLabelSpec
    except ImportError:
        return {"CPU": inf, "GPU": inf}
    found = ResourceAndLabelSpec().resolve(is_head=True)
    return {"CPU": float(found.num_cpus or 0), "GPU": float(found.num_gpus or 0)}
