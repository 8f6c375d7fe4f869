"""Directions of a user's that are no function of their address are found out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import zotune
from tests.conformance.resuming import on_vectors, on_weights
from tests.weights.toy import Toy
from zotune.addresses import Generators
from zotune.directions import Sampler, register
from zotune.directions.gaussian import Gaussian
from zotune.errors import ConfigError
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop

WORLD = pytest.mark.parametrize(
    "make", [on_vectors, partial(on_weights, model=Toy)], ids=["vectors", "weights"]
)


RESUMED = r"after the resume, step \d+ has other values"


class Counting(Gaussian):
    """Turned by how often anything was drawn: state in a global."""

    drawn = 0

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        super().fill(out, step, queries, coordinates)
        Counting.drawn += 1
        out *= 1 + 0.01 * Counting.drawn


class Running(Sampler):
    """From one generator that runs on."""

    generator = torch.Generator().manual_seed(0)

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        out.normal_(generator=self.generator)


class ByRectangle(Sampler):
    """From the step alone, whichever part is asked for."""

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        out.normal_(generator=torch.Generator().manual_seed(step))


class Lacking(Gaussian):
    """The last coordinate is left as it is."""

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        part = range(coordinates.start, min(coordinates.stop, self.dim - 1))
        super().fill(out[..., : len(part)], step, queries, part)


class Cached(Gaussian):
    """Drawn from a generator that runs on, and remembered by the step: the same in one process."""

    kept: ClassVar[dict[tuple[int, int, int], Tensor]] = {}
    generator = torch.Generator().manual_seed(0)

    @classmethod
    def begin_anew(cls) -> None:
        """As in another process: what was drawn is forgotten, and other draws come first."""
        cls.kept.clear()
        cls.generator.manual_seed(1)

    def fill(self, out: Tensor, step: int, queries: range, coordinates: range) -> None:
        for at, query in enumerate(queries):
            key = step, query, self.dim
            if key not in self.kept:
                self.kept[key] = torch.randn(self.dim, generator=self.generator)
            out[:, at] = self.kept[key][coordinates.start : coordinates.stop]


class Honest(Gaussian):
    """The Gaussian by another name."""


@WORLD
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            Counting,
            "be a function .*, and drawn again, step 1 has other values; draw from self.keys",
        ),
        (Running, "be a function .*, and drawn again, step 1 has other values"),
        (ByRectangle, "be a function .*, and drawn in parts, step 1 has other values"),
        (Lacking, "fill every entry with a finite number, and left some of step 0"),
    ],
)
def test_directions_with_state_of_their_own_are_refused_before_anything_is_evaluated(
    make: Callable[[dict[str, Any]], Loop], kind: type[Sampler], message: str
) -> None:
    register("mine")(kind)
    with pytest.raises(ConfigError, match=f"directions 'mine' must {message}"):
        make({"directions": "mine"})


@WORLD
def test_what_resumes_to_another_draw_is_refused(
    make: Callable[[dict[str, Any]], Loop], tmp_path: Path
) -> None:
    register("mine")(Cached)
    told = {"directions": "mine"}
    loop, path = make(told), tmp_path / "state.safetensors"
    save_loop(loop, loop.advance(loop.init(), 12), path)
    load_loop(make(told), path)
    Cached.kept.clear()  # as in another process, whose generator begins anew
    Cached.generator.manual_seed(0)
    with pytest.raises(
        ConfigError, match=r"directions 'mine' .*after the resume, step \d+ has other"
    ):
        load_loop(make(told), path)


@WORLD
def test_directions_that_are_functions_of_their_address_are_taken(
    make: Callable[[dict[str, Any]], Loop], tmp_path: Path
) -> None:
    register("mine")(Honest)
    losses = []
    for name in ("gaussian", "mine"):
        loop = make({"directions": name})
        state, path = loop.advance(loop.init(), 12), tmp_path / f"{name}.safetensors"
        save_loop(loop, state, path)
        again = make({"directions": name})
        state = again.advance(load_loop(again, path)[0])
        losses.append(again.final_losses(state))
    assert losses[0] == losses[1]


def test_a_checkpoint_of_other_directions_is_continued_as_before(tmp_path: Path) -> None:
    register("mine")(Honest)
    loop, path = on_vectors({"directions": "mine"}), tmp_path / "state.safetensors"
    save_loop(loop, loop.advance(loop.init(), 12), path)
    other = on_vectors({"directions": "gaussian"})
    other.advance(load_loop(other, path)[0])
    assert zotune.load_run(path).config.directions == "mine"


def test_zotune_s_own_kinds_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    at = Generators.at
    monkeypatch.setattr(Generators, "at", lambda *told: calls.append(1) or at(*told))
    on_vectors({"directions": "gaussian"})
    assert len(calls) <= 1  # mu is tried on the first direction
