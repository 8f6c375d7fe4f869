"""The result of a run: the point, the curve, and why it ended; from memory or from disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from zotune.config import Config, recorded_config
from zotune.core.curve import above, rows_on_grid
from zotune.core.grid import budget_grid
from zotune.core.names import RUNNING
from zotune.core.pictures import pictures
from zotune.core.provenance import provenance
from zotune.core.state import State
from zotune.errors import CheckpointError, ZotuneError
from zotune.iterates import WeightsReader
from zotune.methods import Choice
from zotune.runs.checkpoint import load_state, read_weights
from zotune.runs.fit import Fit, fit_of
from zotune.runs.lookup import last_checkpoints
from zotune.runs.stopping import end_at
from zotune.steps import THEORY

if TYPE_CHECKING:
    import pandas as pd

    from zotune.loop import Loop
    from zotune.reporting.drawing import Drawing


@dataclass(frozen=True, repr=False)
class Run:
    """The result of a run: the point, the curve, and why the run ended.

    ``x`` has a row for each replicate. ``best_x`` is the best point among all charged ones; if the
    objective is stochastic or pure, among the points of the curve. For a model, use ``weights()``
    instead.
    """

    config: Config
    state: State
    status: str
    minimum: float | None = None
    """The minimum of the objective, if it is known."""
    smoothness_estimated: bool = False
    """Whether the step used an estimated L, for which the theory's bounds do not hold."""
    message: str = ""
    """Why the run ended, in words."""
    success: bool = True
    """Whether the target or a tolerance was met; if none was given, whether the budget was spent.
    False if no point was found to be better than the start (unless that meets the target), if most
    evaluations failed, or if the run continues or was ended by ``seconds`` or ``on_report``."""
    failed: int = 0
    """Number of evaluations without a finite value: inf, NaN, or an exception in ``failures``."""
    repeated: int = 0
    """Number of evaluations that were made again, beside ``nfev``, because a worker ended or was
    slow, or the run was continued from a checkpoint: the function was called at most ``nfev +
    repeated`` times."""
    chosen: Mapping[str, Choice] = field(default_factory=dict)
    """For each ``auto`` setting, what was chosen and why: ``.value``, ``.reason``."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Versions, machine, threads, CPU capability, and a hash of the function."""
    read_weights: WeightsReader | None = None
    """Reads the last or the best weights of a model's run."""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The curve as records, one per grid point, with the last step at or before it."""
        return rows_on_grid(
            [lane.curve for lane in self.state.lanes],
            budget_grid(self.config.budget, self.config.points),
            spent=self._reached,
            status=self.status,
            minimum=self.minimum,
        )

    @property
    def spent(self) -> int:
        """Spent budget; less than the budget if the rest does not cover another direction."""
        return self.state.ledger.spent(self.config.count)

    @property
    def nfev(self) -> int:
        """Total number of charged evaluations of the function, over all replicates."""
        each = 1 if len(self.state.lanes) > 1 else self.config.replicates
        return each * sum(lane.ledger.evaluations for lane in self.state.lanes)

    @property
    def x(self) -> Tensor:
        """The last point of each replicate, (replicates, d)."""
        return self._point(self.state.x).clone()

    @property
    def smoothness(self) -> Tensor | None:
        """The L used by ``step: theory``, (replicates,); None for other steps."""
        return (1 / self.state.inverse_smoothness[:, 0]) if self.config.step == THEORY else None

    @property
    def best_x(self) -> Tensor:
        """The best point of all replicates, (d,)."""
        return self._point(self.state.best_x)[int(self.state.best_loss.argmin())].clone()

    @property
    def best_loss(self) -> float:
        """The loss at ``best_x``; for a model the lowest validation loss that was evaluated."""
        return float(self.state.best_loss.min())

    @property
    def residuals(self) -> Tensor:
        """The residuals at ``best_x``, (m,), if the function returns them."""
        return self._fit.residuals.clone()

    @property
    def jacobian(self) -> Tensor:
        """The derivatives of the residuals at ``best_x``, (m, d), by differences.

        Of the last block of differences, updated by each point since; ``run.message`` says whether
        the run has converged. Only for methods that measure them, such as ``gauss-newton``.
        """
        return self._fit.jacobian.clone()

    @property
    def covariance(self) -> Tensor:
        """An estimate of the covariance of ``best_x``, (d, d): s² (JᵀJ)⁻¹, s² = Σ r² / (m − d).

        It holds to first order if the model is right, ``best_x`` is a minimum inside the bounds,
        and the errors of the residuals are independent with one variance and mean zero. Parameters
        that the data do not determine have variance inf. NaN if m ≤ d.
        """
        return self._fit.covariance

    @property
    def standard_errors(self) -> Tensor:
        """The roots of the diagonal of ``covariance``, (d,), with its assumptions."""
        return self._fit.covariance.diagonal().sqrt()

    @property
    def correlations(self) -> Tensor:
        """``covariance`` divided by both standard errors, (d, d), with its assumptions."""
        errors = self.standard_errors
        return self._fit.covariance / (errors[:, None] * errors)

    @property
    def _fit(self) -> Fit:
        return fit_of(self.state)

    @property
    def curve(self) -> pd.DataFrame:
        """The curve: one row per point of the grid of spent budgets."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def plot(self, *, measure: str | None = None) -> Drawing:
        """Plot the curve against spent budget, in the report's style; notebooks display it.

        ``.save_as(path)`` writes a PNG, SVG or PDF; ``.figure`` is the matplotlib figure.

        Args:
            measure: gap, loss, grad_norm2, best_gap, best_loss, or a name of your ``metrics``.
                Default: the gap if the minimum is known, else the loss; for the automatic method
                that of the best point.
        """
        drawing: Drawing = pictures().plot_runs([self], measure=measure)
        return drawing

    def _repr_html_(self) -> str:
        """For notebooks: the result, the chosen settings, and the curve."""
        return str(pictures().run_html(self))

    def weights(self, *, best: bool = False) -> dict[str, Tensor]:
        """The trained parameters by name at the end of the run; load them with ``strict=False``.

        Args:
            best: those with the lowest evaluated validation loss, ``best_loss``, instead.
        """
        if self.read_weights is None:
            raise ZotuneError("this run is over vectors and has no weights; take x, or best_x")
        found = self.read_weights(best)
        if not found:
            raise ZotuneError(
                "this run has kept its last weights only; set keep_best=True for the best, which "
                "are kept by default up to 64 MiB"
            )
        return found

    def __repr__(self) -> str:
        c = self.config
        first, last = self.rows[0]["loss"], self.rows[-1]
        return (
            f"Run({self._method}, {self.status} after {self.spent} of "
            f"{c.budget} {c.count}, loss {last['loss']:.6g}{above(last['loss'], first)}, "
            f"best {self.best_loss:.6g}{self._lost()}{self._estimated()})"
        )

    def _estimated(self) -> str:
        """The estimated L, if it was estimated."""
        if self.smoothness is None or not self.smoothness_estimated:
            return ""
        low, high = f"{self.smoothness.min():.3g}", f"{self.smoothness.max():.3g}"
        return f"; L estimated, {low if low == high else f'{low} to {high}'}"

    @property
    def _method(self) -> str:
        if self.config.replays:
            return self.config.method
        return f"{self._of('estimator')} q={self._of('q')}"

    def _of(self, key: str) -> str:
        """A setting, or the value chosen for it."""
        asked = str(getattr(self.config, key))
        return self.chosen[key].value if key in self.chosen else asked

    @property
    def _reached(self) -> int:
        """Spent budget of the slowest lane; the total at the end."""
        each = [lane.ledger.spent(self.config.count) for lane in self.state.lanes]
        return min(each) if self.status == RUNNING else max(each)

    def _point(self, x: Tensor) -> Tensor:
        if self.read_weights is not None:
            raise ZotuneError("the point of this run is a model; take weights()")
        return x

    def _lost(self) -> str:
        """How many replicates have diverged, with advice."""
        lost, all_of_them = self.state.lost, self.config.replicates
        many = f", {lost} of {all_of_them} replicates diverged" if all_of_them > 1 else ""
        return f"{many}; give a smaller eta, or L" if lost else ""


