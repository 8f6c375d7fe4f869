"""``Minimizer``: the ask/tell interface, for functions that the caller evaluates elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open

from zotune.config import Config, parse_config
from zotune.core.merit import merit
from zotune.core.names import RUNNING
from zotune.core.state import LaneState, State
from zotune.core.tensors import write_tensors
from zotune.directions import DIRECTIONS
from zotune.directions.addressed import require_digest
from zotune.errors import CheckpointError, ConfigError
from zotune.iterates import Answer, Program, Request
from zotune.loop import Loop
from zotune.objectives import dimension_of, objective
from zotune.objectives.checks import short
from zotune.objectives.residuals import residual_row, residual_rows
from zotune.runs.checkpoint import aligned
from zotune.runs.run import Run, run_of
from zotune.runs.stopping import end_of

FORMAT = 2
_STOP = "look at result.best_loss, or at a clock, and ask no more when you have enough"
NOT_HERE = dict.fromkeys(("target", "ftol", "xtol", "seconds"), _STOP) | {
    "workers": "whoever calls it evaluates; all points of one ask can be evaluated side by side",
    "worker": "whoever calls it evaluates",
    "failures": "tell inf or NaN for an evaluation that has failed",
    "checkpoint": "save(file) writes it, and Minimizer.load(file) reads it",
    "progress": "its result says how much is spent",
    "metrics": "compute them where you evaluate",
    "data": "whoever calls it evaluates",
}
"""Arguments of ``minimize`` that a Minimizer does not have, with what to do instead."""


class Points:
    """A batch of points that can be evaluated in parallel.

    Supports ``len()``, iteration over rows, and ``np.asarray`` of shape (n, d). ``ids`` identify
    the points in ``tell``, and ``charged`` says whether they count against the budget.
    """

    def __init__(self, rows: npt.NDArray[np.float64], ids: Sequence[int], *, charged: bool) -> None:
        self._rows = rows
        self.ids = list(ids)
        self.charged = [charged] * len(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[npt.NDArray[np.float64]]:
        return iter(self._rows)

    def __getitem__(self, index: int) -> npt.NDArray[np.float64]:
        row: npt.NDArray[np.float64] = self._rows[index]
        return row

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float64]:
        return np.array(self._rows, dtype=dtype)

    def __repr__(self) -> str:
        first, last = (self.ids[0], self.ids[-1]) if self.ids else (None, None)
        return f"Points({len(self)} of dimension {self._rows.shape[1]}, ids {first} to {last})"


class Minimizer:
    """Minimise a function that is evaluated elsewhere: ask for points, tell their values.

    It takes the same steps as ``minimize`` and, for functions whose values do not depend on the
    batch, gives the same bits. Values may be told in any order and in parts, by the points' ids. It
    can be saved, pickled or copied between any ask and tell; after loading, points without a value
    are asked for again under the same ids, and charged once.

    Args:
        x0: the start, (d,).
        budget: how many points are asked for at most (directions if ``count`` says so).
        residuals: the number m of residuals, if the function returns a vector of them; ``tell``
            then takes arrays (n, m), and what is minimised is their sum of squares Σ r².
        settings: as for ``minimize``; without any, the method is chosen automatically.

    >>> import zotune
    >>> m = zotune.Minimizer([0.0, 0.0], budget=60)
    >>> while not m.done:
    ...     m.tell([(x[0] - 1) ** 2 + 10 * (x[1] + 2) ** 2 for x in m.ask()])
    >>> m.result.best_loss < 1e-8
    True
    """

    def __init__(self, x0: Any, *, budget: int, residuals: int = 0, **settings: Any) -> None:
        dimension_of(x0)
        start = torch.as_tensor(x0, dtype=torch.float64).detach()
        for key in settings:
            if key in NOT_HERE:
                raise ConfigError(f"a Minimizer takes no {key}: {NOT_HERE[key]}")
        if residuals is True:
            raise ConfigError(
                "a Minimizer needs to know how many residuals are told for a point, got "
                "residuals=True; give their number, residuals=m"
            )
        if settings.get("replicates", 1) != 1:
            raise ConfigError(
                f"a Minimizer is one run, got replicates={settings['replicates']}; "
                "make one Minimizer for each"
            )
        problem = {"name": "ask-tell", "dim": dimension_of(start)}
        told = {"budget": budget, "problem": problem, **settings}
        self._begin(parse_config(told), start, residuals or False)

    def _begin(self, config: Config, start: torch.Tensor, residuals: int | bool) -> None:
        self._start = start
        target = objective(_not_here, start.shape[-1], residuals=residuals, name="ask-tell")
        self._target = target
        self._loop = Loop(config, target, start)
        (self._lane,) = self._loop.lanes
        self._state: LaneState | None = None
        self._answers: list[npt.NDArray[np.float64]] = []
        self._partial: dict[int, Any] = {}
        """Values by id, or rows of residuals."""
        self._first = 0
        """The id of the first point of the current request."""
        self._program = self._whole()
        self._request: Request | None = None
        self._go_on(None)

    @property
    def done(self) -> bool:
        """Whether no more points are asked for."""
        return self._request is None

    def ask(self) -> Points:
        """All points that can be evaluated in parallel and have no value yet."""
        if self._request is None:
            raise ConfigError("this Minimizer is done; take its result")
        missing = [i for i in range(len(self._rows)) if self._first + i not in self._partial]
        ids = [self._first + i for i in missing]
        return Points(self._rows[missing], ids, charged=self._request.charged)

    def tell(self, values: Any, ids: Sequence[int] | None = None) -> None:
        """Pass values of the points of the last ``ask``: all of them in order, or some by id.

        inf and NaN mean failed evaluations; under ``auto`` they reject the point. With
        ``residuals=m`` an array (n, m); a single inf or NaN in a row says that it has failed.
        """
        asked = self.ask().ids
        ids = asked if ids is None else [int(i) for i in ids]
        numbers = self._numbers(values, len(ids))
        if len(numbers) != len(ids):
            raise ConfigError(
                f"tell needs one value a point: {len(ids)} points, got {len(numbers)} values"
            )
        unknown = [i for i in ids if i not in asked]
        if unknown:
            raise ConfigError(
                f"point {unknown[0]} is not asked for now; asked for are the ids "
                f"{asked[0]} to {asked[-1]} that have no value yet"
            )
        self._partial |= dict(zip(ids, numbers, strict=True))
        if len(self._partial) == len(self._rows):
            answer = np.array([self._partial[self._first + i] for i in range(len(self._rows))])
            self._first += len(self._rows)
            self._partial = {}
            self._answers.append(answer)
            self._go_on(answer)

    def _numbers(self, values: Any, n: int) -> npt.NDArray[np.float64]:
        """Values, (n,), or residuals, (n, m), of n points."""
        if not self._target.residuals:
            return _numbers(values)
        return residual_rows([residual_row(one) for one in values], n, self._target.residuals)

    @property
    def result(self) -> Run:
        """The result so far; final once ``done`` is true."""
        if self._state is None:
            raise ConfigError("there is no result before the value at the start; tell it first")
        state = State((self._state,))
        return run_of(self._loop, state, end_of(self._loop, state))

    def save(self, path: str | Path) -> Path:
        """Write the whole state to a file, atomically."""
        header, tensors = self._values_told()
        return write_tensors(Path(path), tensors, {"zotune.minimizer": json.dumps(header)})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values that were told, which are replayed; also what ``copy`` does."""
        header, tensors = self._values_told()
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return _unpickled, (type(self), header, arrays)

    def _values_told(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """The state as plain values and tensors."""
        header = {
            "format": FORMAT,
            "config": self._loop.config.model_dump(),
            "sizes": [len(answer) for answer in self._answers],
            "residuals": self._target.residuals,
            "drawn": self._drawn(),
        }
        ids = torch.tensor(sorted(self._partial), dtype=torch.int64)
        partial = [self._partial[int(i)] for i in ids]
        tensors = {
            "start": self._start,
            "answers": self._rows_of(self._answers),
            "partial.ids": ids,
            "partial.values": self._rows_of([np.array(partial)] if partial else []),
        }
        return header, tensors

    def _rows_of(self, answers: Sequence[npt.NDArray[np.float64]]) -> torch.Tensor:
        """Values as (n,), or residuals as (n, m)."""
        m = int(self._target.residuals)
        none = np.zeros((0, m)) if m else np.zeros(0)
        return torch.from_numpy(np.concatenate(answers) if answers else none)

    @classmethod
    def load(cls, path: str | Path) -> Minimizer:
        """Load a Minimizer written by ``save``, by replaying its values."""
        return cls._replayed(*_read(Path(path)))

    @classmethod
    def _replayed(cls, header: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Minimizer:
        """A Minimizer with this configuration that is told these values."""
        self = object.__new__(cls)
        settled = header["residuals"]
        self._begin(parse_config(header["config"]), tensors["start"], settled)
        parts = np.split(tensors["answers"].numpy(), np.cumsum(header["sizes"])[:-1])
        for answer in parts if header["sizes"] else []:
            self.tell(answer)
        ids = tensors["partial.ids"].tolist()
        if ids:
            self.tell(tensors["partial.values"].numpy(), ids)
        kind, steps = DIRECTIONS[self._loop.config.directions], getattr(self._state, "steps", 0)
        require_digest(kind, header.get("drawn", ""), self._drawn(), steps)
        return self

    def _drawn(self) -> str:
        """A hash of a direction that a loaded Minimizer draws again; empty for zotune's own."""
        return "" if self._state is None else self._lane.drawn(self._state)

    def _whole(self) -> Program[None]:
        """The program of the run from start to end."""
        lane = self._lane
        self._state = yield from lane.begin()
        while lane.status(self._state) == RUNNING:
            self._state = yield from lane.stepping(self._state)
        self._state = yield from lane.ending(self._state)

    def _go_on(self, answer: npt.NDArray[np.float64] | None) -> None:
        """Run the program to its next request."""
        sent = None
        if answer is not None and self._request is not None:
            told = torch.from_numpy(answer)
            outputs = told[None] if self._target.residuals else None
            values = told if outputs is None else merit(told)
            sent = Answer(values[None] if self._request.charged else values, outputs=outputs)
        try:
            with torch.no_grad():
                self._request = next(self._program) if sent is None else self._program.send(sent)
        except StopIteration:
            self._request = None
            return
        assert self._request.points is not None  # x is a vector
        self._rows = self._request.points()[0].clone().numpy()


def _numbers(values: Any) -> npt.NDArray[np.float64]:
    """Values as numbers; NaN is allowed, for a failed evaluation."""
    try:
        if values is None or (isinstance(values, list | tuple) and None in values):
            raise TypeError  # numpy takes None for NaN
        return np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise ConfigError(
            f"tell needs numbers, one a point, got {short(values)}; "
            "inf or NaN says that an evaluation has failed"
        ) from None


def _unpickled(
    kind: type[Minimizer], header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> Minimizer:
    """The Minimizer of a pickle."""
    return kind._replayed(header, {name: torch.tensor(a) for name, a in arrays.items()})


def _read(path: Path) -> tuple[Mapping[str, Any], dict[str, torch.Tensor]]:
    """Header and tensors of a saved Minimizer; raises an error for other files."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["zotune.minimizer"])
            tensors = {name: aligned(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path} is not a whole Minimizer ({error}); it should be a file that save wrote"
        ) from None
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {header.get('format')!r}, this zotune reads {FORMAT}; "
            "use the version that wrote it"
        )
    return header, tensors


def _not_here(x: torch.Tensor) -> float:
    raise ConfigError("a Minimizer does not evaluate; ask for points and tell their values")
