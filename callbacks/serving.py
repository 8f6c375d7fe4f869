"""``zotune ui``: run MLflow's server on loopback, with a prepared page."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from zotune.callbacks.launches import launch_starts
from zotune.callbacks.page import Page, prepare_page
from zotune.callbacks.stores import (
    QUIET,
    artifact_root,
    database_of,
    is_absent,
    open_client,
    resolve_uri,
    scheme_of,
    without_credentials,
)
from zotune.core.folders import private_folder
from zotune.core.processes import stoppable, supervised
from zotune.errors import ConfigError, ZotuneError, nearest

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient
    from rich.console import Console

ALL, PORT = "all", 5000
HOSTS, LOOPBACK = "MLFLOW_SERVER_ALLOWED_HOSTS", "127.0.0.1:*,localhost:*"
"""Default of allowed host names, which protects the server from requests by web pages."""
JOBS = "MLFLOW_SERVER_ENABLE_JOB_EXECUTION"
"""Variable that enables the server's job runners, eight processes that are not needed here."""
STARTS_WITHIN = 300.0
"""Timeout for the start of a server in seconds."""
LOOK = 0.2
"""Polling interval in seconds."""


class ServerError(ZotuneError, RuntimeError):
    """A server that could not be started."""


def page_of(
    studies: Sequence[str] = (),
    tracking_uri: str | None = None,
    launches: Sequence[str] = (),
    *,
    shows_all: bool = False,
) -> tuple[str, Page]:
    """The store, and the page that compares launches of studies in it.

    Args:
        studies: names of studies; default: the one with the newest launch.
        tracking_uri: the store; default: ``MLFLOW_TRACKING_URI``, else ``mlflow.db``.
        launches: launch ids, or ``all``; default: the newest of each study.
        shows_all: show runs that would be hidden, too.
    """
    uri = require_store(tracking_uri)
    client = open_client(uri)
    known = _launches(client, studies)
    if not known:
        raise ConfigError(f"no launch of a study is in {without_credentials(uri)}; run one first")
    chosen = [_known(name, known) for name in studies] or [next(iter(known))]
    shown = [launch for name in chosen for launch in _chosen(known[name], launches)]
    missing = [launch for launch in launches if launch not in (*shown, ALL)]
    if missing:
        there = ", ".join(launch for name in chosen for launch in known[name])
        raise ConfigError(f"launch {missing[0]!r} is not of {', '.join(chosen)}; known: {there}")
    ids = [_experiment(client, name) for name in chosen]
    return uri, prepare_page(client, ids, shown, shows_all=shows_all)


def require_store(tracking_uri: str | None) -> str:
    """The full address of a store; raises an error if a database file does not exist."""
    uri = resolve_uri(tracking_uri)
    if is_absent(uri):
        raise ConfigError(
            f"no MLflow store at {database_of(uri)}; run a study here first, or give --tracking-uri"
        )
    return uri


def _launches(client: MlflowClient, studies: Sequence[str]) -> dict[str, list[str]]:
    """Launches by study, newest first; only of the given studies if all of them exist.

    Otherwise of all studies, for the error message.
    """
    every = {e.name: e.experiment_id for e in client.search_experiments()}
    named = {name: every[name] for name in studies if name in every}
    chosen = named if named and len(named) == len(set(studies)) else every
    starts = {name: launch_starts(client, place) for name, place in chosen.items()}
    known = [(name, theirs) for name, theirs in starts.items() if theirs]
    known.sort(key=lambda item: -max(item[1].values()))
    return {name: list(theirs) for name, theirs in known}


def _known(name: str, known: dict[str, list[str]]) -> str:
    if name not in known:
        raise ConfigError(
            f"no launch of {name!r} is in the store{nearest(name, known)}; "
            f"studies there: {', '.join(known)}"
        )
    return name


def _chosen(theirs: list[str], wanted: Sequence[str]) -> list[str]:
    if ALL in wanted:
        return theirs
    return [launch for launch in theirs if launch in wanted] if wanted else theirs[:1]


def _experiment(client: MlflowClient, name: str) -> str:
    found = client.get_experiment_by_name(name)
    assert found is not None  # its runs were found by it
    return str(found.experiment_id)


