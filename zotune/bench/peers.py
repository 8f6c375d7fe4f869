"""Peers to time beside, where they are installed (the ``bench`` extra)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from zotune.bench.timing import Work
from zotune.objectives.quadratic import Quadratic

OPEN_ES, FDM = "evosax Open_ES", "torchzero FDM"


def installed() -> dict[str, Callable[[Quadratic, int, int], Work]]:
    """The peers that can be imported, by name."""
    peers = {OPEN_ES: ("evosax", open_es), FDM: ("torchzero", random_fdm)}
    return {name: make for name, (module, make) in peers.items() if find_spec(module)}


def open_es(objective: Quadratic, q: int, replicates: int) -> Work:
    """A generation of evosax's Open_ES on the same quadratic: vmapped, compiled, float64."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    algorithms: Any = import_module("evosax.algorithms")
    jax.config.update("jax_enable_x64", True)
    a, b = jnp.asarray(objective.a.numpy()), jnp.asarray(objective.b.numpy())
    start = jnp.asarray(objective.start().numpy())
    strategy = algorithms.Open_ES(population_size=q, solution=start)
    parameters = strategy.default_params

    def generation(key: Any, state: Any) -> Any:
        population, state = strategy.ask(key, state, parameters)
        values = (population * (population @ a / 2 + b)).sum(-1)
        return strategy.tell(key, population, values, state, parameters)[0]

    keys = jax.random.split(jax.random.key(0), replicates)
    begin = jax.vmap(lambda key: strategy.init(key, start, parameters))
    advance = jax.jit(jax.vmap(generation))
    state = begin(keys)

    def work() -> object:
        nonlocal state
        state = jax.block_until_ready(advance(keys, state))
        return state

    return work


def random_fdm(objective: Quadratic, q: int, replicates: int) -> Work:
    """A step of torchzero's randomised differences on the same quadratic, a replicate at a time."""
    tz: Any = import_module("torchzero")

    def optimizer(seed: int) -> Work:
        x = objective.start().clone().requires_grad_()
        modules = tz.m
        differences = modules.RandomizedFDM(
            h=1e-6, n_samples=q, formula="forward", distribution="gaussian", seed=seed
        )
        descent = tz.Optimizer([x], differences, modules.LR(1e-9))
        return lambda: descent.step(lambda backward=True: objective.values(x[None])[0])

    optimizers = [optimizer(seed) for seed in range(replicates)]
    return lambda: [advance() for advance in optimizers]
