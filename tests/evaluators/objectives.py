"""Functions for workers: some end their process, some hang, some raise; markers are files."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

from torch import Tensor


def valley(x: Tensor) -> float:
    a, b, c = x.tolist()
    return float(100 * (b - a * a) ** 2 + (1 - a) ** 2 + (c + a) ** 4)


def once(marker: Path) -> bool:
    """Whether nobody has made this marker before."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def counted(x: Tensor, folder: Path) -> float:
    """Leaves a file for every process that it was called in."""
    (folder / f"process-{os.getpid()}").touch()
    return valley(x)


def called(x: Tensor, folder: Path) -> float:
    """Leaves a byte for every call, in whichever process."""
    with (folder / "calls").open("ab", buffering=0) as file:
        file.write(b".")
    return valley(x)


def dying_and_called(x: Tensor, folder: Path) -> float:
    """Leaves a byte for every call, and ends its process once."""
    called(x, folder)
    return dying(x, folder)


def dying(x: Tensor, folder: Path) -> float:
    """Ends its process the first time that it is far from the start."""
    if abs(float(x[0]) + 1.2) > 1e-4 and once(folder / "died"):
        os.kill(os.getpid(), signal.SIGKILL)
    return valley(x)


def hanging(x: Tensor, folder: Path) -> float:
    """Takes until the end of the test, once."""
    if abs(float(x[0]) + 1.2) > 1e-4 and once(folder / "hung"):
        while not (folder / "over").exists():
            sleep(0.05)
    return valley(x)


def slow_once(x: Tensor, folder: Path) -> float:
    """Leaves a byte for every call, and takes far longer than usual once."""
    called(x, folder)
    if abs(float(x[0]) + 1.2) > 1e-4 and once(folder / "slow"):
        sleep(3)
    return valley(x)


def deadly(x: Tensor, folder: Path) -> float:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


def raising(x: Tensor, folder: Path) -> float:
    if abs(float(x[0]) + 1.2) > 1e-4:
        raise ArithmeticError("the simulator did not converge")
    return valley(x)


def often_failing(x: Tensor) -> float:
    if x[0] > -1.1:
        raise ArithmeticError("the simulator did not converge")
    return valley(x)


async def from_the_web(x: Tensor, folder: Path) -> float:
    """Answers once two calls wait side by side in one process."""
    mine = folder / f"waiting-{os.getpid()}-{id(x)}"
    mine.touch()
    while float(x[0]) != -1.2 and len(list(folder.glob(f"waiting-{os.getpid()}-*"))) < 2:
        await asyncio.sleep(0.01)
    return valley(x)


def simulator(folder: Path) -> Any:
    """Opens a simulator, and leaves a file for it."""
    import zotune

    (folder / f"opened-{os.getpid()}").touch(exist_ok=False)
    fn: Callable[[Tensor], float] = valley
    return zotune.objective(fn, 3, start=[-1.2, 1.0, 0.5])


def broken_simulator(folder: Path) -> Any:
    raise RuntimeError("no licence for the simulator")
