"""The group of all commands: handling of errors and signals, and shared options and help."""

from __future__ import annotations

import atexit
import gc
import sys
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from zotune._version import __version__
from zotune.core.processes import stoppable
from zotune.errors import ZotuneError

BAD_INPUT, INTERRUPTED = 2, 130
RESULTS = Path("results")
"""Default folder of launches."""

# Skip garbage collection at exit, which takes half a second with torch, Ray or MLflow imported.
atexit.register(gc.freeze)


def examples(*commands: str) -> str:
    """The epilog of a command's help: example commands, which click must not wrap."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


class Group(click.Group):
    """Commands whose errors are one line each on standard error, and exit code 2.

    SIGTERM and a closed terminal end them as Ctrl-C does, with exit code 130.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; zotune's own errors are printed without a traceback."""
        try:
            with stoppable():
                return super().invoke(ctx)
        except ZotuneError as error:
            for line in str(error).splitlines():
                click.echo(f"zotune: {line}", err=True)
            sys.exit(BAD_INPUT)
        except KeyboardInterrupt:
            _forget_interrupt()
            sys.exit(INTERRUPTED)


class StudyName(click.types.StringParamType):
    """The name of a study, or a study file, with shell completion for both.

    Args:
        recorded: whether to complete studies that were run here, too, by their result folders.
    """

    name = "study"

    def __init__(self, *, recorded: bool = False) -> None:
        self._recorded = recorded

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Included studies, studies of this folder, and its files."""
        from zotune.study.studyfile import shipped_studies

        names = set(shipped_studies())
        if self._recorded:
            names |= {path.name for path in RESULTS.glob("*") if path.is_dir()}
        found = [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
        return [*found, CompletionItem(incomplete, type="file")]


def _forget_interrupt() -> None:
    """Make ``python -m`` exit with our exit code after a handled KeyboardInterrupt.

    If a KeyboardInterrupt leaves code run by ``exec``, which many imports use, Python sets a flag
    and later kills itself by SIGINT, even if we have handled the exception. Another ``exec``
    without an exception resets the flag.
    """
    exec("")


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "zotune doctor                    # what this machine can do",
        "zotune run smoke                 # a study of seconds",
        "zotune init mine                 # files for a study of your own",
    ),
)
@click.version_option(__version__, prog_name="zotune")
def main() -> None:
    """Zeroth-order optimization, measured in queries."""


IMPORT = click.option(
    "--import",
    "imports",
    multiple=True,
    metavar="FILE",
    help="A .py file (or module) that registers estimators or problems of yours. Repeatable.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
STORAGE = click.option(
    "--storage",
    type=click.Path(path_type=Path),
    default=RESULTS,
    show_default=True,
    help="Launches go to <storage>/<study>/<launch>/.",
)
TRACKING_URI = click.option(
    "--tracking-uri", help="MLflow store: MLFLOW_TRACKING_URI or mlflow.db unless given."
)
LAUNCHES = click.option(
    "--launch",
    "launches",
    multiple=True,
    metavar="ID",
    help="A launch, or all; the newest unless given. Repeatable.",
)
