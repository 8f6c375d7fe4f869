"""A copy of an entry under another name, as a user would register it, is called and agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
import torch

from tests.conformance.resuming import finished, on_vectors, on_weights
from tests.weights.toy import Toy
from zotune.blocksizes import BLOCK_SIZES
from zotune.directions import DIRECTIONS, Sampler
from zotune.estimators import ESTIMATORS
from zotune.loop import Loop
from zotune.steps import STEPS
from zotune.updates import UPDATES, register

COPY = "a-copy"


def counting(code: Callable[..., Any], calls: list[int]) -> Callable[..., Any]:
    """The function, with its calls counted."""

    @wraps(code)
    def called(*args: Any, **told: Any) -> Any:
        calls.append(1)
        return code(*args, **told)

    return called


def counting_sampler(kind: type[Sampler], calls: list[int]) -> type[Sampler]:
    """A subclass of a sampler that counts the parts that are filled."""

    class Copy(kind):  # type: ignore[misc, valid-type]
        def fill(self, *args: Any) -> None:
            calls.append(1)
            super().fill(*args)

    return Copy


def copied(registry: Any, name: str, **code: Any) -> None:
    """Register the entry ``name`` as ``COPY``, with another function."""
    registry.add(COPY, replace(registry[name], name=COPY, **code))


def of_updates(name: str, calls: list[int]) -> dict[str, Any]:
    entry = UPDATES[name]
    copied(UPDATES, name, move=counting(entry.move, calls))
    return {"update": COPY}


def of_estimators(name: str, calls: list[int]) -> dict[str, Any]:
    entry = ESTIMATORS[name]
    copied(ESTIMATORS, name, coefficients=counting(entry.coefficients, calls))
    return {"estimator": COPY}


def of_directions(name: str, calls: list[int]) -> dict[str, Any]:
    kind = DIRECTIONS[name].sampler
    copied(DIRECTIONS, name, sampler=counting_sampler(kind, calls))
    return {"directions": COPY}


def of_steps(name: str, calls: list[int]) -> dict[str, Any]:
    entry = STEPS[name]
    what = "size" if entry.size is not None else "search"
    copied(STEPS, name, **{what: counting(getattr(entry, what), calls)})
    return {"step": COPY}


def of_block_sizes(name: str, calls: list[int]) -> dict[str, Any]:
    copied(BLOCK_SIZES, name, size=counting(BLOCK_SIZES[name].size, calls))
    return {"q": {"rule": COPY, "most": 4}}


ORIGINAL: dict[Any, Callable[[str], dict[str, Any]]] = {
    of_updates: lambda name: {"update": name},
    of_estimators: lambda name: {"estimator": name},
    of_directions: lambda name: {"directions": name},
    of_steps: lambda name: {"step": name},
    of_block_sizes: lambda name: {"q": {"rule": name, "most": 4}},
}
EVERY = [
    *((of_updates, name) for name in sorted(UPDATES)),
    *((of_estimators, name) for name in sorted(ESTIMATORS)),
    *((of_directions, name) for name in sorted(DIRECTIONS)),
    *((of_steps, name) for name in sorted(STEPS)),
    *((of_block_sizes, name) for name in sorted(BLOCK_SIZES)),
]


def settings(told: dict[str, Any]) -> dict[str, Any]:
    """Enough for every entry; L is given, so that the theory's step needs no estimate."""
    finds_its_own = STEPS[told.get("step", "constant")].search is not None
    return {"eta": None if finds_its_own else 1e-2, "L": 50.0, "budget": 60} | told


def end(make: Callable[..., Loop], told: dict[str, Any]) -> list[float]:
    """The losses of a run, from start to end."""
    loop = make(settings(told))
    state = finished(loop, loop.init())
    return [row["loss"] for row in loop.curve_rows(state)]


@pytest.mark.parametrize("world", ["vectors", "weights"])
@pytest.mark.parametrize(("copy", "name"), EVERY, ids=[f"{c.__name__}-{n}" for c, n in EVERY])
def test_a_copy_under_another_name_is_called_and_gives_the_same_run(
    copy: Any, name: str, world: str
) -> None:
    def make(told: dict[str, Any]) -> Loop:
        return on_vectors(told) if world == "vectors" else on_weights(told, model=Toy)

    original = end(make, ORIGINAL[copy](name))
    calls: list[int] = []
    told = copy(name, calls)
    assert end(make, told) == pytest.approx(original, rel=1e-6)
    assert calls


def test_a_linear_update_without_slots_is_called() -> None:
    @register("half", formula="x ← x − η ĝ/2", linear=True)
    def half(g: Any, slots: Any, eta: float, t: int) -> Any:
        return 0.5 * eta * g

    for make in (on_vectors, lambda told: on_weights(told, model=Toy)):
        whole = end(make, {"update": "sgd", "estimator": "avg"})
        halved = end(make, {"update": "half", "estimator": "avg"})
        smaller = end(make, {"update": "sgd", "estimator": "avg", "eta": 5e-3})
        assert halved != whole
        assert torch.allclose(torch.tensor(halved), torch.tensor(smaller), rtol=1e-5)
