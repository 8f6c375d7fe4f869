"""Whether a machine can hold a trial, asked of this one before Ray is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from zotune.study.launch import LaunchError
from zotune.study.shape import Resources


def require_room_here(wanted: Resources) -> None:
    """Refuse trials that this machine cannot hold; a Ray that runs already is asked later."""
    import ray

    if not ray.is_initialized() and (refusal := too_large(wanted, [this_machine()])):
        raise LaunchError(refusal)


def too_large(wanted: Resources, machines: Iterable[Mapping[str, float]]) -> str:
    """Why no machine can hold a trial; empty where one can."""
    known = list(machines)
    for name, share in (("CPU", wanted.cpu), ("GPU", wanted.gpu)):
        most = max((machine.get(name, 0.0) for machine in known), default=0.0)
        if share > most:
            return (
                f"a trial wants {share:g} {name}, and the largest machine has {most:g}; "
                f"lower resources.{name.lower()}"
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
