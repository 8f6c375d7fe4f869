"""A few hundred random configurations of both worlds, and a digest of what each run does.

``python -m tests.golden.configurations`` records them anew. Digests are of bits, which depend on
torch's version and on how the processor's libraries round: they are compared only where both agree.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import zotune
from tests.instrument import minimize, parse_config
from tests.weights.models import TinyQwen, bits
from tests.weights.toy import Toy
from zotune.core.names import RUNNING
from zotune.loop import Loop

RECORDED = Path(__file__).with_name("recorded.json")
KEYS = (
    *("queries", "evaluations", "monitored", "steps", "spent", "loss", "loss_std", "best_loss"),
    *("gap", "grad_norm2", "average_loss", "diverged", "status"),
    *("snr", "cosine", "accuracy", "train_loss", "unmoved"),
)
"""Of the rows; others may come."""
PLAIN = {
    "quartic": lambda x: ((x - 0.5) ** 4).sum() + x.sum() ** 2,
    "wall": lambda x: (x**2).sum() if float(x[0]) < 1.2 else torch.inf,
}


def machine() -> dict[str, str]:
    """What the bits depend on; processors with the same instructions may round differently."""
    return {"torch": torch.__version__, "rounding": rounding()}


def rounding() -> str:
    """A digest of what plain torch makes of the operations that the runs are made of."""
    draws, found = np.random.default_rng(0), []
    for n in (2, 5, 16, 37):
        a, x = torch.tensor(draws.normal(size=(n, n))), torch.tensor(draws.normal(size=n))
        solved = torch.linalg.solve(a, x)
        found += [a @ a, a @ x, (a * x).sum(1), torch.linalg.qr(a)[0], solved, x.norm(), a.exp()]
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            half = a.to(dtype)
            normed = torch.nn.functional.layer_norm(half, (n,))
            found += [half @ half, half.softmax(-1), normed, half.sum(), torch.sin(half)]
    return _digest([part.double().tolist() for part in found])


def vector_cases(count: int = 220) -> Iterator[dict[str, Any]]:
    """Random configurations of vectors, every one of which can be run."""
    draw = random.Random(1)
    while count:
        dim = draw.choice([2, 5, 16, 37])
        case: dict[str, Any] = {
            "target": draw.choice(["quadratic", "rosenbrock", "logistic", "stochastic", *PLAIN]),
            "dim": dim,
            "estimator": draw.choice(["avg", "align", "align-diag"]),
            "q": draw.choice([1, 2, min(5, dim), dim]),
            "directions": draw.choice(["gaussian", "sphere", "coordinate", "orthogonal"]),
            "difference": draw.choice(["forward", "central"]),
            "count": draw.choice(["directions", "evaluations"]),
            "budget": draw.randint(90, 400),
            "replicates": draw.choice([1, 1, 3]),
            "replicate": draw.choice([0, 2]),
            "seed": draw.randint(0, 9),
            "points": draw.choice([2, 7, 320]),
            "diagnostics": draw.random() < 0.2,
            "block_bytes": draw.choice([2**29, 2**29, 700]),
        }
        rule = draw.choice(["theory", "theory", "constant", "sqrt-decay"])
        eta = 10 ** draw.uniform(-4, 1) if rule != "theory" else draw.choice([None, 0.5, 3.0, 1e5])
        case |= {"step": rule, "eta": eta}
        if case["block_bytes"] == 700 and case["estimator"] == "align":
            case["q"] = min(case["q"], max(1, dim // 2))
        count -= 1
        yield case


def weights_cases(count: int = 70) -> Iterator[dict[str, Any]]:
    """Random configurations of weights."""
    draw = random.Random(2)
    for _ in range(count):
        yield {
            "model": draw.choice(["toy", "toy", "qwen", "causal"]),
            "dtype": draw.choice(["float32", "float32", "bfloat16", "float16"]),
            "estimator": draw.choice(["avg", "align", "align-diag"]),
            "q": draw.choice([1, 2, 4]),
            "directions": draw.choice(["gaussian", "sphere", "rademacher"]),
            "difference": draw.choice(["forward", "central"]),
            "count": draw.choice(["directions", "evaluations"]),
            "budget": draw.randint(20, 40),
            "seed": draw.randint(0, 9),
            "step": draw.choice(["constant", "sqrt-decay"]),
            "eta": 10 ** draw.uniform(-5, -1),
            "schedule": draw.choice(["constant", "linear", "cosine"]),
            "warmup": draw.choice([0.0, 0.3]),
            "clip": draw.choice([None, 0.5]),
            "memory": draw.choice(["fast", "lean"]),
            "embedding_rows": draw.choice(["seen", "all"]),
            "report_every": draw.choice([None, 7]),
            "points": draw.choice([3, 320]),
        }


def charged_cases() -> Iterator[dict[str, Any]]:
    """The runs on plain functions, not declared cheap: every call is charged."""
    return (case | {"cheap": False} for case in vector_cases() if case["target"] in PLAIN)


def vector_digest(case: dict[str, Any]) -> str:
    """What a run over vectors does; plain functions are declared cheap unless the case says no."""
    settings = dict(case)
    name, dim = settings.pop("target"), settings.pop("dim")
    cheap = settings.pop("cheap", True)
    if name in PLAIN:
        target: Any = zotune.objective(PLAIN[name], dim, start=[1.0] * dim, cheap=cheap)
    else:
        options: dict[str, Any] = {"name": name, "dim": dim}
        if name == "stochastic":
            options = {"name": "stochastic-logistic", "dim": dim, "samples": 30, "batch": 4}
        target = options
    try:
        run = minimize(target, **settings)
    except zotune.ZotuneError as error:
        return _digest([type(error).__name__])
    ledger = run.state.ledger
    ends = [ledger.queries, ledger.evaluations, ledger.monitored, run.status, run.state.steps]
    return _digest([run.x.tolist(), run.best_x.tolist(), ends, _known(run.rows)])


def weights_digest(case: dict[str, Any]) -> str:
    """What a run over weights does."""
    settings = dict(case)
    dtype = getattr(torch, settings.pop("dtype"))
    model = settings.pop("model")
    objective = Toy(dtype) if model == "toy" else TinyQwen(dtype, causal=model == "causal")
    loop = Loop(parse_config(settings), objective)
    state, rows = loop.init(), []
    while loop.status(state) == RUNNING:
        state, row = loop.report(loop.advance_to_report(state))
        rows.append(row)
    ledger = state.ledger
    ends = [ledger.queries, ledger.evaluations, ledger.monitored, loop.status(state), state.steps]
    weights = hashlib.sha256(bits(objective)).hexdigest()
    return _digest([weights, ends, loop.iterate.log, _known(rows), _known(loop.curve_rows(state))])


def _known(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [[row.get(key) for key in KEYS] for row in rows]


def _digest(found: list[Any]) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]


def digests() -> dict[str, list[str]]:
    """Of all configurations, in their order."""
    torch.set_num_threads(1)
    return {
        "vectors": [vector_digest(case) for case in vector_cases()],
        "charged": [vector_digest(case) for case in charged_cases()],
        "weights": [weights_digest(case) for case in weights_cases()],
    }


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({"machine": machine()} | digests(), indent=1) + "\n")
