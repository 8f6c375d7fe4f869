"""A step on a language model's weights: beside its forward passes, beside MeZO, and its memory.

The model has the shape of MiniLM (22.7 million weights, all trained) and random weights; batches
are 16 × 32 tokens, drawn evenly from the vocabulary, so that more rows of the embedding are seen
than in real text. One thread.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForSequenceClassification

from zotune.addresses import Keys, extend
from zotune.bench.lm_head import head_only
from zotune.bench.timing import Work, interleave
from zotune.config import parse_config
from zotune.core.processes import supervised
from zotune.loop import Loop
from zotune.weights.objective import WeightsObjective

if TYPE_CHECKING:
    from rich.table import Table

BATCH, TOKENS = 16, 32
KEPT, PARTLY, REPLAYED = 2**32, 2**29, 1
"""Memory for directions: for all, the default, for none."""
FORWARD = "forward pass"


@dataclass(frozen=True)
class ModelFigure:
    """One measurement, with its target."""

    case: str
    beside: str
    """What the ratio is over."""
    ratio: float
    wanted: float | None
    amount: str
    """The figure itself, with its unit."""


class MiniLM(WeightsObjective):
    """A BERT of MiniLM's shape that classifies random tokens."""

    name = "minilm-shaped"

    def __init__(self) -> None:
        config: Any = BertConfig(
            vocab_size=30522,
            hidden_size=384,
            num_hidden_layers=6,
            num_attention_heads=12,
            intermediate_size=1536,
        )
        with torch.random.fork_rng():
            torch.manual_seed(0)
            build: Any = BertForSequenceClassification
            self.module = build(config).eval().requires_grad_(False)
        self.trained = dict(self.module.named_parameters())
        self.device, self.dtype = torch.device("cpu"), torch.float32

    def batch(self, keys: Keys, step: int) -> tuple[Tensor, Tensor]:
        """Random tokens with random labels."""
        generator = torch.Generator().manual_seed(int(extend(keys, step)[0]) >> 1)
        ids = torch.randint(1000, 30522, (BATCH, TOKENS), generator=generator)
        return ids, torch.randint(0, 2, (BATCH,), generator=generator)

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Cross-entropy of the labels."""
        ids, labels = batch
        return cross_entropy(self.module(input_ids=ids).logits.float(), labels)

    def validate(self) -> dict[str, float]:
        """Nothing: a benchmark makes steps only."""
        return {"loss": 0.0}

    def touched(self, batch: tuple[Tensor, Tensor]) -> Mapping[str, Tensor]:
        """Rows of the embedding that the tokens name."""
        return {"bert.embeddings.word_embeddings.weight": torch.unique(batch[0])}


def forward_pass(objective: MiniLM) -> Work:
    """One loss of one mini-batch."""
    batch = objective.batch(_keys(), 0)
    return lambda: objective.loss(batch)


def mezo(objective: MiniLM, *, radius: float = 1e-3, eta: float = 1e-6) -> Work:
    """A step as MeZO makes it: two losses, a direction drawn four times, weights moved in place."""
    parameters = list(objective.trained.values())
    batch = objective.batch(_keys(), 0)

    def perturb(scale: float) -> None:
        torch.manual_seed(0)
        for parameter in parameters:
            z = torch.normal(0.0, 1.0, parameter.shape)
            parameter.data = parameter.data + scale * radius * z

    def step() -> None:
        perturb(1)
        above = objective.loss(batch)
        perturb(-2)
        below = objective.loss(batch)
        perturb(1)
        slope = float(above - below) / (2 * radius)
        torch.manual_seed(0)
        for parameter in parameters:
            z = torch.normal(0.0, 1.0, parameter.shape)
            parameter.data = parameter.data - eta * slope * z

    return step


def steps(objective: WeightsObjective, **settings: Any) -> Work:
    """Steps of the loop, one after the other, the updates too small to lead anywhere."""
    config = parse_config(
        {"estimator": "align", "q": 1, "update": "sgd", "step": "constant", "eta": 1e-12}
        | {"budget": 10**6, "memory": "fast"}
        | settings
    )
    loop = Loop(config, objective)
    state = loop.init()

    def step() -> None:
        nonlocal state
        state = loop.step(state)

    return step


@torch.no_grad()
def speed(rounds: int, on_case: Callable[[str], None]) -> Iterator[ModelFigure]:
    """Steps beside their forward passes, and the exact projection beside averaging."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from _beside_forwards(rounds, on_case)
        for name, block_bytes, wanted in (
            ("kept", KEPT, 1.1),
            ("partly kept", PARTLY, 1.3),
            ("replayed", REPLAYED, 1.3),
        ):
            on_case(f"align beside avg, directions {name}")
            yield _align_beside_avg(name, block_bytes, wanted, rounds)
        on_case("the head, with outputs of the model that are kept")
        yield _head_computed_once(rounds)
    finally:
        torch.set_num_threads(threads)


