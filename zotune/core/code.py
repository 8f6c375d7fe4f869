"""Inspect functions: a hash of the code that is the same in every process, and the signature."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator
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


def takes(fn: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name that can be passed by keyword."""
    try:
        found = inspect.signature(fn).parameters.get(name)
    except (TypeError, ValueError):  # not a function, or a builtin without a signature
        return False
    return found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)


def refusal(
    fn: Callable[..., Any], count: int, named: Iterable[str] = (), *, more: bool = False
) -> str:
    """Why a function cannot be called with these arguments; empty if it can or is unknown.

    Args:
        fn: the function.
        count: number of positional arguments.
        named: names of keyword arguments.
        more: whether further arguments may be given later, so that none is missing yet.

    >>> refusal(lambda x, data: 0, 1), refusal(lambda x, scale=2: 0, 1)
    ("missing a required argument: 'data'", '')
    """
    try:
        signature = inspect.signature(fn)
        bind = signature.bind_partial if more else signature.bind
        bind(*range(count), **dict.fromkeys(named))
    except TypeError as error:
        return str(error)
    except ValueError:  # a builtin without a signature
        pass
    return ""