def show(
    studies: Sequence[str],
    *,
    tracking_uri: str | None = None,
    launches: Sequence[str] = (),
    shows_all: bool = False,
    port: int | None = None,
    opens: bool = True,
) -> None:
    """Prepare the page, open it, and unless the store is a server, serve it until Ctrl-C.

    SIGTERM and a closed terminal have the same effect as Ctrl-C.
    """
    from rich.console import Console

    console = Console()
    if port is not None and not is_server(resolve_uri(tracking_uri)):
        require_free(port)
    with stoppable() as stop:
        uri = require_store(tracking_uri)
        prepare = partial(page_of, studies, uri, launches, shows_all=shows_all)
        if is_server(uri):
            _offer(console, without_credentials(uri).rstrip("/"), prepare()[1], opens)
            return
        prepared: list[Page] = []
        with (
            console.status("starting MLflow's server, which takes a while") as status,
            served(
                uri,
                port,
                check=stop.check,
                meanwhile=lambda: prepared.append(prepare()[1]),
            ) as address,
        ):
            status.stop()
            _offer(console, address, prepared[0], opens)
            console.print("Ctrl-C ends the server", highlight=False)
            while True:
                stop.check()
                time.sleep(LOOK)


def _offer(console: Console, server: str, page: Page, opens: bool) -> None:
    for line in (f"page: {server}{page.path}", page.notice, page.problem):
        if line:
            console.print(line, soft_wrap=True, highlight=False, markup=False)
    if opens:
        webbrowser.open(server + page.path)


def is_server(uri: str) -> bool:
    """Whether a store is a server, which has its own page."""
    return scheme_of(uri) in ("http", "https")


@contextmanager
def served(
    uri: str,
    port: int | None = None,
    *,
    check: Callable[[], None] = lambda: None,
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[str]:
    """Run MLflow's server on a store, on loopback only, until the context ends; yields its address.

    ``check`` is called repeatedly while the server starts, and may raise. ``meanwhile`` is called
    once while the server's imports are running, and may raise, too.
    """
    with (
        nullcontext(port) if port else free_port() as found,
        _server(uri, found, check, meanwhile) as address,
    ):
        yield address


@contextmanager
def _server(
    uri: str, port: int, check: Callable[[], None], meanwhile: Callable[[], object]
) -> Iterator[str]:
    told = {"MLFLOW_BACKEND_STORE_URI": uri, "PYTHONSAFEPATH": "1"}
    environment = {**QUIET, HOSTS: LOOPBACK, JOBS: "false", **os.environ, **told}
    options = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    if (root := artifact_root(uri)) is not None:
        options += ["--artifacts-destination", root]
    address = f"http://127.0.0.1:{port}"
    with supervised(
        [sys.executable, "-m", "mlflow", "server", *options],
        env=environment,
        cwd=None if root is None else private_folder(),  # modules beside a store are not imported
    ) as process:
        meanwhile()
        _wait(address, process, check)
        yield address


@contextmanager
def free_port() -> Iterator[int]:
    """MLflow's usual port, or any that is free.

    A server takes seconds before it listens. Until the context ends, other commands of this user do
    not get the usual port, so that they do not mistake our server for theirs.
    """
    with (private_folder() / "usual-port.lock").open("a") as lock:
        ports = [0]
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ports = [PORT, 0]
        found = next(filter(None, map(_bound, ports)), None)
        if found is None:
            raise ServerError("no port is free on 127.0.0.1")
        yield found


def _bound(port: int) -> int | None:
    """The port that binding to ``port`` gives (0 for any); None if it is taken."""
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return None
        found: int = tried.getsockname()[1]
        return found


def require_free(port: int) -> None:
    """Raise an error if no server can listen on a port of loopback."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            tried.bind(("127.0.0.1", port))
        except OverflowError:
            raise ServerError(f"--port must be from 0 to 65535, got {port}") from None
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "is taken" if taken else f"cannot be used: {error.strerror}"
            raise ServerError(
                f"port {port} {why}; choose another with --port, or leave it out for a free one"
            ) from None


def _wait(address: str, process: subprocess.Popen[bytes], check: Callable[[], None]) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while not _answers(address):
        check()
        if process.poll() is not None:
            raise ServerError(
                f"MLflow's server ended with code {process.returncode} before it answered at "
                f"{address}; `mlflow server` by hand says why"
            )
        if time.monotonic() > deadline:
            raise ServerError(f"MLflow's server did not answer at {address}")
        time.sleep(LOOK)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
