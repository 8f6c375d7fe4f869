"""All facts as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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


def doctor(*, as_json: bool) -> int:
    """Gather all facts and show them."""
    return show([outcome(check) for check in CHECKS], as_json=as_json)


def show(facts: Sequence[Fact], *, as_json: bool) -> int:
    """Print facts; the exit code is 1 if one of them is a problem."""
    problems = [fact.name for fact in facts if fact.status == "problem"]
    if as_json:
        found = {"problems": problems, "facts": [asdict(fact) for fact in facts]}
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        console = Console()
        console.print(_table(facts), width=min(WIDTH, console.width))
        console.print(f"\nproblems: {', '.join(problems) or 'none'}", highlight=False)
    return 1 if problems else 0


def outcome(check: Callable[[], Fact]) -> Fact:
    """What a check finds; a package that cannot be imported is a finding, not the end."""
    try:
        return check()
    except Exception as error:
        name = check.__name__.replace("_", " ")
        first = str(error).partition("\n")[0]
        advice = "This check failed; a package that it needs may be broken: reinstall it."
        return Fact(name, "problem", f"{type(error).__name__}: {first}", advice)


def _table(facts: Sequence[Fact]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in ("status", "name"):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for fact in facts:
        status = Text(fact.status, style=COLOURS[fact.status])
        table.add_row(status, fact.name, Text(f"{fact.found}\n{fact.advice}"))
    return table