def _beside_forwards(rounds: int, on_case: Callable[[str], None]) -> Iterator[ModelFigure]:
    objective = MiniLM()
    cases: dict[str, tuple[Work, int, float | None]] = {
        "MeZO": (mezo(MiniLM()), 2, None),
        "gaussian q=4": (steps(objective, q=4, estimator="avg", block_bytes=KEPT), 5, 1.6),
        "gaussian q=4, replayed": (
            steps(objective, q=4, estimator="avg", block_bytes=REPLAYED),
            5,
            None,
        ),
        "gaussian q=4, all rows": (
            steps(objective, q=4, estimator="avg", block_bytes=KEPT, embedding_rows="all"),
            5,
            None,
        ),
        "rademacher q=4": (
            steps(objective, q=4, estimator="avg", directions="rademacher"),
            5,
            1.3,
        ),
    }
    works = {FORWARD: forward_pass(objective)} | {name: case[0] for name, case in cases.items()}
    on_case("steps beside their forward passes")
    times = interleave(works, rounds=rounds)
    for name, (_, forwards, wanted) in cases.items():
        pairs = zip(times[name], times[FORWARD], strict=True)
        ratio = median(step / (forwards * once) for step, once in pairs)
        took = f"{1e3 * median(times[name]):.0f} ms"
        yield ModelFigure(name, f"its {forwards} forward passes", ratio, wanted, took)


def _align_beside_avg(name: str, block_bytes: int, wanted: float, rounds: int) -> ModelFigure:
    objective = MiniLM()
    works = {
        estimator: steps(objective, q=10, estimator=estimator, block_bytes=block_bytes)
        for estimator in ("avg", "align")
    }
    times = interleave(works, rounds=rounds)
    ratio = median(a / b for a, b in zip(times["align"], times["avg"], strict=True))
    took = f"{1e3 * median(times['align']):.0f} ms"
    return ModelFigure(f"align q=10, {name}", f"avg q=10, {name}", ratio, wanted, took)


def _head_computed_once(rounds: int) -> ModelFigure:
    once, always = head_only()
    works = {
        name: steps(objective, q=4, estimator="avg")
        for name, objective in (("once", once), ("always", always))
    }
    times = interleave(works, rounds=rounds)
    ratio = median(a / b for a, b in zip(times["once"], times["always"], strict=True))
    took = f"{1e3 * median(times['once']):.1f} ms"
    return ModelFigure("head q=4, computed once", "head q=4, always", ratio, 0.1, took)


def memory(on_case: Callable[[str], None]) -> ModelFigure:
    """A lean step on a model of Qwen3-0.6B's shape, over what inference takes; a process each."""
    found = {}
    for what in ("inference", "step"):
        on_case(f"memory of {what} on 0.6 billion weights")
        command = [sys.executable, "-m", "zotune.bench.lm_memory", what]
        with supervised(command, stdout=subprocess.PIPE, stderr=None) as process:
            said, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{shlex.join(command)} ended with code {process.returncode}")
        found[what] = json.loads(said.splitlines()[-1])
    ratio = found["step"] / found["inference"]
    peak = f"{found['step'] / 2**30:.2f} GiB"
    return ModelFigure("Qwen3-0.6B shape, lean q=2", "inference's peak memory", ratio, 1.15, peak)


def lm(
    *, rounds: int = 3, on_case: Callable[[str], None] = lambda case: None
) -> Iterator[ModelFigure]:
    """All figures."""
    yield from speed(rounds, on_case)
    yield memory(on_case)


def _keys() -> Keys:
    from zotune.addresses import replicate_keys

    return replicate_keys("batches", 0, [0])


def table(measurements: list[ModelFigure]) -> Table:
    """Measurements for a person; what was to be reached stands beside what was."""
    from rich.table import Table

    shown = Table("case", "beside", title="A step on a language model's weights")
    for column in ("ratio", "to reach", "itself"):
        shown.add_column(column, justify="right")
    for m in measurements:
        wanted = "" if m.wanted is None else f"{m.wanted:.2f}"
        shown.add_row(m.case, m.beside, f"{m.ratio:.2f}", wanted, m.amount)
    return shown
