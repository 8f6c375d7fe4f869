"""The benchmarks: zotune bench."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from zotune.cli.group import JSON, examples, main


@main.group("bench", epilog=examples("zotune bench classical", "zotune bench study --trials 20"))
def bench_group() -> None:
    """Measure speed, as ratios beside the limit in one process."""


def _measure(module: Any, bench: Callable[..., Any], as_json: bool, **sizes: Any) -> list[Any]:
    """Run a bench with a progress display, and print the results by its module's ``render``."""
    from rich.console import Console

    from zotune.study.quiet import answer_kept

    console = Console(stderr=as_json)
    with answer_kept(as_json), console.status("starting") as status:
        found = list(bench(**sizes, on_case=status.update))
    if as_json:
        as_records = getattr(module, "as_records", _as_records)
        click.echo(json.dumps(as_records(found), indent=2))
    else:
        console.print(module.table(found))
    return found


def _as_records(found: list[Any]) -> list[dict[str, Any]]:
    """The results of a bench as plain values."""
    return [asdict(one) for one in found]


@bench_group.command("classical", epilog=examples("zotune bench classical --rounds 11"))
@click.option("--rounds", default=41, show_default=True, help="Turns that each work takes.")
@JSON
def bench_classical(rounds: int, as_json: bool) -> None:
    """Time a step beside the bare objective and the bare draws.

    In one thread, and beside evosax and torchzero where they are installed.
    """
    from zotune.bench import classical

    _measure(classical, classical.classical, as_json, rounds=rounds)


@bench_group.command("study", epilog=examples("zotune bench study --trials 20"))
@click.option("--dim", default=1000, show_default=True, help="Dimension of the quadratic.")
@click.option("--budget", default=20_000, show_default=True, help="Directions a trial may spend.")
@click.option("--trials", default=100, show_default=True, help="Trivial trials.")
@JSON
def bench_study(dim: int, budget: int, trials: int, as_json: bool) -> None:
    """Time a study beside plain processes and stock Ray Tune.

    Also the cost of trivial trials. Takes minutes.
    """
    from zotune.bench import study

    _measure(study, study.bench, as_json, dim=dim, budget=budget, trials=trials)


@bench_group.command(
    "scale",
    epilog=examples(
        "zotune bench scale --trials 10 --trials 100",
        "zotune bench scale --trials 10000 --no-wide --json",
    ),
)
@click.option(
    "--trials",
    "sizes",
    type=int,
    multiple=True,
    default=(10, 100, 1000),
    show_default=True,
    help="Small trials of a study. Repeatable.",
)
@click.option(
    "--stock", default=10, show_default=True, help="The most trials that stock Tune runs, too."
)
@click.option(
    "--wide/--no-wide",
    default=True,
    show_default=True,
    help="Also 1000 replicates, d = 1,000,000, and 100 launches in one store.",
)
@JSON
def bench_scale(sizes: tuple[int, ...], stock: int, wide: bool, as_json: bool) -> None:
    """Measure studies as they grow, beside stock Ray Tune.

    Trials a second early and late, memory, bytes on disk, rows in MLflow. Takes many minutes.
    """
    from zotune.bench import scale

    _measure(scale, scale.scale, as_json, sizes=sizes, stock=stock, wide=wide)


@bench_group.command("lm", epilog=examples("zotune bench lm --rounds 1 --json"))
@click.option("--rounds", default=3, show_default=True, help="Turns that each work takes.")
@JSON
def bench_lm(rounds: int, as_json: bool) -> None:
    """Time a step on a language model beside its forward passes.

    Also beside MeZO, and the memory beside that of inference. Takes minutes.
    """
    from zotune.bench import lm

    _measure(lm, lm.lm, as_json, rounds=rounds)


@bench_group.command("logging", epilog=examples("zotune bench logging --trials 4"))
@click.option(
    "--trials", default=16, show_default=True, help="Curves of 320 points that ours is told."
)
@JSON
def bench_logging(trials: int, as_json: bool) -> None:
    """Count points a second into MLflow, beside Ray's own callback.

    On sqlite and over http.
    """
    from zotune.bench import logging

    _measure(logging, logging.logging, as_json, trials=trials)


@bench_group.command("parallel", epilog=examples("zotune bench parallel --rounds 1 --most 8"))
@click.option("--rounds", default=3, show_default=True, help="Turns that each work takes.")
@click.option("--most", default=64, show_default=True, help="Sleeping workers, at most.")
@JSON
def bench_parallel(rounds: int, most: int, as_json: bool) -> None:
    """Time two workers beside one, and what a step and a query cost.

    Beside SciPy's processes and EvoTorch's actors where they are installed. Also the bytes of a
    step, and how many queries a second the run itself can deal out. Takes minutes.
    """
    from zotune.bench import parallel

    _measure(parallel, parallel.parallel, as_json, rounds=rounds, most=most)


@bench_group.command(
    "blackbox",
    epilog=examples(
        "zotune bench blackbox --half judge",
        "zotune bench blackbox --suite largescale --dims 40 --json",
    ),
)
@click.option(
    "--suite",
    type=click.Choice(["s2mpj", "largescale", "noisy", "person", "paper", "smoke"]),
    default="s2mpj",
    show_default=True,
    help="CUTEst, COCO's bbob-largescale or bbob-noisy, a rod with noise, the paper's, or a check.",
)
@click.option("--dims", metavar="D,LOW-HIGH", help="Dimensions, such as 21-200 or 40,160.")
@click.option(
    "--half",
    type=click.Choice(["tune", "judge", "all"]),
    default="all",
    show_default=True,
    help="Half of the problems: one to choose constants on, one to judge them by.",
)
@click.option(
    "--instance",
    default=1,
    show_default=True,
    help="Of COCO's functions, 1 to 15; of CUTEst, 1 to 5: other small problems.",
)
@click.option("--solver", "solvers", multiple=True, metavar="NAME", help="Run it only. Repeatable.")
@click.option(
    "--records",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Add outcomes to FILE as JSON lines; what it holds already is not run again.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Performance profiles; results/blackbox-SUITE.png unless given.",
)
@click.option(
    "--freeze",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Search for reference minima with a larger budget and write them to FILE instead; hours.",
)
@JSON
def bench_blackbox(
    suite: str, dims: str | None, output: Path | None, freeze: Path | None, **options: Any
) -> None:
    """Solve functions that nobody here wrote, beside peers.

    SciPy's solvers, COBYQA and CMA-ES get the same evaluations. Takes minutes.
    """
    from zotune.bench.blackbox import command

    command.blackbox(suite, dims, output=output, freeze=freeze, measure=_measure, **options)


@bench_group.command(
    "tuning",
    epilog=examples(
        "zotune bench tuning",
        "zotune bench tuning --size full -o results/tuning-full.jsonl",
    ),
)
@click.option(
    "--size",
    type=click.Choice(["everyday", "full"]),
    default="everyday",
    show_default=True,
    help="Dimension 20 in minutes, or the paper's 1000 in hours.",
)
@click.option("--instances", default=8, show_default=True, help="Of each problem.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("results/tuning.jsonl"),
    show_default=True,
    help="Where outcomes are kept; those that are there are not run again.",
)
@JSON
def bench_tuning(size: str, instances: int, output: Path, as_json: bool) -> None:
    """Compare what one total buys: a race, auto, a grid that pays.

    Beside the best configuration in hindsight, with all and with half of the total.
    """
    from zotune.bench.tuning import judging
    from zotune.core.folders import require_writable

    require_writable(output.parent)
    _measure(judging, judging.bench, as_json, size=size, instances=instances, output=output)
