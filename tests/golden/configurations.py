"""Several hundred random configurations of all kinds of runs, and a digest of what each run does.

``python -m tests.golden.configurations`` records them anew. Digests are of bits, which depend on
torch's version and on how the processor's libraries round: they are compared only where both agree.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterator
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
    return {"torch": torch.__version__, "numpy": np.__version__, "rounding": rounding()}


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
        b, y = a.numpy() + a.numpy().T, x.numpy()
        found += [torch.from_numpy(part) for part in (*np.linalg.eigh(b), b @ y, np.exp(b))]
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


def automatic_cases(count: int = 160) -> Iterator[dict[str, Any]]:
    """Random functions and budgets for the automatic method: smooth, rugged, noisy, with bounds."""
    draw = random.Random(3)
    for _ in range(count):
        dim = draw.choice([1, 2, 3, 6, 10, 25])
        yield {
            "function": draw.choice(sorted(FUNCTIONS)),
            "dim": dim,
            "noise": draw.choice([0.0, 0.0, 0.0, 1e-4, 1e-2, 1.0]),
            "fails": draw.choice([0.0, 0.0, 0.1]),
            "budget": draw.choice([1, 3, dim + 1, 4 * dim, 12 * (dim + 1), 40 * (dim + 1), 700]),
            "bounds": draw.choice([None, None, (-1.5, 3.0), "narrow"]),
            "scale": draw.choice([None, None, 0.1]),
            "replicates": draw.choice([1, 1, 2]),
            "seed": draw.randint(0, 9),
            "points": draw.choice([3, 320]),
        }


def searched_cases(count: int = 160) -> Iterator[dict[str, Any]]:
    """Random configurations of blocks with searched steps, updates, rules for q and bounds."""
    draw = random.Random(4)
    for _ in range(count):
        dim = draw.choice([2, 5, 16])
        rules = [{"rule": "growth", "first": 1, "factor": 1.5}, {"rule": "norm-test"}]
        yield {
            "target": draw.choice(["quadratic", "rosenbrock", "stochastic", *PLAIN]),
            "dim": dim,
            "estimator": draw.choice(["avg", "align", "align-diag", "align-memory", "auto"]),
            "q": draw.choice([1, min(5, dim), dim, "auto", *rules]),
            "update": draw.choice(["sgd", "momentum", "nesterov", "adam", "sign", "lbfgs", "auto"]),
            "step": draw.choice(["auto", "auto", "normalized"]),
            "difference": draw.choice(["forward", "central"]),
            "count": draw.choice(["directions", "evaluations"]),
            "bounds": draw.choice([None, None, (-0.8, 1.2)]),
            "budget": draw.randint(60, 300),
            "replicates": draw.choice([1, 1, 3]),
            "schedule": draw.choice(["constant", "constant", "cosine"]),
            "seed": draw.randint(0, 9),
            "points": draw.choice([7, 320]),
        }


def asked_cases(count: int = 40) -> Iterator[dict[str, Any]]:
    """Random runs by ask and tell: automatic, and along blocks."""
    draw = random.Random(5)
    blocks: list[dict[str, Any]] = [
        {},
        {},
        {"estimator": "align", "q": 2},
        {"estimator": "avg", "q": 2, "update": "adam", "step": "constant", "eta": 0.05},
    ]
    for _ in range(count):
        yield {
            "function": draw.choice(sorted(FUNCTIONS)),
            "dim": draw.choice([2, 5]),
            "budget": draw.choice([30, 150]),
            "seed": draw.randint(0, 9),
            **draw.choice(blocks),
        }


FUNCTIONS: dict[str, Any] = {
    "bowl": lambda x: float((np.arange(1, len(x) + 1) ** 2 * (x - 0.3) ** 2).sum()),
    "valley": lambda x: float((100 * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum()),
    "absolute": lambda x: float(np.abs(x - 0.7).sum()),
    "wavy": lambda x: float((x**2).sum() + 3 * (1 - np.cos(9 * x)).sum()),
    "quartic": lambda x: float(((x - 0.5) ** 4).sum() + x.sum() ** 2),
    "single": lambda x: float(np.float32(((x - 0.5) ** 2).sum())),
    "walled": lambda x: float((x**2).sum()) if x[0] < 1.2 else math.nan,
    "linear": lambda x: float(x.sum()),
}


def function_of(name: str, noise: float, fails: float) -> Any:
    """A function whose noise and failures are the same in every run."""
    rng, plain = np.random.default_rng(0), FUNCTIONS[name]

    def function(x: np.ndarray) -> float:
        if fails and rng.random() < fails:
            return math.inf
        return plain(x) + noise * float(rng.standard_normal())

    return function


def automatic_digest(case: dict[str, Any]) -> str:
    """What a run of the automatic method does: points, values, curve, ledger and words."""
    settings = dict(case)
    dim = settings.pop("dim")
    asked: list[float] = []
    function = function_of(*(settings.pop(key) for key in ("function", "noise", "fails")))

    def counted(x: np.ndarray) -> float:
        asked.extend(x.tolist())
        return float(function(x))

    if settings["bounds"] == "narrow":
        high = [10.0 ** (2 - at % 4) for at in range(dim)]
        settings["bounds"] = ([-one for one in high], high)
    try:
        run = zotune.minimize(counted, [1.0] * dim, **settings)
    except zotune.ZotuneError as error:
        return _digest([type(error).__name__, asked])
    return _digest([asked, _end(run)])


def asked_digest(case: dict[str, Any]) -> str:
    """All points that a run asks for, and its end."""
    settings = dict(case)
    function, dim = FUNCTIONS[settings.pop("function")], settings.pop("dim")
    asked = []
    minimizer = zotune.Minimizer([1.0] * dim, **settings)
    while not minimizer.done:
        points = minimizer.ask()
        asked.append(np.asarray(points).tolist())
        minimizer.tell([function(point) for point in points])
    return _digest([asked, _end(minimizer.result)])


def _end(run: zotune.Run) -> list[Any]:
    ledger = run.state.ledger
    ends = [ledger.queries, ledger.evaluations, ledger.monitored, run.status, run.state.steps]
    return [run.x.tolist(), run.best_x.tolist(), ends, _known(run.rows)]


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
    return _digest(_end(run))


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


WORLDS: dict[str, tuple[Callable[[], Iterator[dict[str, Any]]], Callable[..., str]]] = {
    "vectors": (vector_cases, vector_digest),
    "charged": (charged_cases, vector_digest),
    "weights": (weights_cases, weights_digest),
    "automatic": (automatic_cases, automatic_digest),
    "searched": (searched_cases, vector_digest),
    "asked": (asked_cases, asked_digest),
}
"""The configurations of each kind of run, and the digest of one."""


def digests() -> dict[str, list[str]]:
    """Of all configurations, in their order."""
    torch.set_num_threads(1)
    return {world: [digest(case) for case in cases()] for world, (cases, digest) in WORLDS.items()}


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({"machine": machine()} | digests(), indent=1) + "\n")
