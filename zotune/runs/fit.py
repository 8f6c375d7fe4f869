"""What a run over residuals knows at its answer: residuals, their derivatives, the covariance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from zotune.core.merit import merit
from zotune.core.state import State
from zotune.errors import ZotuneError


@dataclass(frozen=True)
class Fit:
    """Residuals at the answer, and their derivatives if the method measures them."""

    residuals: Tensor
    known: Tensor | None

    @property
    def jacobian(self) -> Tensor:
        """The derivatives, (m, d); an error if the method has not measured them."""
        if self.known is None:
            raise ZotuneError(
                "this run has no Jacobian of the residuals; the method 'gauss-newton' measures one "
                "if its budget covers d + 1 evaluations"
            )
        return self.known

    @property
    def covariance(self) -> Tensor:
        """s² (JᵀJ)⁻¹ with s² = Σ r² / (m − d); NaN if m ≤ d, inf on the diagonal if singular."""
        m, d = self.jacobian.shape
        if m <= d:
            return self.jacobian.new_full((d, d), torch.nan)
        size = self.jacobian.norm(dim=0).clamp_min(torch.finfo(torch.float64).tiny)
        _, s, vt = torch.linalg.svd(self.jacobian / size, full_matrices=False)
        if s[-1] <= m * torch.finfo(torch.float64).eps * s[0]:
            return _undetermined(s, vt, size, float(merit(self.residuals)) / (m - d))
        half = vt / s[:, None] / size
        found: Tensor = half.T @ half * (merit(self.residuals) / (m - d))
        return found


def _undetermined(s: Tensor, vt: Tensor, size: Tensor, variance: float) -> Tensor:
    """The covariance where some combinations of parameters do not change the residuals."""
    kept = s > 1e-12 * s[0]
    half = vt[kept] / s[kept, None] / size
    found = half.T @ half * variance
    free = (vt[~kept].abs() > 1e-6).any(0)
    found[free, free] = torch.inf
    return found


def fit_of(state: State) -> Fit:
    """What is known at the best replicate's answer; an error if there are no residuals."""
    told = state.lanes[int(state.best_loss.argmin())].told if len(state.lanes) else None
    if told is None or told.residuals is None:
        raise ZotuneError(
            "this run has no residuals; say residuals=True for a function that returns a vector, "
            "and use a method that yields points"
        )
    return Fit(told.residuals, told.jacobian)
