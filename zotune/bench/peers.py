"""Peers to time beside, where they are installed (the ``bench`` extra)."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from zotune.bench.timing import Work
from zotune.objectives.quadratic import Quadratic


def evosax_installed() -> bool:
    """Whether evosax and JAX can be imported."""
    return find_spec("evosax") is not None and find_spec("jax") is not None


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
