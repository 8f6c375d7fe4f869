"""Zeroth-order descent on the weights of a module, never stored twice unless there is room."""

from zotune.weights.objective import WeightsObjective

__all__ = ["WeightsObjective"]
