"""The device of a test run: ``pytest --device cpu | cuda | pretended``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from tests.pretended import pretended

CPU, CUDA, PRETENDED = "cpu", "cuda", "pretended"
_CHOSEN = [CPU]


def chosen() -> torch.device:
    """Where tests of conformance and of models put their tensors."""
    return torch.device(CPU if _CHOSEN[0] == CPU else CUDA)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=(CPU, CUDA, PRETENDED),
        default=CPU,
        help="Where conformance and models run; pretended: tensors that behave as on CUDA.",
    )


def pytest_configure(config: pytest.Config) -> None:
    _CHOSEN[0] = config.getoption("--device")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--device") == CUDA and not torch.cuda.is_available():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no CUDA device is on this machine"))


@contextmanager
def pretending() -> Iterator[torch.device]:
    """``chosen`` is a device that is pretended as long as the context lasts."""
    before, _CHOSEN[0] = _CHOSEN[0], PRETENDED
    try:
        with pretended() as device:
            yield device
    finally:
        _CHOSEN[0] = before


@pytest.fixture(autouse=True)
def on_the_device_of_the_run(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--device") != PRETENDED:
        yield
        return
    with pretending():
        yield
