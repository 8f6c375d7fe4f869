"""Every registered update, on vectors and on weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import zotune
from tests.conformance.resuming import check_vectors, check_weights, on_vectors, on_weights
from tests.instrument import minimize, parse_config
from tests.weights.toy import Toy
from zotune import estimators
from zotune.errors import ConfigError
from zotune.loop import Loop
from zotune.updates import UPDATES, register

EVERY = pytest.mark.parametrize("name", sorted(UPDATES))
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def settings(name: str, **changes: Any) -> dict[str, Any]:
    base = {"update": name, "estimator": "align", "q": 3, "budget": 30}
    return base | {"step": "constant", "eta": 1e-3, "report_every": 9} | changes


@EVERY
def test_an_update_descends_a_bowl(name: str) -> None:
    bowl = zotune.objective(lambda x: (x**2).sum(), 5, start=[1.0] * 5)
    eta = UPDATES[name].natural or 0.02
    run = minimize(bowl, **settings(name, eta=eta, q=5, budget=600))
    assert run.rows[-1]["loss"] < 0.05 * run.rows[0]["loss"]


@EVERY
@pytest.mark.parametrize("estimator", ["avg", "align"])
@pytest.mark.parametrize("bounds", [None, (-50, 50)])
def test_a_searched_step_descends_with_blocks_far_smaller_than_the_dimension(
    name: str, estimator: str, bounds: tuple[float, float] | None
) -> None:
    """An average of few directions is far longer than the gradient, and must not be believed."""
    told = {"estimator": estimator, "q": 2, "step": "auto", "eta": None, "bounds": bounds}
    problem = {"name": "quadratic", "dim": 60, "condition": 10.0}
    run = minimize(problem, **settings(name, budget=1500, **told))
    share = 1.0 if name == "sign" else 0.1  # the signs of two directions tell little
    assert run.rows[-1]["gap"] < share * run.rows[0]["gap"]


@EVERY
@given(seed=st.integers(0, 50), eta=st.floats(1e-3, 10))
def test_a_linear_update_takes_eta_as_a_factor_and_others_as_a_length(
    name: str, seed: int, eta: float
) -> None:
    entry, generator = UPDATES[name], torch.Generator().manual_seed(seed)
    g = torch.randn(3, 7, dtype=torch.float64, generator=generator)

    def moved(factor: float, eta: float, coefficient: float) -> Tensor:
        slots = {slot: torch.zeros(7, dtype=torch.float64) for slot in entry.slots}
        move = entry.bound(coefficient, 3.0)
        return torch.stack([move(factor * each, slots, eta, t) for t, each in enumerate(g)])

    for beta in (0.0, 0.5):
        assert torch.allclose(moved(eta, 1.0, beta), moved(1.0, eta, beta)) == entry.linear


@EVERY
def test_the_estimate_is_left_as_it_is_and_a_stretch_is_as_good_as_the_whole(name: str) -> None:
    entry = UPDATES[name]
    g = torch.randn(4, 10, generator=torch.Generator().manual_seed(0))
    size = len(entry.basis(g[0], dict.fromkeys(entry.slots, g[0]))) if entry.basis else 0

    def weights(t: int) -> dict[str, Tensor]:
        """What whole vectors have told the update: the same for every stretch."""
        return {"weights": torch.linspace(-1, 1, size).double() * (t + 1)} if size else {}

    def moved(part: slice) -> Tensor:
        slots = {slot: torch.zeros(len(range(10)[part])) for slot in entry.slots}
        kept = g[:, part].clone()
        found = [entry.move(kept[t], slots, 0.1, t, **weights(t)) for t in range(4)]
        assert torch.equal(kept, g[:, part])
        return torch.stack(found)

    whole = moved(slice(0, 10))
    assert torch.equal(torch.cat([moved(slice(0, 3)), moved(slice(3, 10))], 1), whole)


@EVERY
def test_a_resumed_run_over_vectors_is_bit_for_bit_the_unbroken_one(
    name: str, tmp_path: Path
) -> None:
    check_vectors(tmp_path, **settings(name))


@EVERY
@DTYPES
def test_a_resumed_run_over_weights_is_bit_for_bit_the_unbroken_one(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    """And so are weights that are built again from the scalar log."""
    check_weights(tmp_path, dtype=dtype, **settings(name))


@EVERY
def test_lean_memory_has_room_for_no_slots_and_says_so(name: str) -> None:
    config = parse_config(settings(name, memory="lean"))
    if not UPDATES[name].slots:
        Loop(config, Toy())
        return
    with pytest.raises(ConfigError, match=f"update '{name}' keeps .*; set .*update='sgd'"):
        Loop(config, Toy())


@EVERY
def test_the_theory_s_step_is_refused_where_eta_is_a_length(name: str) -> None:
    if UPDATES[name].linear:
        parse_config(settings(name, step="theory"))
        return
    with pytest.raises(ConfigError, match=f"update '{name}' takes lengths"):
        parse_config(settings(name, step="theory"))


def test_an_update_of_a_user_s_is_told_how_it_gets_the_theory_s_step() -> None:
    half = register("half", formula="x ← x − η ĝ/2")(lambda g, slots, eta, t: 0.5 * eta * g)
    with pytest.raises(
        ConfigError, match=r"'half' takes lengths \(.* register it with linear=True"
    ):
        parse_config(settings("half", step="theory"))
    register("linear-half", formula="x ← x − η ĝ/2", linear=True)(half)
    parse_config(settings("linear-half", step="theory"))


WORLD = pytest.mark.parametrize("world", ["vectors", "weights"])
SHAPES = [
    pytest.param(lambda v: v[..., :1], r"got Tensor \(", id="short"),
    pytest.param(lambda v: v.mT if v.ndim > 1 else v[:, None], r"got Tensor \(", id="turned"),
    pytest.param(lambda v: v.sum(), r"got Tensor \(\)", id="number"),
    pytest.param(lambda v: None, "got NoneType", id="nothing"),
    pytest.param(lambda v: v.numpy(), "got ndarray", id="array"),
]


@WORLD
@pytest.mark.parametrize(("turn", "message"), SHAPES)
def test_a_result_of_the_wrong_shape_is_refused_in_one_line_with_the_entry_s_name(
    world: str, turn: Callable[[Tensor], Any], message: str
) -> None:
    make = on_vectors if world == "vectors" else partial(on_weights, model=Toy)
    register("bad", formula="?")(lambda g, slots, eta, t: turn(eta * g))
    estimators.register("bad", formula="?")(lambda v, block: turn(v))
    estimators.register("forgets", formula="?", remember=lambda m, along: turn(along))(
        lambda v, block: v / block.q
    )
    for told, said in (
        ({"update": "bad"}, "update 'bad' must return the vector to subtract"),
        ({"estimator": "bad"}, "estimator 'bad' must return c, one coefficient a direction"),
        ({"estimator": "forgets"}, "remember of estimator 'forgets' must return the next m"),
    ):
        loop = make(told)
        with pytest.raises(ConfigError, match=f"{said}, a Tensor of shape .*, {message}"):
            loop.advance(loop.init())


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.1)),
        ("momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
        ("nesterov", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
        ("adam", lambda p: torch.optim.Adam(p, lr=0.1)),
    ],
)
def test_an_update_of_a_known_name_moves_as_torch_s_does(name: str, peer: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    parameter = torch.nn.Parameter(torch.zeros(6, dtype=torch.float64))
    optimizer, mine = peer([parameter]), torch.zeros(6, dtype=torch.float64)
    slots = {slot: torch.zeros_like(mine) for slot in UPDATES[name].slots}
    for t in range(8):
        g = torch.randn(6, dtype=torch.float64, generator=generator)
        parameter.grad = g.clone()
        optimizer.step()
        mine -= UPDATES[name].bound(0.9)(g, slots, 0.1, t)
        assert torch.allclose(mine, parameter.detach(), rtol=1e-12)
