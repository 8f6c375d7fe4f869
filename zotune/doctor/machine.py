"""Facts about packages and hardware."""

from __future__ import annotations

import importlib.metadata as installed
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

from zotune.doctor.fact import GIB, Fact
from zotune.errors import ConfigError

LITTLE_MEMORY, LITTLE_DISK = 2 * GIB, GIB
AMX_OFF = "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
PRODUCT = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); print((a @ a).sum().item())"
SHOWN = ("zotune", "torch", "ray", "mlflow")
FOR_DEVELOPERS = "test"
"""The extra that no user needs."""


def packages() -> Fact:
    """Versions, and whether the required packages are those that zotune asks for."""
    versions = [f"{name} {installed.version(name)}" for name in SHOWN]
    found = ", ".join([f"Python {sys.version.split()[0]}", *versions])
    if lacking := missing():
        advice = f"zotune needs other versions: pip install {shlex.join(lacking)}"
        return Fact("packages", "problem", found, advice)
    return Fact("packages", "ok", found, "All required packages are installed.")


def missing(extra: str = "") -> list[str]:
    """Packages that zotune, or one of its extras, asks for and that are not installed."""
    asked = [Requirement(line) for line in installed.requires("zotune") or []]
    wanted = [each for each in asked if _applies(each, extra)]
    if extra:
        wanted = [each for each in wanted if not _applies(each, "")]
    return [f"{each.name}{each.specifier}" for each in wanted if not _is_installed(each)]


def _applies(asked: Requirement, extra: str) -> bool:
    return asked.marker is None or asked.marker.evaluate({"extra": extra})


def _is_installed(asked: Requirement) -> bool:
    try:
        return asked.specifier.contains(installed.version(asked.name), prereleases=True)
    except installed.PackageNotFoundError:
        return False


def extras() -> Fact:
    """Which optional parts of zotune are installed."""
    declared = installed.metadata("zotune").get_all("Provides-Extra") or []
    offered = [extra for extra in declared if extra != FOR_DEVELOPERS]
    absent = [extra for extra in offered if missing(extra)]
    present = [extra for extra in offered if extra not in absent]
    found = f"installed: {', '.join(present) or 'none'}; not: {', '.join(absent) or 'none'}"
    if not absent:
        return Fact("extras", "ok", found, "Everything optional is there.")
    advice = f"To add one: pip install 'zotune[{absent[0]}]'"
    return Fact("extras", "note", found, advice)


def cpus() -> Fact:
    """How many CPUs Ray would use."""
    from zotune.study.capacity import this_machine

    count = this_machine()["CPU"]
    advice = f"Up to {count:g} trials run at a time; resources.cpu gives a trial more than one."
    return Fact("CPUs", "ok", f"{count:g} that Ray may use", advice)


def torch_threads() -> Fact:
    """How many threads torch takes in one process."""
    import torch

    from zotune.study.capacity import this_machine

    threads, count = torch.get_num_threads(), this_machine()["CPU"]
    if threads > count:
        advice = f"More threads than CPUs wait for each other: export OMP_NUM_THREADS={count:g}"
        return Fact("torch threads", "note", f"{threads}, and {count:g} CPUs", advice)
    advice = "zotune.minimize uses these; a trial has as many as it has CPUs."
    return Fact("torch threads", "ok", f"{threads}", advice)


def memory() -> Fact:
    """How much memory is left, for a container within its limit."""
    import torch

    from zotune.weights.memory import available_bytes

    free = available_bytes(torch.device("cpu"))
    found = f"{free / GIB:.1f} GiB available"
    if free < LITTLE_MEMORY:
        advice = "Ray and its trials may be killed: close other programs, or run fewer trials."
        return Fact("memory", "note", found, advice)
    advice = "Each trial is a process of its own, with torch loaded."
    return Fact("memory", "ok", found, advice)


def gpus() -> Fact:
    """GPUs that Ray finds, and whether torch can use them."""
    import torch

    from zotune.study.capacity import this_machine

    for_ray = this_machine()["GPU"]
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]
        advice = "A trial uses one if the study says resources: {gpu: 1}, or a share such as 0.5."
        return Fact("GPUs", "ok", f"{', '.join(names)}; {for_ray:g} for Ray", advice)
    if for_ray:
        advice = f"torch {torch.__version__} cannot use them: install a build for your CUDA."
        return Fact("GPUs", "problem", f"{for_ray:g} for Ray, none for torch", advice)
    advice = "Studies run on CPUs: leave resources.gpu at 0. Large models will be slow."
    return Fact("GPUs", "ok", "none", advice)


def bfloat16(program: str = PRODUCT) -> Fact:
    """Test a product in a child process: some machines announce AMX and kill processes using it."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if done.returncode == 0:
        advice = "Language models can be trained in half the memory."
        return Fact("bfloat16", "ok", "products work here", advice)
    if done.returncode == -signal.SIGILL:
        advice = f"A model in bfloat16 would be killed here: export {AMX_OFF}"
        return Fact("bfloat16", "problem", "products end in 'Illegal instruction'", advice)
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    advice = "Use float32 for language models: problem.dtype=float32."
    return Fact("bfloat16", "problem", f"products fail: {last}", advice)


def disk() -> Fact:
    """Room in the current folder, and whether it can be written to."""
    from zotune.core.folders import require_writable

    here = Path.cwd()
    free = shutil.disk_usage(here).free
    found = f"{free / GIB:.1f} GiB free in {here}"
    try:
        require_writable(here, "cd")
    except ConfigError as error:
        return Fact("disk", "problem", found, str(error))
    if free < LITTLE_DISK:
        advice = "Results and mlflow.db go here: free some space, or give --storage."
        return Fact("disk", "problem", found, advice)
    return Fact("disk", "ok", found, "Results and mlflow.db go here unless told otherwise.")