def load_run(source: Any) -> Run:
    """The run behind a result, a checkpoint, its folder or its file; see ``zotune.load_run``."""
    if hasattr(source, "checkpoint"):
        if source.checkpoint is None:
            raise CheckpointError(
                f"the result at {source.path} has no checkpoint; its trial ended before the first"
            )
        source = source.checkpoint
    if hasattr(source, "as_directory"):
        with source.as_directory() as folder:
            return load_run(folder)
    return run_at(last_checkpoints(Path(source))[0])


def run_at(path: Path) -> Run:
    """The run in a checkpoint."""
    state, notes = load_state(path)
    reader = (lambda best: read_weights(path, best=best)) if "log_is_whole" in notes else None
    config = recorded_config(notes["config"])
    chosen = [Choice(*one) for one in notes["chosen"]]
    end = notes.get("end") or end_at(config, state, notes["status"], chosen)
    return Run(
        config,
        state,
        minimum=notes["minimum"],
        smoothness_estimated=notes.get("smoothness_estimated", False),  # not always in format 1
        chosen={one.setting: one for one in chosen},
        provenance=notes.get("provenance", {}),  # older checkpoints have none
        read_weights=reader,
        **end,
    )


def run_of(loop: Loop, state: State, end: Mapping[str, Any]) -> Run:
    """The result of a loop, with the reason of its end."""
    return Run(
        loop.config,
        state,
        minimum=loop.minimum,
        smoothness_estimated=loop.estimates_smoothness,
        chosen={one.setting: one for one in loop.chosen(state)},
        provenance=provenance(loop.objective),
        read_weights=loop.iterate.weights_reader(),
        **end,
    )
