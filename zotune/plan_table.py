"""A plan for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotune.theory import STOCHASTIC

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from zotune.planning import Option, Plan


def render(plan: Plan) -> RenderableType:
    """The plan for a terminal: the choice, the table of alternatives, what it all rests on."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    steps = "steps, the first of" if plan.regime == STOCHASTIC else "steps of"
    head = Text.assemble(
        (f"{plan.estimator} with q = {plan.q}", "bold"),
        f": {plan.steps} {steps} {plan.step:.4g}{plan.step_unit and ' / L'}, guaranteeing\n"
        f"{plan.bounded} ≤ {_number(plan.best)} · {plan.unit}",
    )
    parts: list[RenderableType] = []
    for title, lines in (("Assumed", plan.assumptions), ("To mind", plan.notes)):
        parts.append(Text(title, style="bold"))
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in lines]
    command = plan.command.replace(" --set", " \\\n      --set")
    return Group(
        head, _table(plan), *parts, Text("To find out", style="bold"), Text(f"  {command}")
    )


def _table(plan: Plan) -> Table:
    """One row an option; the best is marked."""
    from rich.box import SIMPLE
    from rich.table import Column, Table

    table = Table(
        Column("estimator", no_wrap=True), box=SIMPLE, pad_edge=False, padding=(0, 0, 0, 1)
    )
    step = f"step{plan.step_unit and ' · L'}"
    for column in ("q", "steps", "directions", "evaluations", step, "bound", "rate"):
        table.add_column(column, justify="right")
    for o in plan.alternatives:
        chosen = (o.estimator, o.q) == (plan.estimator, plan.q)
        counts = [f"{n}" for n in (o.q, o.steps, o.queries, o.evaluations)]
        row = [o.estimator, *counts, f"{o.step:.4g}", _number(o), f"{o.share:.0%}"]
        table.add_row(*row, style="bold" if chosen else None)
    return table


def _number(option: Option) -> str:
    """The bound, as a power of e where it is too small for a float."""
    return f"{option.bound:.4g}" if option.bound > 0 else f"e^-{option.rate:.4g}"
