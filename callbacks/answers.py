"""Check within seconds whether a store answers; MLflow itself would retry for most of a minute."""

from __future__ import annotations

import os
import socket
import ssl
import urllib.error
import urllib.request
from contextlib import suppress
from http.client import HTTPException, RemoteDisconnected
from urllib.parse import urlsplit

from zotune.callbacks.stores import scheme_of, without_credentials
from zotune.errors import ZotuneError

PATIENCE = 4.0
"""Timeout in seconds for the answer of a server."""
PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
"""Default ports of databases."""


class StoreError(ZotuneError, RuntimeError):
    """A store that does not answer."""


def require_answer(uri: str) -> None:
    """Raise an error if a server cannot be reached, or accepts a connection and does not answer.

    Any answer is accepted; other problems of a server are reported by MLflow. Files and unknown
    kinds of stores are not checked.
    """
    address, kind = without_credentials(uri), scheme_of(uri).partition("+")[0]
    try:
        if kind in ("http", "https"):
            ask(f"{address.rstrip('/')}/health", PATIENCE)
        elif kind in PORTS:
            _reach(address, PORTS[kind])
    except TimeoutError:
        raise StoreError(f"{address} does not answer (nothing in {PATIENCE:g} s)") from None
    except OSError as error:
        raise StoreError(f"{address} does not answer ({error.strerror or error})") from None


def ask(address: str, seconds: float) -> None:
    """Request a page; raises OSError if there is no answer."""
    try:
        urllib.request.urlopen(address, timeout=seconds, context=_trusted()).close()
    except urllib.error.HTTPError as answer:
        answer.close()
    except urllib.error.URLError as error:
        if isinstance(error.reason, OSError) and not isinstance(error.reason, ssl.SSLError):
            raise error.reason from None
    except RemoteDisconnected:
        raise
    except (HTTPException, ValueError):
        return  # an answer or an address that we cannot parse, but MLflow may


def _trusted() -> ssl.SSLContext:
    """The certificates that MLflow trusts, as servers would log a failed TLS handshake."""
    path, context = os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH"), ssl.create_default_context()
    if path:
        with suppress(OSError):  # a file without certificates is reported by MLflow
            context.load_verify_locations(**{"capath" if os.path.isdir(path) else "cafile": path})
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("1", "true"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _reach(address: str, port: int) -> None:
    """Connect; raises OSError if nothing listens there."""
    try:
        at = urlsplit(address)
        host, port = at.hostname, at.port or port
    except ValueError:
        return
    if host:
        socket.create_connection((host, port), PATIENCE).close()
