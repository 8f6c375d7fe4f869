"""What a function does, as a short hash that is the same in every process; and what it takes."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any


def code_of(target: Any) -> str:
    """A short hash of an objective's code, or of its function's: the same in every process."""
    target = getattr(target, "fn", target)
    code = getattr(target, "__code__", None)
    name = getattr(target, "__qualname__", type(target).__qualname__)
    parts = [str(getattr(target, "__module__", "")), name, *(() if code is None else _inside(code))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _inside(code: CodeType) -> Iterator[str]:
    """What a function does: its instructions, constants and names, and those of functions in it."""
    yield from (code.co_code.hex(), repr(code.co_names))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _inside(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))  # its own order differs between processes
        else:
            yield repr(constant)


def refusal(fn: Callable[..., Any], count: int) -> str:
    """Why a function cannot be called with so many arguments; empty where it can, or may.

    >>> refusal(lambda x, data: 0, 1), refusal(lambda x, scale=2: 0, 1)
    ("missing a required argument: 'data'", '')
    """
    try:
        inspect.signature(fn).bind(*range(count))
    except TypeError as error:
        return str(error)
    except ValueError:  # a builtin that does not say
        pass
    return ""
