"""The address of a lane's directions, by which a user's kind is checked."""

from __future__ import annotations

import torch

from zotune.addresses import replicate_keys
from zotune.config import Config
from zotune.directions.addressed import digest_at, require_addressed
from zotune.iterates import Iterate


class Address:
    """Where a lane draws its directions.

    Args:
        config: the checked configuration.
        iterate: holds x.
    """

    def __init__(self, config: Config, iterate: Iterate) -> None:
        self._kind, self._dim = iterate.directions, iterate.dim
        self._keys = replicate_keys("directions", config.seed, config.replicate_indices)
        dtype = iterate.dtype if iterate.dtype.itemsize >= 4 else torch.float32
        self._like = torch.zeros(0, dtype=dtype, device=iterate.device)

    def require_alone(self) -> None:
        """Raise an error if a user's directions depend on more than their address."""
        require_addressed(self._kind, self._dim, self._keys, self._like)

    def digest(self, step: int) -> str:
        """A hash of the first direction of a step; empty for zotune's own kinds."""
        return digest_at(self._kind, self._dim, self._keys, step, self._like)
