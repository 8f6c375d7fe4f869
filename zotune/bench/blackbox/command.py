"""``zotune bench blackbox``: run a suite, or freeze its reference minima."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from zotune.bench.blackbox import judging, showing
from zotune.bench.blackbox.problems import parse_dims
from zotune.core.folders import require_writable

PRINTING = SimpleNamespace(as_records=judging.as_records, table=showing.table)
"""Functions that print outcomes."""


def blackbox(
    suite: str,
    dims: str | None,
    *,
    output: Path | None,
    freeze: Path | None,
    measure: Callable[..., list[Any]],
    as_json: bool,
    **chosen: Any,
) -> None:
    """Print the outcomes and draw their profiles, or write reference minima."""
    output = output or Path(f"results/blackbox-{suite}.png")
    require_writable((freeze or output).parent)
    if freeze is not None:
        from zotune.bench.blackbox.freezing import freeze as search

        search(suite, parse_dims(dims), freeze, on_case=lambda case: click.echo(case, err=True))
        return
    found = measure(PRINTING, judging.bench, as_json, suite=suite, dims=parse_dims(dims), **chosen)
    click.echo(f"figure: {showing.plot(found, output)}", err=as_json)
