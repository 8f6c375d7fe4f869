"""A device that is not there: tensors in the CPU's memory that behave as if they were on CUDA.

They say that they are on ``cuda``, refuse ``numpy()``, and raise where an operation mixes them with
tensors of the CPU, as CUDA does. So code that forgets a device is found on a machine without a GPU.
What cannot be found here: other random numbers, other rounding, kernels that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from zotune import addresses

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
ACROSS = {"copy_", "to", "__getitem__", "__setitem__", "cpu", "type_as", "set_", "is_same_size"}
"""Operations that take tensors of two devices on CUDA as well."""


class Elsewhere(Tensor):
    """A tensor on the device that is not there."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Where it says it is."""
        return CUDA

    is_cuda = True
    is_cpu = False

    def numpy(self, *_: Any, **__: Any) -> Any:
        """As on CUDA."""
        raise TypeError("can't convert cuda:0 device type tensor to numpy; use Tensor.cpu() first")

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        """A copy on the CPU."""
        return plain(self).clone()

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation if all of its tensors are on one device."""
        name = getattr(func, "__name__", "")
        if name == "_has_compatible_shallow_copy_type":
            return False  # a module that moves here gets new parameters
        if name not in ACROSS:
            for tensor in tensors_in((args, kwargs or {})):
                if not isinstance(tensor, Elsewhere) and tensor.dim() > 0:
                    raise RuntimeError(
                        "Expected all tensors to be on the same device, but found at least two "
                        f"devices, cuda:0 and cpu! (in {name})"
                    )
        return super().__torch_function__(func, types, args, kwargs or {})


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors of nested arguments."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from tensors_in(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from tensors_in(entry)


def plain(tensor: Tensor) -> Tensor:
    """The same memory, on the CPU."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def elsewhere(value: Any) -> Any:
    """The same memory, on the device that is not there."""
    if isinstance(value, Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(Elsewhere)
    return value


class Pretend(TorchFunctionMode):
    """Answer requests for tensors on CUDA with tensors of ``Elsewhere``."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Take the device out of the arguments, and put the result there."""
        told = dict(kwargs or {})
        places = [value for value in (*args[1:], *told.values()) if _is_device(value)]
        if not places:
            return func(*args, **told)
        place = torch.device(places[-1])
        args = tuple(CPU if at and _is_device(value) else value for at, value in enumerate(args))
        told = {key: CPU if _is_device(value) else value for key, value in told.items()}
        told |= {"pin_memory": False} if "pin_memory" in told else {}
        if getattr(func, "__name__", "") == "to":
            source, args = args[0], (plain(args[0]), *args[1:])
            found = func(*args, **told)
            same = isinstance(source, Elsewhere) == (place.type == "cuda")
            found = found if same or found is not args[0] else found.clone()
        else:
            args = tuple(plain(a) if isinstance(a, Elsewhere) else a for a in args)
            found = func(*args, **told)
        return elsewhere(found) if place.type == "cuda" else found


def _is_device(value: Any) -> bool:
    if isinstance(value, str):
        return value.partition(":")[0] in ("cuda", "cpu")
    return isinstance(value, torch.device)


REAL_GENERATOR = torch.Generator


class Generator(REAL_GENERATOR):
    """A generator that says it is on the device that is not there."""

    place: torch.device

    def __new__(cls, device: torch.device | str = "cpu") -> Any:
        """A generator of the CPU."""
        made = super().__new__(cls, CPU)  # type: ignore[call-arg]
        made.place = torch.device(device)
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Where it says it is."""
        return self.place


@contextmanager
def pretended() -> Iterator[torch.device]:
    """A device of type ``cuda`` as long as the context lasts."""
    with pytest.MonkeyPatch.context() as patch, Pretend():
        for module in (torch, addresses.torch):  # the latter keeps what it has once looked up
            patch.setattr(module, "Generator", Generator)
        patch.setattr(torch.cuda, "mem_get_info", lambda device=None: (2**34, 2**34))
        yield CUDA
