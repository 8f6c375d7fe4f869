"""All facts as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zotune.doctor import machine, services
from zotune.doctor.fact import Fact, Status

WIDTH = 80
COLOURS: dict[Status, str] = {"ok": "green", "note": "yellow", "problem": "red"}
CHECKS = (
    machine.packages,
    machine.extras,
    machine.cpus,
    machine.memory,
    machine.gpus,
    machine.torch_threads,
    machine.bfloat16,
    machine.disk,
    services.ray,
    services.mlflow,
    services.hub,
    services.browser,
)


WAITING = (machine.bfloat16, services.hub)
"""Checks that wait for another process or machine; they are started first, in parallel."""


def doctor(*, as_json: bool) -> int:
    """Gather all facts and show them."""
    return show(facts(), as_json=as_json)


def facts() -> Iterator[Fact]:
    """Each fact as soon as it is known, in the order of the checks."""
    with ThreadPoolExecutor(len(WAITING)) as pool:
        begun = {check: pool.submit(outcome, check) for check in WAITING}
        for check in CHECKS:
            yield begun[check].result() if check in begun else outcome(check)


def show(found: Iterable[Fact], *, as_json: bool) -> int:
    """Print facts, as they come; the exit code is 1 if one of them is a problem."""
    console, known = Console(), []
    for fact in found:
        known.append(fact)
        if not as_json:
            console.print(_row(fact), width=min(WIDTH, console.width))
    problems = [fact.name for fact in known if fact.status == "problem"]
    if as_json:
        told = {"problems": problems, "facts": [asdict(fact) for fact in known]}
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        console.print(f"\nproblems: {', '.join(problems) or 'none'}", highlight=False)
    return 1 if problems else 0


def outcome(check: Callable[[], Fact]) -> Fact:
    """The result of a check; an exception, such as a failed import, is a result, too."""
    try:
        return check()
    except Exception as error:
        name = check.__name__.replace("_", " ")
        first = str(error).partition("\n")[0]
        advice = "This check failed; a package that it needs may be broken: reinstall it."
        return Fact(name, "problem", f"{type(error).__name__}: {first}", advice)


def _row(fact: Fact) -> Table:
    """One fact, with columns as wide as every fact needs them."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, width=max(map(len, COLOURS)))
    table.add_column(no_wrap=True, width=max(len(check.__name__) for check in CHECKS))
    table.add_column(overflow="fold")
    status = Text(fact.status, style=COLOURS[fact.status])
    table.add_row(status, fact.name, Text(f"{fact.found}\n{fact.advice}"))
    return table
