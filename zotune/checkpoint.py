"""States on disk: one safetensors file, whole or not at all, no pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from zotune.budget import Ledger
from zotune.curve import TENSORS, Curve
from zotune.errors import CheckpointError
from zotune.state import State

FORMAT = 1
FILENAME = "state.safetensors"
WEIGHTS = "weights"
"""The kind of a checkpoint that holds the weights of a model; others name none."""
_PLAIN = {"steps", "lost", "ledger", "average_weight", "curve"}
_CURVE = ("counters", *TENSORS)
_NAMES = {f.name for f in fields(State)} - _PLAIN | {f"curve.{name}" for name in _CURVE}


def save_state(
    state: State, path: str | Path, fingerprint: Mapping[str, Any], **notes: Any
) -> Path:
    """Write the state to ``path``; a reader sees the old file or the new one, never a part.

    Args:
        state: what to save.
        path: the file.
        fingerprint: what a run must agree on to continue from here.
        notes: anything else to keep with it, as JSON.
    """
    header = {
        "format": FORMAT,
        "fingerprint": dict(fingerprint),
        "steps": state.steps,
        "lost": state.lost,
        "ledger": asdict(state.ledger),
        "average_weight": state.average_weight.hex(),
        "notes": notes,
    }
    return write_whole(Path(path), save(_tensors(state), {"zotune": json.dumps(header)}))


def load_state(
    path: str | Path, fingerprint: Mapping[str, Any] | None = None, *, device: str = "cpu"
) -> tuple[State, dict[str, Any]]:
    """Read a state and the notes saved with it; a damaged or foreign file is refused.

    Args:
        path: the file.
        fingerprint: what the reader expects; None takes any.
        device: where the points go.
    """
    header, tensors = _read(Path(path), device)
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has checkpoint format {header.get('format')!r}, this zotune reads {FORMAT}; "
            "use the version that wrote it"
        )
    if fingerprint is not None:
        require_same(Path(path), header["fingerprint"], json.loads(json.dumps(dict(fingerprint))))
    if tensors.keys() != _NAMES:
        odd = ", ".join(sorted(tensors.keys() ^ _NAMES))
        raise CheckpointError(f"{path} does not hold a state of this zotune; it differs in {odd}")
    curve = {name: tensors.pop(f"curve.{name}").cpu() for name in _CURVE}
    state = State(
        **tensors,
        steps=header["steps"],
        lost=header["lost"],
        ledger=Ledger(**header["ledger"]),
        average_weight=float.fromhex(header["average_weight"]),
        curve=Curve.of(curve),
    )
    return state, header["notes"]


def holds_weights(path: Path) -> bool:
    """Whether a checkpoint is one of a model's weights, which ``zotune.weights`` reads."""
    try:
        with safe_open(path, framework="pt") as file:
            return bool(json.loads((file.metadata() or {})["zotune"]).get("kind") == WEIGHTS)
    except (SafetensorError, KeyError, ValueError, OSError):
        return False


def write_whole(path: Path, content: bytes) -> Path:
    """Write to a temporary file, sync it and rename: a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _tensors(state: State) -> dict[str, Tensor]:
    parts = {f.name: getattr(state, f.name) for f in fields(State)}
    tensors = {name: part for name, part in parts.items() if isinstance(part, Tensor)}
    tensors |= {f"curve.{name}": part for name, part in state.curve.stacked().items()}
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _read(path: Path, device: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}; it should be a file that zotune wrote")
    try:
        with safe_open(path, framework="pt", device=device) as file:
            header = json.loads((file.metadata() or {})["zotune"])
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path} is not a whole zotune checkpoint ({error}); "
            "it may be cut short or from another program"
        ) from None


def require_same(path: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that differs in what a run must agree on."""
    for key in sorted({*saved, *wanted}):
        if saved.get(key) != wanted.get(key):
            raise CheckpointError(
                f"{path} belongs to another run: it has {key}={saved.get(key)!r}, "
                f"this run has {key}={wanted.get(key)!r}"
            )
