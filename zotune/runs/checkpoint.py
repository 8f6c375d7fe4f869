"""Checkpoints: one safetensors file, written atomically, without pickle.

The file holds a format number, the complete configuration, the facts that a resumed run must match
(the fingerprint), and every tensor of the state. For models it also holds the weights and the
scalar log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from zotune.config import recorded_config
from zotune.core.budget import Ledger
from zotune.core.curve import Curve
from zotune.core.provenance import provenance
from zotune.core.state import FlatStart, LaneState, State, Told
from zotune.core.tensors import write_tensors
from zotune.directions import DIRECTIONS
from zotune.directions.addressed import require_digest
from zotune.errors import CheckpointError
from zotune.iterates.weights import BEST, WEIGHTS
from zotune.loop import Loop

FORMAT = 4
ALIGNMENT = 64
"""Alignment of torch's own tensors in bytes."""
DRAWN, OF_DRAWS = "drawn", ("directions", "seed", "replicate", "replicates")
"""Key of a hash of the next direction, and the settings that it depends on."""
_PLAIN = ("steps", "lost", "q", "looked", "next_q", "rule", "failed", "repeats", "batches")
_NESTED = {"slots": "slot", "metrics": "metric"}
_TOLD = ("start", "outputs", "residuals", "jacobian")
"""Tensors of ``Told`` that may be missing."""
_FLOATS = ("average_weight", "batch_losses")
_APART = {*_PLAIN, *_FLOATS, *_NESTED, "ledger", "numbers", "curve", "told", "center", "flat"}
_TENSORS = [f.name for f in fields(LaneState) if f.name not in _APART]


def save_loop(loop: Loop, state: State, path: Path, **notes: Any) -> Path:
    """Write the state of a loop, readable without the objective.

    Args:
        loop: the loop of the state.
        state: the state to save.
        path: the file.
        notes: additional JSON data to store.
    """
    loop.iterate.require_at(state.lanes[0])
    header = {
        "format": FORMAT,
        "fingerprint": loop.fingerprint(),
        "lanes": [_plain(lane) for lane in state.lanes],
        "notes": notes
        | {
            "config": loop.config.model_dump(),
            "status": loop.status(state),
            "minimum": loop.minimum,
            "smoothness_estimated": loop.estimates_smoothness,
            "chosen": loop.chosen(state),
            DRAWN: loop.drawn(state),
            "provenance": provenance(loop.objective),
        }
        | loop.iterate.notes(),
    }
    tensors: dict[str, Tensor] = {}
    for index, lane in enumerate(state.lanes):
        tensors |= {f"{index}.{name}": tensor for name, tensor in _tensors(lane).items()}
    loop.iterate.save_beside(path)
    return write_tensors(path, tensors | loop.iterate.tensors(), {"zotune": json.dumps(header)})


def load_loop(loop: Loop, path: Path) -> tuple[State, dict[str, Any]]:
    """Read a state for this loop to continue, and the notes saved with it."""
    header, tensors = read(path, device=str(loop.iterate.device))
    require_same(path, header["fingerprint"], json.loads(json.dumps(loop.fingerprint())))
    method = recorded_config(header["notes"]["config"]).method
    if method != loop.config.method:
        raise CheckpointError(
            f"{path} belongs to another run: its method is {method!r}, this run's is "
            f"{loop.config.method!r}"
        )
    state = _state(path, header, tensors)
    _require_same_draws(loop, state, header["notes"])
    first = loop.iterate.restore(state.lanes[0], tensors, header["notes"])
    state = State((first, *state.lanes[1:]))
    return loop.adopt(state), header["notes"]


def load_state(path: Path) -> tuple[State, dict[str, Any]]:
    """Read a state, without weights, and the notes saved with it."""
    header, tensors = read(path, without=(WEIGHTS, BEST))
    return _state(path, header, tensors), header["notes"]


def read_weights(path: Path, *, best: bool = False) -> dict[str, Tensor]:
    """The trained parameters in a checkpoint, by name; empty if the best ones were not kept."""
    prefix = BEST if best else WEIGHTS
    with safe_open(path, framework="pt") as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
        return {name.removeprefix(prefix): file.get_tensor(name) for name in names}


def aligned(tensor: Tensor) -> Tensor:
    """The tensor in aligned memory; a tensor read from a file may have any address.

    Some processors sum unaligned data in another order, and a resumed run would then differ from an
    uninterrupted one in the last digits.
    """
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor


def read_header(path: Path) -> dict[str, Any]:
    """The header of a checkpoint; raises an error for a damaged or foreign file."""
    return read(path, without="")[0]


