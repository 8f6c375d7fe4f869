"""What every registered estimator must do, with every kind of directions and difference."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import zotune
from tests.conformance.dependent import KINDS_OF_BLOCK, dependent_rows, repeated_signs
from tests.conftest import CountingBowl
from tests.devices import chosen
from tests.instrument import minimize, parse_config
from zotune.addresses import replicate_keys
from zotune.blocks import Block, DenseBlock
from zotune.core.differences import DIFFERENCES
from zotune.directions import DIRECTIONS, Directions
from zotune.estimators import CLAIMS, ESTIMATORS, Estimator
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop

DIM = 11


def every(registry: Any) -> list[Any]:
    return [pytest.param(entry, id=name) for name, entry in registry.items()]


ESTIMATOR = pytest.mark.parametrize("estimator", every(ESTIMATORS))
KIND = pytest.mark.parametrize("kind", every(DIRECTIONS))
DIFFERENCE = pytest.mark.parametrize("difference", list(DIFFERENCES))
DTYPE = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
Q = pytest.mark.parametrize("q", [1, 3, DIM])


@cache
def drawn(kind: Directions, d: int, q: int, replicates: int, step: int) -> Tensor:
    """Directions, which take far longer to draw than to use: tests share equal ones."""
    keys = replicate_keys("directions", 5, range(replicates))
    rows = torch.empty(replicates, q, d, dtype=torch.float64, device=chosen())
    kind.sampler(d, keys, chosen()).fill(rows, step, range(q), range(d))
    return rows


def block_of(kind: Directions, d: int, q: int, *, replicates: int = 1, step: int = 0) -> DenseBlock:
    rows = drawn(kind, d, q, replicates, step).clone()
    return DenseBlock(rows, orthogonal=kind.orthogonal)


def measured(block: Block, g: Tensor) -> Tensor:
    """v of the linear function gᵀx."""
    return torch.einsum("rqd,rd->rq", block.rows(range(block.q), range(block.dim)), g)


def estimate(estimator: Estimator, block: Block, v: Tensor) -> Tensor:
    return block.combine(estimator(v, block))


def loop_of(
    estimator: Estimator,
    kind: Directions,
    difference: str,
    *,
    fn: CountingBowl | None = None,
    cheap: bool = True,
    dtype: torch.dtype = torch.float64,
    **settings: Any,
) -> Loop:
    objective = zotune.objective(
        fn or CountingBowl(), DIM, L=3.0, cheap=cheap, dtype=dtype, device=chosen()
    )
    settings = {"q": 3, "budget": 40, "step": "constant", "eta": 0.01} | settings
    config = parse_config(
        {
            "estimator": estimator.name,
            "directions": kind.name,
            "difference": difference,
            **settings,
        }
    )
    return Loop(config, objective)


@ESTIMATOR
def test_it_tells_its_formula_and_claims_only_what_is_tested(estimator: Estimator) -> None:
    assert estimator.formula.startswith("m + U " if estimator.remember else "U ")
    assert estimator.summary.endswith(".") or ";" in estimator.summary
    assert estimator.claims <= set(CLAIMS)


@ESTIMATOR
@KIND
@DIFFERENCE
@pytest.mark.parametrize("count", ["directions", "evaluations"])
def test_it_calls_the_function_as_often_as_declared_and_never_overspends(
    estimator: Estimator, kind: Directions, difference: str, count: str
) -> None:
    for cheap in (True, False):
        fn = CountingBowl()
        told = {"replicates": 2, "count": count, "cheap": cheap}
        loop = loop_of(estimator, kind, difference, fn=fn, **told)
        state = loop.advance(loop.init())
        ledger = state.ledger
        assert fn.calls == 2 * (ledger.evaluations + ledger.monitored)
        assert 38 < loop.spent(state) <= 40
        declared = sum(DIFFERENCES[difference].evaluations(q) for q in block_sizes(ledger.queries))
        # charged: the start, unless the first step asks for it, its repetition, and the last point
        also = 0 if cheap else 3 - DIFFERENCES[difference].per_step
        assert ledger.evaluations == declared + also
        assert (ledger.monitored > 0) == cheap


def block_sizes(queries: int, q: int = 3) -> list[int]:
    return [min(q, queries - start) for start in range(0, queries, q)]


@ESTIMATOR
@KIND
@DIFFERENCE
@DTYPE
@Q
def test_shape_and_dtype_are_those_of_the_objective_and_inputs_are_untouched(
    estimator: Estimator, kind: Directions, difference: str, dtype: torch.dtype, q: int
) -> None:
    loop = loop_of(estimator, kind, difference, dtype=dtype, replicates=2, q=q)
    state = loop.init()
    before = state.x.clone()
    after = loop.step(state)
    assert after.x.shape == (2, DIM)
    assert after.x.dtype == dtype
    assert torch.equal(state.x, before)
    assert not torch.equal(after.x, before)
    block = loop.iterate.prober.block(0, q)
    rows, v = (
        block.rows(range(q), range(DIM)).clone(),
        torch.ones(2, q, dtype=dtype, device=chosen()),
    )
    c = estimator(v, block)
    assert c.shape == v.shape
    assert c.dtype == dtype
    assert torch.equal(v, torch.ones_like(v))
    assert torch.equal(block.rows(range(q), range(DIM)), rows)


@ESTIMATOR
@KIND
@DIFFERENCE
@DTYPE
def test_a_run_saved_and_loaded_continues_bit_for_bit(
    estimator: Estimator, kind: Directions, difference: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    def loop() -> Loop:
        return loop_of(estimator, kind, difference, dtype=dtype, replicates=2)

    whole = loop().advance(loop().init())
    first = loop().advance(loop().init(), until=17)
    save_loop(loop(), first, tmp_path / "state")
    again, _ = load_loop(loop(), tmp_path / "state")
    resumed = loop().advance(again)
    assert torch.equal(whole.x, resumed.x)
    assert torch.equal(whole.best_x, resumed.best_x)
    assert whole.ledger == resumed.ledger
    assert loop().curve_rows(whole) == loop().curve_rows(resumed)


@ESTIMATOR
@KIND
@DIFFERENCE
@Q
def test_a_replicate_runs_alone_as_among_others_bit_for_bit(
    estimator: Estimator, kind: Directions, difference: str, q: int
) -> None:
    """The function is evaluated row by row, so that its rows do not interact in rounding."""

    def end(**settings: int) -> Tensor:
        loop = loop_of(estimator, kind, difference, q=q, **settings)
        return loop.advance(loop.init()).x

    together = end(replicates=3)
    for replicate in range(3):
        assert torch.equal(together[replicate], end(replicate=replicate)[0])


@ESTIMATOR
@KIND
def test_a_block_past_the_memory_allowed_gives_the_same_run(
    estimator: Estimator, kind: Directions
) -> None:
    def end(**settings: int) -> Tensor:
        loop = loop_of(estimator, kind, "central", replicates=2, **settings)
        return loop.advance(loop.init()).x

    assert torch.allclose(end(block_bytes=2 * 2 * DIM * 8), end(), rtol=1e-6)
    assert torch.allclose(end(block_bytes=1), end(), rtol=1e-6)


@ESTIMATOR
def test_it_travels_to_another_process(estimator: Estimator) -> None:
    there = pickle.loads(pickle.dumps(estimator))
    block = block_of(DIRECTIONS["gaussian"], 5, 2)
    v = torch.ones(1, 2, dtype=torch.float64, device=chosen())
    assert torch.equal(there(v, block), estimator(v, block))


@ESTIMATOR
@KIND
@pytest.mark.parametrize(("d", "q"), [(8, 1), (8, 3), (8, 8), (40, 20)])
def test_its_error_is_what_the_theory_says(
    estimator: Estimator, kind: Directions, d: int, q: int
) -> None:
    """Moments of the estimate within five standard errors of their own simulation."""
    if estimator.moments is None:
        pytest.skip("declares no moments")
    n = 2000
    g = torch.linspace(-1, 2, d, dtype=torch.float64, device=chosen()).expand(n, d)
    block = block_of(kind, d, q, replicates=n)
    found = estimate(estimator, block, measured(block, g))
    moments = estimator.moments(kind, q, d)
    scale = g[0].square().sum()
    if kind.signs and "projects" in estimator.claims:
        rank = torch.linalg.matrix_rank(block.gram()).double().mean().item()
        assert moments.alignment == moments.energy <= rank / d, "what is stated is the least"
        moments = type(moments)(rank / d, rank / d)
    for sample, stated in (
        ((found * g).sum(-1) / scale, moments.alignment),
        (found.square().sum(-1) / scale, moments.energy),
        ((found - g).square().sum(-1) / scale, moments.mse),
    ):
        error = sample.std() / n**0.5
        assert abs(sample.mean() - stated) < 5 * error + 1e-9


# Claims, held on linear functions


def linear_case(data: st.DataObject) -> tuple[DenseBlock, Tensor]:
    d = data.draw(st.integers(1, 12), label="d")
    q = data.draw(st.integers(1, d), label="q")
    kind = data.draw(st.sampled_from(sorted(DIRECTIONS)), label="directions")
    step = data.draw(st.integers(0, 10**6), label="step")
    entries = st.floats(-1e3, 1e3, allow_subnormal=False)
    g = torch.tensor(
        [data.draw(st.lists(entries, min_size=d, max_size=d), label="g")], dtype=torch.float64
    )
    return block_of(DIRECTIONS[kind], d, q, step=step), g.to(chosen())


def claiming(claim: str) -> Any:
    claimed = {name: e for name, e in ESTIMATORS.items() if claim in e.claims}
    return pytest.mark.parametrize("estimator", every(claimed))


def clear_rank(block: DenseBlock) -> bool:
    """Whether no direction is nearly in the span of the others; it may lie in it."""
    values = torch.linalg.eigvalsh(block.gram())[0] / block.dim
    return not bool(((values > 1e-12) & (values < 1e-6)).any())


@claiming("interpolates")
@given(data=st.data())
def test_interpolates(estimator: Estimator, data: st.DataObject) -> None:
    block, g = linear_case(data)
    assume(clear_rank(block))
    v = measured(block, g)
    back = measured(block, estimate(estimator, block, v))
    assert torch.allclose(back, v, rtol=1e-9, atol=1e-9 * float(v.abs().max() + 1))


@claiming("interpolates")
@pytest.mark.parametrize("hold", every(KINDS_OF_BLOCK))
@pytest.mark.parametrize("rows", every(dependent_rows()))
def test_interpolates_where_directions_depend_on_each_other(
    estimator: Estimator, hold: Callable[[Tensor], Block], rows: Tensor
) -> None:
    block = hold(rows)
    dtype = block.rows(range(1), range(1)).dtype
    g = torch.linspace(-1, 2, block.dim, dtype=dtype)[None]
    v = measured(block, g)
    found = estimate(estimator, block, v)
    near = 1e3 * torch.finfo(dtype).eps * float(v.abs().max())
    assert torch.allclose(measured(block, found), v, rtol=0, atol=near)
    projection = torch.linalg.pinv(rows, rtol=1e-9) @ rows @ g[0].double()
    assert torch.allclose(found[0].double(), projection, rtol=0, atol=near)


@claiming("interpolates")
def test_interpolates_where_packed_signs_repeat(estimator: Estimator) -> None:
    block = repeated_signs()
    v = torch.tensor([[1.0, 1, -2, -2, 3, 3]], dtype=torch.float64)
    back = (block.gram() @ estimator(v, block)[..., None])[..., 0]
    assert torch.allclose(back, v, rtol=1e-9)


@claiming("projects")
@given(data=st.data())
def test_projects(estimator: Estimator, data: st.DataObject) -> None:
    block, g = linear_case(data)
    assume(clear_rank(block))
    once = estimate(estimator, block, measured(block, g))
    twice = estimate(estimator, block, measured(block, once))
    tolerance = 1e-9 * float(g.abs().max() + 1)
    assert torch.allclose(twice, once, rtol=1e-9, atol=tolerance)
    assert once.norm() <= g.norm() * (1 + 1e-9) + tolerance


@claiming("scale-free")
@given(data=st.data(), factor=st.floats(0.01, 100))
def test_scale_free(estimator: Estimator, data: st.DataObject, factor: float) -> None:
    block, g = linear_case(data)
    assume(clear_rank(block))
    before = estimate(estimator, block, measured(block, g))
    rows = block.rows(range(block.q), range(block.dim)).clone()
    rows[:, 0] *= factor
    rescaled = DenseBlock(rows)
    after = estimate(estimator, rescaled, measured(rescaled, g))
    assert torch.allclose(after, before, rtol=1e-7, atol=1e-7 * float(g.abs().max() + 1))


@claiming("linear")
@given(data=st.data(), scale=st.floats(-100, 100))
def test_linear(estimator: Estimator, data: st.DataObject, scale: float) -> None:
    block, g = linear_case(data)
    other = torch.flip(g, [1]) + 1
    v, w = measured(block, g), measured(block, other)
    left = estimate(estimator, block, scale * v + w)
    right = scale * estimate(estimator, block, v) + estimate(estimator, block, w)
    size = float(right.abs().max()) + 100 * float(v.abs().max() + w.abs().max())
    assert torch.allclose(left, right, rtol=1e-8, atol=1e-8 * size + 1e-12)


@claiming("linear")
@DIFFERENCE
@given(constant=st.floats(-1e6, 1e6), mu=st.sampled_from([1e-6, 1e-4, 1e-2]))
def test_a_constant_moves_v_by_a_few_roundings_at_most(
    estimator: Estimator, difference: str, constant: float, mu: float
) -> None:
    slope = torch.linspace(1, 2, 7, dtype=torch.float64, device=chosen())

    def v(c: float) -> Tensor:
        objective = zotune.objective(lambda x: float(slope @ x) + c, 7, L=1.0, device=chosen())
        config = parse_config(
            {
                "estimator": estimator.name,
                "difference": difference,
                "q": 4,
                "budget": 4,
                "mu": mu,
                "step": "constant",
                "eta": 1.0,
            }
        )
        loop = Loop(config, objective)
        block = loop.iterate.prober.block(0, 4)
        values = loop.iterate.prober.values(loop.init().x, 0, block)
        return loop.iterate.difference.quotient(values, mu)

    eps = torch.finfo(torch.float64).eps
    assert (v(constant) - v(0)).abs().max() <= 8 * eps * (abs(constant) + 1) / mu


@ESTIMATOR
@DIFFERENCE
@given(mu=st.floats(1e-4, 10))
def test_the_radius_drops_out_on_linear_functions(
    estimator: Estimator, difference: str, mu: float
) -> None:
    slope = torch.linspace(-1, 2, 6, dtype=torch.float64, device=chosen())
    objective = zotune.objective(lambda x: slope @ x, 6, L=1.0, device=chosen())

    def end(mu: float) -> Tensor:
        return minimize(
            objective,
            estimator=estimator.name,
            difference=difference,
            q=3,
            budget=3,
            mu=mu,
            step="constant",
            eta=1.0,
        ).x

    assert torch.allclose(end(mu), end(1.0), rtol=1e-8, atol=1e-8)
