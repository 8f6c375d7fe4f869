"""Random numbers by address: a value is a pure function of its address (counter-based).

An address is a seed, a replicate, a step and a position in the step's block. It is hashed to a
64-bit key, which seeds a generator. No generator state is kept, so a run that is killed and resumed
draws exactly the same numbers.

torch seeds its CPU generator with 32 bits only, so that 100 000 addresses would collide. Therefore
SplitMix64 expands the key to the whole state of the Mersenne Twister.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zotune._lazy import LazyModule
from zotune.errors import ZotuneError

if TYPE_CHECKING:
    import torch
else:
    torch = LazyModule("torch")

Keys = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint32]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = 2**64 - 1
_STATE_AT = 24  # bytes before the 624 words in the state of torch's CPU generator
_WORDS = 624
_LANES = _GOLDEN * np.arange(1, _WORDS // 2 + 1, dtype=np.uint64)
_AHEAD = 16  # steps whose states are computed at a time
_ALONG = 16  # chunks of a long direction whose states are computed at a time
_NEAR = 2  # tiles of a step, after that of first directions, whose states are computed ahead


def digest(*address: int | str) -> int:
    """Hash an address of any length to 64 bits; slow, to be used once per run."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in address)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def mix(z: Keys) -> Keys:
    """SplitMix64's finalizer: a bijection of 64 bits in which every bit affects every other."""
    z = z ^ (z >> np.uint64(30))
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def extend(keys: Keys, *place: int) -> Keys:
    """Extend hashed addresses by further parts (a step, a tile, a chunk)."""
    return mix(keys + np.array([_fold(place)], dtype=np.uint64))


def _fold(place: Iterable[int]) -> int:
    """Hash parts of an address to 64 bits with ``mix``, for Python integers."""
    z = 0
    for part in place:
        z = (z + int(_GOLDEN) * (part + 1)) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        z ^= z >> 31
    return z


def replicate_keys(purpose: str, seed: int, replicates: Sequence[int]) -> Keys:
    """One key per replicate, for one purpose (directions, mini-batches) and one seed."""
    return np.array([digest(purpose, seed, replicate) for replicate in replicates], dtype=np.uint64)


def instance_generator(*address: int | str) -> np.random.Generator:
    """A NumPy generator for a problem's instance, the same on every device."""
    return np.random.Generator(np.random.Philox(key=digest(*address)))


class Generators:
    """torch generators for the addresses of a run; one generator object is reused for all.

    Args:
        keys: one address per replicate.
        device: device of the generator.
    """

    def __init__(self, keys: Keys, device: torch.device) -> None:
        self.prefix_stable = device.type == "cpu"
        """Whether the first n of m draws equal n draws (in multiples of 16)."""
        self._keys = keys
        self._generator = torch.Generator(device=device)
        self._known: dict[tuple[int, bool], dict[tuple[int, int], Words]] = {}
        """Cache of states by step and chunk; separate for first chunks and others."""
        if self.prefix_stable:
            self._state = _checked_state(self._generator)
            self._words = self._state.numpy()[_STATE_AT : _STATE_AT + 8 * _WORDS].view(np.uint64)

    def at(self, step: int, tile: int, chunk: int) -> Iterator[torch.Generator]:
        """The generator of each replicate in turn; valid until the next one is requested."""
        if self.prefix_stable:
            for words in self._states(step, tile, chunk):
                self._words[:] = words
                yield self._generator.set_state(self._state)
        else:
            for key in extend(self._keys, step, tile, chunk):
                yield self._generator.manual_seed(int(key) >> 1)

    def first(self, step: int, tile: int, chunk: int) -> torch.Generator:
        """The generator of the first replicate."""
        if not self.prefix_stable:
            return next(self.at(step, tile, chunk))
        self._words[:] = self._states(step, tile, chunk)[0]
        return self._generator.set_state(self._state)

    def _states(self, step: int, tile: int, chunk: int) -> Words:
        """States at an address, computed together with those that are probably needed next.

        These are the next chunks of a long direction, or those of the next steps of a short one.
        """
        slot = tile, chunk > 0
        known = self._known.get(slot)
        if known is None or (step, chunk) not in known:
            places = self._wanted_next(step, tile, chunk)
            folded = np.array([_fold((t, tile, c)) for t, c in places], dtype=np.uint64)
            known = dict(zip(places, _spread(mix(self._keys + folded[:, None])), strict=True))
            if len(places) > 1:
                self._known[slot] = known
        return known[step, chunk]

    def _wanted_next(self, step: int, tile: int, chunk: int) -> list[tuple[int, int]]:
        """Steps and chunks whose states are computed together with an address."""
        if chunk and len(self._keys) == 1:
            return [(step, chunk + k) for k in range(_ALONG)]
        ahead = _AHEAD if not chunk and tile < _NEAR else 1
        return [(step + k, chunk) for k in range(ahead)]


def _spread(keys: Keys) -> Words:
    """624 words for each key, the outputs of SplitMix64 seeded with it."""
    words: Words = mix(keys[..., None] + _LANES).view(np.uint32)
    return words


def _checked_state(generator: torch.Generator) -> torch.Tensor:
    """The state after seeding, in which the words are replaced; checks its layout."""
    state = generator.manual_seed(5489).get_state()
    words = state.numpy()[_STATE_AT : _STATE_AT + 8 * _WORDS].view(np.uint64)
    reference = np.empty(_WORDS, dtype=np.uint64)
    reference[0] = 5489
    for i in range(1, _WORDS):
        before = int(reference[i - 1])
        reference[i] = (1812433253 * (before ^ (before >> 30)) + i) % 2**32
    if not np.array_equal(words, reference):
        raise ZotuneError(
            f"torch {torch.__version__} keeps its CPU generator's state in another layout than "
            "zotune knows; install torch 2.13"
        )
    return state


def permute(keys: Keys, index: npt.NDArray[np.uint64], size: int) -> npt.NDArray[np.int64]:
    """The images of indices under a random permutation of ``range(size)``, for each key.

    A Feistel network over the next power of four with cycle walking: elements are computed
    independently, so a block of ten costs the same in a billion dimensions.
    """
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    mask = (np.uint64(1) << half) - np.uint64(1)
    rounds = mix(keys[None, :] + _GOLDEN * np.arange(1, 9, dtype=np.uint64)[:, None])

    def encrypt(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left, right = x >> half, x & mask
        for key in rounds:
            left, right = right, left ^ (mix(right + key[:, None]) & mask)
        return (left << half) | right

    found = encrypt(np.broadcast_to(index.astype(np.uint64), (len(keys), len(index))))
    while (outside := found >= size).any():
        found = np.where(outside, encrypt(found), found)
    return found.astype(np.int64)
