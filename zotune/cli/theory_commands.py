"""Commands about the paper: plan, compare and reproduce."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from zotune.cli.group import JSON, STORAGE, TRACKING_URI, examples, main


@main.command(
    "reproduce",
    epilog=examples(
        "zotune reproduce",
        "zotune reproduce --size full --only convex-tuned",
        "zotune reproduce --only convex-tuned --instances 10",
    ),
)
@click.option(
    "--size",
    type=click.Choice(["small", "full"]),
    default="small",
    show_default=True,
    help="Minutes at a tenth of the dimension, or the paper's own sizes in hours.",
)
@STORAGE
@TRACKING_URI
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the page; reports/reproduction-SIZE unless given.",
)
@click.option("--only", multiple=True, metavar="NAME", help="This experiment only. Repeatable.")
@click.option(
    "--instances",
    default=0,
    metavar="N",
    help="Judge over N instances of each problem, not over replicates of one; five or six claims "
    "need at least 8.",
)
def reproduce_command(**typed: Any) -> None:
    """Run the paper's experiments and judge its claims.

    Writes one page with every figure and verdict. The same command continues where it was stopped.
    """
    from zotune.cli.reproduce_command import ReproduceRequest, reproduce
    from zotune.core.folders import require_writable

    if typed["output"]:
        require_writable(typed["output"])
    sys.exit(reproduce(ReproduceRequest(**typed)))


@main.command("compare", epilog=examples("zotune compare --dim 50 --budget 1000 -o compare.svg"))
@click.option("--dim", default=200, show_default=True, help="Dimension of the quadratic.")
@click.option("--budget", default=4000, show_default=True, help="Directions that may be spent.")
@click.option("--replicates", default=10, show_default=True, help="Independent runs.")
@click.option("--seed", default=0, show_default=True, help="Of the random directions.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("results/compare.png"),
    show_default=True,
    help="Where the figure goes: a .png, .svg, .pdf or .jpg.",
)
def compare_command(dim: int, budget: int, replicates: int, seed: int, output: Path) -> None:
    """Compare averaging and projection on a quadratic, by q.

    Runs in this process, without Ray, and draws a figure.
    """
    from rich.console import Console

    from zotune.cli.comparison import compare, plot, require, table
    from zotune.core.folders import require_writable

    require(budget, output)
    require_writable(output.parent)
    console = Console()
    block_sizes = sorted({1, max(1, dim // 20), max(1, dim // 4), dim})
    with console.status("starting") as status:
        runs = compare(
            {"name": "quadratic", "dim": dim},
            estimators=["avg", "align"],
            block_sizes=[q for q in block_sizes if q <= budget],
            on_run=status.update,
            update="sgd",
            step="theory",
            difference="central",
            count="directions",
            budget=budget,
            replicates=replicates,
            seed=seed,
        )
    console.print(table(runs))
    console.print(f"figure: {plot(runs, output)}")


@main.command(
    "plan",
    epilog=examples(
        "zotune plan --dim 1000 --budget 20000 --regime strongly-convex",
        "zotune plan --dim 1000 --budget 20000 --regime convex --update nesterov",
        "zotune plan --dim 1000 --budget 20000 --count directions --json",
        "zotune plan --dim 1000 --budget 20000 --workers 64 --seconds-per-query 5",
    ),
)
@click.option("--dim", type=int, required=True, help="Dimension of the function.")
@click.option("--budget", type=int, required=True, help="What may be spent.")
@click.option("--regime", default="nonconvex", show_default=True, help="What is assumed of f.")
@click.option("--count", default="evaluations", show_default=True, help="What the budget limits.")
@click.option("--difference", default="forward", show_default=True, help="forward or central.")
@click.option("--directions", default="gaussian", show_default=True, help="Kind of directions.")
@click.option("--L", "smoothness", type=float, help="Smoothness; steps are in 1/L without it.")
@click.option("--condition", default=100.0, show_default=True, help="L/γ, if strongly convex.")
@click.option("--noise", default=1.0, show_default=True, help="σ over L‖x0 − x*‖, if stochastic.")
@click.option("--update", default="sgd", show_default=True, help="How estimates move the point.")
@click.option("--workers", type=int, help="Workers that evaluate side by side.")
@click.option("--seconds-per-query", type=float, help="What one evaluation takes; 1 unless given.")
@JSON
def plan_command(
    smoothness: float | None,
    workers: int | None,
    seconds_per_query: float | None,
    as_json: bool,
    **question: Any,
) -> None:
    """Choose estimator, q and step size by the theory.

    Nothing is evaluated: the answer follows from dimension, budget and assumptions.
    """
    from dataclasses import asdict

    from zotune.theory.plan_case import case_of
    from zotune.theory.plan_table import render
    from zotune.theory.planning import plan
    from zotune.theory.wall_clock import timed

    found, fastest = plan(**question, L=smoothness), None
    if workers is not None or seconds_per_query is not None:
        seconds = 1.0 if seconds_per_query is None else seconds_per_query
        case = case_of(**question, L=smoothness)
        fastest = timed(case, found.best, 1 if workers is None else workers, seconds)
    if as_json:
        told = found.to_dict() | ({} if fastest is None else {"wall_clock": asdict(fastest)})
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    Console().print(render(found, fastest))
