"""Inspect functions: a hash of the code that is the same in every process, and the signature."""

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
    """Instructions, constants and names of a function and of the functions defined in it."""
    yield from (code.co_code.hex(), repr(code.co_names))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _inside(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))  # the order of a set differs between processes
        else:
            yield repr(constant)


def refusal(fn: Callable[..., Any], count: int) -> str:
    """Why a function cannot be called with ``count`` arguments; empty if it can or is unknown.

    >>> refusal(lambda x, data: 0, 1), refusal(lambda x, scale=2: 0, 1)
    ("missing a required argument: 'data'", '')
    """
    try:
        inspect.signature(fn).bind(*range(count))
    except TypeError as error:
        return str(error)
    except ValueError:  # a builtin without a signature
        pass
    return ""
