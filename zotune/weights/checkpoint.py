"""Weights, step and scalar log on disk: one safetensors file, whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from zotune.budget import EVALUATIONS, Ledger
from zotune.checkpoint import FORMAT, WEIGHTS, require_same
from zotune.config import Config
from zotune.curve import above
from zotune.errors import CheckpointError
from zotune.grid import budget_grid
from zotune.weights.loop import WeightsLoop
from zotune.weights.scalars import SCALARS, ScalarLog
from zotune.weights.state import Point, WeightsState, curve_rows

if TYPE_CHECKING:
    import pandas as pd

_WEIGHTS = "weights."
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
}


@dataclass(frozen=True, repr=False)
class WeightsRun:
    """What came out of a descent on weights: the curve, and where the weights are."""

    config: Config
    state: WeightsState
    status: str
    path: Path
    """The checkpoint; ``weights`` reads them from there."""
    minimum: float | None = None
    """Never known."""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The curve as records, one a point of the grid, with the last step at or before it."""
        grid = budget_grid(self.config.budget, self.config.points)
        return curve_rows(self.state.curve, grid, spent=self.spent, status=self.status)

    @property
    def spent(self) -> int:
        """What was charged; less than the budget where its rest buys no direction."""
        ledger = self.state.ledger
        return ledger.evaluations if self.config.count == EVALUATIONS else ledger.queries

    @property
    def curve(self) -> pd.DataFrame:
        """Rows on the grid of spent budget, from 0 to the last."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    @property
    def best_loss(self) -> float:
        """The lowest validation loss that was looked at; the weights are those of the end."""
        return self.state.best_loss

    def weights(self) -> dict[str, Tensor]:
        """The trained parameters by name, as the run left them; load them with ``strict=False``."""
        with safe_open(self.path, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(_WEIGHTS)]  # noqa: SIM118
            return {name.removeprefix(_WEIGHTS): file.get_tensor(name) for name in names}

    def __repr__(self) -> str:
        c, first, last = self.config, self.rows[0]["loss"], self.rows[-1]
        return (
            f"WeightsRun({c.estimator} q={c.q}, {self.status} after {self.spent} of "
            f"{c.budget} {c.count}, loss {last['loss']:.6g}{above(last['loss'], first)}, "
            f"best {self.best_loss:.6g})"
        )


def save_weights(loop: WeightsLoop, state: WeightsState, path: Path, **notes: Any) -> Path:
    """Write weights and state, and the scalar log beside them; each is whole or the old one."""
    loop.require_weights_of(state)
    if loop.log_is_whole:
        ScalarLog.of(loop).save(path.with_name(SCALARS))
    plain = {f.name: getattr(state, f.name) for f in fields(state) if f.name != "curve"}
    header = {
        "format": FORMAT,
        "kind": WEIGHTS,
        "fingerprint": loop.fingerprint(),
        "log_is_whole": loop.log_is_whole,
        "state": plain | {"ledger": asdict(state.ledger)},
        "notes": notes | {"config": loop.config.model_dump(), "status": loop.status(state)},
    }
    tensors = {_WEIGHTS + name: p.data for name, p in loop.objective.trained.items()}
    tensors["velocity"] = loop.updater.velocity
    tensors["log.factors"] = torch.tensor(
        [a for step in loop.log for a in step], dtype=torch.float64
    )
    tensors["log.sizes"] = torch.tensor([len(step) for step in loop.log], dtype=torch.int64)
    points = [point.numbers() for point in state.curve]
    tensors["curve"] = torch.tensor(points, dtype=torch.float64)
    return write_tensors(path, tensors, {"zotune": json.dumps(header)})


def load_weights(loop: WeightsLoop, path: Path) -> tuple[WeightsState, dict[str, Any]]:
    """Put a checkpoint's weights into the loop's module; the state and the notes beside them."""
    header = read_header(path)
    require_same(path, header["fingerprint"], json.loads(json.dumps(loop.fingerprint())))
    with safe_open(path, framework="pt") as file:
        for name, parameter in loop.objective.trained.items():
            parameter.data.copy_(file.get_tensor(_WEIGHTS + name))
        velocity = file.get_tensor("velocity")
        factors, sizes = file.get_tensor("log.factors"), file.get_tensor("log.sizes")
        state = _state(header, file.get_tensor("curve"))
    if len(velocity) == len(loop.updater.velocity):
        loop.updater.velocity.copy_(velocity)
    log = [part.tolist() for part in torch.split(factors, sizes.tolist())]
    before = Config(**header["notes"]["config"])
    whole = header["log_is_whole"] and same_draws(loop.config, before)
    loop.continue_from(state, log, log_is_whole=whole)
    return loop.adopt(state), header["notes"]


def same_draws(one: Config, other: Config) -> bool:
    """Whether two configurations move weights alike by the same factors."""
    keys = ("seed", "replicate", "directions", "embedding_rows", "momentum")
    return all(getattr(one, key) == getattr(other, key) for key in keys)


def load_weights_run(path: Path) -> WeightsRun:
    """The run behind a checkpoint, without its module."""
    header = read_header(path)
    with safe_open(path, framework="pt") as file:
        state = _state(header, file.get_tensor("curve"))
    notes = header["notes"]
    return WeightsRun(Config(**notes["config"]), state, notes["status"], path)


def read_header(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself; a damaged or foreign file is refused."""
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}; it should be a file that zotune wrote")
    try:
        with safe_open(path, framework="pt") as file:
            header: dict[str, Any] = json.loads((file.metadata() or {})["zotune"])
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path} is not a whole zotune checkpoint ({error}); "
            "it may be cut short or from another program"
        ) from None
    if (header.get("format"), header.get("kind")) != (FORMAT, WEIGHTS):
        raise CheckpointError(
            f"{path} does not hold the weights of a model in format {FORMAT}; "
            "use the problem and the version that wrote it"
        )
    return header


def _state(header: Mapping[str, Any], curve: Tensor) -> WeightsState:
    plain = header["state"] | {"ledger": Ledger(**header["state"]["ledger"])}
    return WeightsState(**plain, curve=tuple(Point.of(numbers) for numbers in curve.tolist()))


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Path:
    """A safetensors file, one tensor after the other: no second copy of the weights in memory.

    It is written beside its place, synced and renamed: a crash leaves the old file or the new one.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.itemsize
        shape = list(tensor.shape)
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": shape,
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for tensor in tensors.values():
                tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tofile(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
