"""Facts about services that studies use: Ray, MLflow, Hugging Face, a browser."""

from __future__ import annotations

import os
import sqlite3
import webbrowser
from contextlib import closing
from pathlib import Path
from threading import Thread

from zotune.callbacks.answers import ask, require_answer
from zotune.callbacks.stores import database_of, is_absent, resolve_uri, without_credentials
from zotune.clusters.tokens import TOKEN, TOKEN_PATH
from zotune.doctor.fact import Fact
from zotune.errors import ZotuneError

NETWORK_SECONDS = 3.0
DEFAULT_TOKEN = "~/.ray/auth_token"


def ray() -> Fact:
    """Which cluster and which token the environment names; the token itself is not shown."""
    address = without_credentials(os.environ.get("RAY_ADDRESS", ""))
    file = os.environ.get(TOKEN_PATH) or DEFAULT_TOKEN
    is_there = Path(file).expanduser().is_file()
    token = f"in {TOKEN}" if os.environ.get(TOKEN) else f"in {file}" if is_there else "none"
    found = f"cluster address: {address or 'none'}; token: {token}"
    if token == "none" and file != DEFAULT_TOKEN:
        advice = f"{TOKEN_PATH} names {file}, which is not there: correct it, or unset it."
        return Fact("Ray", "problem", found, advice)
    cluster = "auto joins that cluster" if address else "HOST:PORT joins a cluster"
    advice = f"zotune run starts its own Ray here, which needs no token; --address {cluster}."
    return Fact("Ray", "ok", found, advice)


def mlflow() -> Fact:
    """The MLflow store, and whether it answers; credentials are not shown."""
    try:
        uri = resolve_uri()
        shown, database = without_credentials(uri), database_of(uri)
        if is_absent(uri):
            return Fact("MLflow", "ok", f"{shown}, not there yet", "A study creates it.")
        require_answer(uri)
        if database is not None:
            _require_experiments(database)
    except ZotuneError as error:
        found = without_credentials(str(error))
    except sqlite3.Error as error:
        found = f"{shown} is not a database of MLflow: {error}"
    else:
        advice = "Studies record their curves there; zotune ui shows them."
        return Fact("MLflow", "ok", f"{shown} answers", advice)
    advice = "Curves cannot be recorded: start the server, or set MLFLOW_TRACKING_URI."
    return Fact("MLflow", "problem", found, advice)


def _require_experiments(database: Path) -> None:
    """Read a table that every database of MLflow has."""
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as opened:
        opened.execute("SELECT count(*) FROM experiments")


def hub() -> Fact:
    """Whether models and datasets can be downloaded from Hugging Face."""
    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    from zotune.language.places import hub_cache

    name, address = "hub", without_credentials(ENDPOINT)
    cached = f"Only models in folders, packages and {hub_cache()} can be used"
    if HF_HUB_OFFLINE:
        return Fact(name, "note", "offline by HF_HUB_OFFLINE", f"{cached}; unset it to download.")
    if not answers(ENDPOINT):
        found = f"{address} did not answer within {NETWORK_SECONDS:g} s"
        return Fact(name, "note", found, f"{cached}; HF_HUB_OFFLINE=1 saves the waiting.")
    return Fact(name, "ok", f"{address} answers", "A study can name a model by its id there.")


def answers(address: str) -> bool:
    """Whether a server answers in time; looking up its name, which has no limit, included."""
    answered: list[bool] = []

    def request() -> None:
        try:
            ask(address, NETWORK_SECONDS)
        except OSError:
            return
        answered.append(True)

    thread = Thread(target=request, daemon=True)
    thread.start()
    thread.join(NETWORK_SECONDS)
    return bool(answered)


def browser() -> Fact:
    """The browser that would open MLflow's page."""
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        advice = "zotune ui prints the address of its page; open it through an SSH tunnel."
        return Fact("browser", "note", "none", advice)
    name = str(getattr(found, "name", type(found).__name__))
    return Fact("browser", "ok", name, "zotune ui opens MLflow's page in it.")
