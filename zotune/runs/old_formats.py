"""Convert checkpoints of older formats to the current one, with the defaults of their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import nan
from typing import Any

import torch
from torch import Tensor

from zotune.runs.old_defaults import DEFAULTS_1, PROBLEM_DEFAULTS_1, config_of_format_2

_COUNTERS_1 = ("queries", "evaluations", "steps", "spent", "monitored")
_POINT_1 = (
    *("queries", "evaluations", "monitored", "steps", "spent", "loss", "best_loss"),
    *("accuracy", "train_loss", "unmoved", "diverged"),
)
"""Columns of the curve of a model's run."""
_ORDER = ("queries", "evaluations", "monitored", "steps", "q", "spent")


def from_format_1(
    header: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors converted to format 2."""
    notes = dict(header["notes"])
    config = notes["config"] = {**DEFAULTS_1, **notes["config"]}
    problem = config.get("problem") or {}
    defaults = PROBLEM_DEFAULTS_1.get(str(problem.get("name")), {})
    config["problem"] = {**defaults, **problem}
    convert = _weights if header.get("kind") == "weights" else _vectors
    plain, converted = convert(header, tensors, config["q"])
    if "log_is_whole" in header:  # in format 1 momentum also moved rows outside the mini-batch
        notes["log_is_whole"] = header["log_is_whole"] and not config["momentum"]
    notes.setdefault("minimum", None)
    new = {"format": 2, "fingerprint": header["fingerprint"], "lanes": [plain], "notes": notes}
    return new, converted


def from_format_2(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header converted to format 3; the tensors are the same as in format 2."""
    notes = dict(header["notes"])
    notes["config"] = config_of_format_2(notes["config"])
    return {**header, "format": 3, "notes": notes}


def _vectors(
    header: Mapping[str, Any], tensors: Mapping[str, Tensor], q: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Convert the state of a run on vectors, whose observations had fixed fields."""
    plain = {key: header[key] for key in ("steps", "lost", "ledger", "average_weight")}
    plain |= {"q": q if header["steps"] else 0, "looked": -1}
    new = {f"0.{n}": t for n, t in tensors.items() if not n.startswith("curve.")}
    if "curve.counters" not in tensors:
        return plain, new
    counters = dict(zip(_COUNTERS_1, tensors["curve.counters"].unbind(-1), strict=True))
    new["0.curve.counters"] = _counters(counters, q)
    for name in ("loss", "best_loss", "diverged", "grad_norm2", "average_loss"):
        if tensors[f"curve.{name}"].shape[-1]:
            new[f"0.curve.{name}"] = tensors[f"curve.{name}"]
    diagnostics = tensors["curve.diagnostics"]
    if diagnostics.shape[-1]:
        for at, name in enumerate(("snr", "cosine", "unmoved")):
            new[f"0.curve.{name}"] = diagnostics[:, at : at + 1]
    return plain, new


def _weights(
    header: Mapping[str, Any], tensors: Mapping[str, Tensor], q: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Convert the state of a model's run, whose numbers were stored in the header."""
    was = header["state"]
    diverged = bool(was["diverged"])
    plain = {"steps": was["steps"], "lost": int(diverged), "ledger": was["ledger"]}
    plain |= {
        "q": q if was["steps"] else 0,
        "looked": was["validated"],
        "average_weight": (0.0).hex(),
    }
    new = {n: t for n, t in tensors.items() if n.startswith(("weights.", "log."))}
    if len(tensors.get("velocity", ())):
        new["slot.velocity"] = tensors["velocity"]
    nowhere = torch.zeros(1, 0)
    new |= {f"0.{name}": nowhere for name in ("x", "best_x", "average")}
    for name in ("loss", "start_loss", "best_loss"):
        new[f"0.{name}"] = _number(was[name])
    new["0.diverged"] = torch.tensor([diverged])
    new["0.inverse_smoothness"] = torch.full((1, 1), nan)
    for name in ("accuracy", "unmoved"):
        new[f"0.metric.{name}"] = _number(was[name])
    new["0.metric.train_loss"] = _number(nan)
    if was["batches"]:
        new["0.memory.batches"] = _number(was["batches"])
        new["0.memory.batch_losses"] = _number(was["batch_losses"])
    if "curve" in tensors and len(tensors["curve"]):
        columns = dict(zip(_POINT_1, tensors["curve"].unbind(-1), strict=True))
        new["0.curve.counters"] = _counters(columns, q)
        for name in ("loss", "best_loss", "accuracy", "train_loss", "unmoved"):
            new[f"0.curve.{name}"] = columns[name][:, None]
        new["0.curve.diverged"] = columns["diverged"][:, None].bool()
        new["0.metric.train_loss"] = columns["train_loss"][-1:]
    return plain, new


def _counters(columns: Mapping[str, Tensor], q: int) -> Tensor:
    """The counters of a curve in today's order, with block sizes added."""
    whole = {name: column.long() for name, column in columns.items() if name in _COUNTERS_1}
    blocks = _blocks(whole["steps"].tolist(), whole["queries"].tolist(), q)
    whole["q"] = torch.tensor(blocks, dtype=torch.int64)
    return torch.stack([whole[name] for name in _ORDER], -1)


def _blocks(steps: Sequence[int], queries: Sequence[int], q: int) -> list[int]:
    """The size of the last block before each observation: q, or less at the end of the budget."""
    found = [q if step else 0 for step in steps[:1]]
    for (step, spent), (next_step, next_spent) in pairwise(zip(steps, queries, strict=True)):
        last = next_spent - spent - (next_step - step - 1) * q
        cut = 0 < last < q and next_step > step
        found.append(last if cut else q)
    return found


def _number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)
