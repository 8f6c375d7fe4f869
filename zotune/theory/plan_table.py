"""A plan for the terminal."""

from __future__ import annotations

from re import sub
from typing import TYPE_CHECKING

from zotune.theory import STOCHASTIC

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from zotune.theory.plan_case import Option
    from zotune.theory.wall_clock import Timed
from zotune.theory.planning import Plan


def render(plan: Plan, fastest: Timed | None = None) -> RenderableType:
    """The plan for a terminal: the choice, the table of alternatives, and the assumptions.

    ``fastest`` is the choice by wall time, which replaces the estimate with one second per call.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    first, *more = plan.advice
    if fastest is not None:
        memory, _, _ = more[-1].partition(";")
        more[-1:] = [f"{memory}.", str(fastest)]
    lead: list[RenderableType] = [Text(first, style="bold"), *map(Text, more), Text()]
    head = Text.assemble(
        "The bound itself is lowest at ",
        (f"{plan.estimator} with q = {plan.q}", "bold"),
        f": {_steps(plan)} {plan.step:.4g}{plan.step_unit and ' / L'}, guaranteeing\n"
        f"{plan.bounded} ≤ {_bound(plan.best)} · {plan.unit}",
    )
    parts: list[RenderableType] = []
    for title, lines in (("Assumed", plan.assumptions), ("To mind", plan.notes)):
        parts.append(Text(title, style="bold"))
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in lines]
    command = plan.command.replace(" --set", " \\\n      --set")
    parts.append(Text("To try it on your own function", style="bold"))
    for line in (plan.own_study, f"zotune.minimize(f, x0, budget={plan.budget})  # in Python"):
        parts.append(Text(f"  {line}", no_wrap=True, overflow="ignore"))
    parts += [Text("To find out", style="bold"), Text(f"  {command}")]
    return Group(*lead, head, Padding(_table(plan), (1, 0), expand=False), *parts)


def _steps(plan: Plan) -> str:
    """The number of steps, and whether the step size that follows is that of the first one."""
    if plan.steps == 1:
        return "1 step of"
    first = ", the first of" if plan.regime == STOCHASTIC else " of"
    return f"{plan.steps} steps{first}"


def _table(plan: Plan) -> Table:
    """One row per option, within 80 columns; the best is marked."""
    from rich.box import SIMPLE
    from rich.table import Column, Table

    table = Table(
        Column("estimator", no_wrap=True),
        box=SIMPLE,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0, 0, 1),
    )
    step = f"step{plan.step_unit and ' · L'}"
    for column in ("q", "steps", "directions", "evaluations", step, "bound", "rate"):
        table.add_column(column, justify="right", no_wrap=True)
    for o in plan.alternatives:
        chosen = (o.estimator, o.q) == (plan.estimator, plan.q)
        counts = [_short(n) for n in (o.q, o.steps, o.queries, o.evaluations)]
        row = [o.estimator, *counts, _short(o.step), _bound(o), _share(o)]
        table.add_row(*row, style="bold" if chosen else None)
    return table


def _short(number: float) -> str:
    """A number in at most eight characters: an integer below a million, else three digits."""
    text = f"{number}" if isinstance(number, int) and number < 10**6 else f"{number:.3g}"
    return _plain(text)


def _bound(option: Option) -> str:
    """The bound, as a power of e where it is too small for a float."""
    return _plain(f"{option.bound:.4g}" if option.bound > 0 else f"e^-{option.rate:.4g}")


def _plain(number: str) -> str:
    """3e9 for 3e+09, 2.5e-7 for 2.5e-07."""
    return sub(r"e\+?(-?)0*(\d)", r"e\1\2", number)


def _share(option: Option) -> str:
    """The rate relative to the best one."""
    return f"{option.share:.0%}" if option.share >= 0.005 else "<1%"
