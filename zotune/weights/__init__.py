"""Zeroth-order descent on the weights of a module, with little memory beyond the weights."""

from zotune.weights.objective import WeightsObjective

__all__ = ["WeightsObjective"]