def charged_in(path: Path) -> int:
    """Total budget spent by all replicates of a saved run, in the unit of its ``count``."""
    header = read_header(path)
    config, lanes = header["notes"]["config"], header["lanes"]
    rows = int(config["replicates"]) // len(lanes)
    return sum(Ledger(**lane["ledger"]).spent(config["count"]) * rows for lane in lanes)


def read(
    path: Path, *, device: str = "cpu", without: str | tuple[str, ...] | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a checkpoint.

    Args:
        path: the file.
        device: device for the tensors.
        without: prefixes of names to leave out.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}; it should be a file that zotune wrote")
    try:
        with safe_open(path, framework="pt", device=device) as file:
            header = json.loads((file.metadata() or {})["zotune"])
            names = [
                name
                for name in file.keys()  # noqa: SIM118
                if without is None or not name.startswith(without)
            ]
            tensors = {name: aligned(file.get_tensor(name)) for name in names}
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path} is not a whole zotune checkpoint ({error}); "
            "it may be cut short or from another program"
        ) from None
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has checkpoint format {header.get('format')!r}, this zotune reads {FORMAT}; "
            "use the version that wrote it"
        )
    return header, tensors


def require_same(path: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise an error if the fingerprint of a checkpoint differs from that of the run."""
    for key in sorted({*saved, *wanted}):
        if saved.get(key) != wanted.get(key):
            raise CheckpointError(
                f"{path} belongs to another run: it has {key}={saved.get(key)!r}, "
                f"this run has {key}={wanted.get(key)!r}"
            )


def _require_same_draws(loop: Loop, state: State, notes: Mapping[str, Any]) -> None:
    """Raise an error if a user's directions differ from those that the saved run would have drawn.

    A checkpoint of other directions, or of another seed, is continued by this run's own.
    """
    saved, now = recorded_config(notes["config"]), loop.config
    same = all(getattr(saved, key) == getattr(now, key) for key in OF_DRAWS)
    if same and notes.get(DRAWN):
        kind = DIRECTIONS[now.directions]
        require_digest(kind, notes[DRAWN], loop.drawn(state), state.lanes[0].steps)


def _plain(lane: LaneState) -> dict[str, Any]:
    return {name: getattr(lane, name) for name in _PLAIN} | {
        "ledger": asdict(lane.ledger),
        **{name: float(getattr(lane, name)).hex() for name in _FLOATS},
        "numbers": {name: value.hex() for name, value in lane.numbers.items()},
        "flat": None if (f := lane.flat) is None else [f.mu.hex(), f.tried, f.goes_on],
        "told": None if (t := lane.told) is None else [t.planned, t.stamp, t.before],
    }


def _tensors(lane: LaneState) -> dict[str, Tensor]:
    tensors = {name: getattr(lane, name) for name in _TENSORS}
    for name, prefix in _NESTED.items():
        tensors |= {f"{prefix}.{key}": value for key, value in getattr(lane, name).items()}
    if lane.center is not None:
        tensors["center"] = lane.center
    if lane.told is not None:
        tensors["told"] = lane.told.values
        kept = {f"told.{name}": getattr(lane.told, name) for name in _TOLD}
        tensors |= {name: tensor for name, tensor in kept.items() if tensor is not None}
    return tensors | {f"curve.{name}": value for name, value in lane.curve.stacked().items()}


def _state(path: Path, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> State:
    try:
        return State(
            tuple(_lane(plain, tensors, f"{at}.") for at, plain in enumerate(header["lanes"]))
        )
    except KeyError as missing:
        raise CheckpointError(
            f"{path} does not hold a state of this zotune; it lacks {missing}"
        ) from None


def _lane(plain: Mapping[str, Any], tensors: Mapping[str, Tensor], prefix: str) -> LaneState:
    own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    nested: dict[str, Any] = {name: _under(own, f"{inside}.") for name, inside in _NESTED.items()}
    curve = {name: value.cpu() for name, value in _under(own, "curve.").items()}
    told = plain["told"]
    found: dict[str, Any] = {name: own[name] for name in _TENSORS}
    found |= {name: plain[name] for name in _PLAIN}
    found |= {name: float.fromhex(plain[name]) for name in _FLOATS}
    return LaneState(
        **found,
        **nested,
        ledger=Ledger(**plain["ledger"]),
        center=own.get("center"),
        flat=None if (f := plain["flat"]) is None else FlatStart(float.fromhex(f[0]), *f[1:]),
        numbers={name: float.fromhex(value) for name, value in plain["numbers"].items()},
        curve=Curve.of(curve),
        told=None if told is None else _told(told, own),
    )


def _told(plain: Sequence[Any], own: Mapping[str, Tensor]) -> Told:
    planned, stamp, before = plain
    kept = {name: own[key].cpu() for name in _TOLD if (key := f"told.{name}") in own}
    return Told(own["told"].cpu(), tuple(planned), stamp, before=before, **kept)


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
