"""Ray's token authentication, for our private Ray and for joining clusters."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from zotune.errors import ConfigError

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
WITH_TOKEN, WITHOUT_TOKEN = "token", "disabled"
PATIENCE = {"RAY_py_gcs_connect_timeout_s": "5", "RAY_gcs_rpc_server_connect_timeout_s": "2"}
"""Connection timeouts for a cluster in seconds; with Ray's defaults it would be 40 in all."""


@contextmanager
def own_token() -> Iterator[None]:
    """Protect the Ray that is started in this context by a new random token.

    Ray's servers listen on all interfaces, and whoever connects can run code. The token is passed
    to Ray's processes in the environment and is in no file. Settings of the user for other Rays,
    including ``disabled``, are overridden here, and restored afterwards.
    """
    with _settings({MODE: WITH_TOKEN, TOKEN: secrets.token_hex(32), TOKEN_PATH: None}):
        yield


@contextmanager
def cluster_token(cluster: str) -> Iterator[None]:
    """Join the cluster at ``host:port``, with the user's token if it requires one.

    Ray by itself uses a token that it finds only if ``RAY_AUTH_MODE`` says so.
    """
    with _settings({MODE: _accepted_mode(cluster)}):
        yield


def require_token(cluster: str) -> None:
    """Raise an error if a cluster requires a token and the user has none, or a different one.

    Skipped if this process is connected to Ray already.
    """
    import ray

    if not ray.is_initialized():
        _accepted_mode(cluster)


def _accepted_mode(cluster: str) -> str:
    """The authentication mode that the cluster accepts; the user's setting if there is one."""
    given = os.environ.get(MODE)
    for mode in [given] if given else [WITHOUT_TOKEN, WITH_TOKEN]:
        with _settings({**PATIENCE, MODE: mode}):
            has_token = _has_token()
            # Ray aborts the process if it has to send a token and there is none.
            if (has_token or mode.lower() != WITH_TOKEN) and _lets_in(cluster):
                return mode
    raise ConfigError(f"the Ray cluster at {cluster} requires a token, {_why(given, has_token)}")


def _why(given: str | None, has_token: bool) -> str:
    """What is wrong with the user's token, and what to do."""
    if given and given.lower() != WITH_TOKEN:
        return f"but {MODE}={given} turns tokens off; unset it"
    if not has_token:
        return f"and there is none; set {TOKEN} or {TOKEN_PATH}, or write it to ~/.ray/auth_token"
    return f"and yours is another one; set {TOKEN}, or correct {TOKEN_PATH} or ~/.ray/auth_token"


def _has_token() -> bool:
    from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]
    from ray.exceptions import AuthenticationError

    try:
        return bool(AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))
    except AuthenticationError as error:
        raise ConfigError(f"Ray cannot read your token: {error.message}") from None


def _lets_in(cluster: str) -> bool:
    """Whether the cluster answers this process; one that does not answer at all is an error."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.exceptions import AuthenticationError, RayError

    try:
        with _without_stderr():
            GcsClient(address=cluster)
    except AuthenticationError:
        return False
    except RayError as error:
        raise ConnectionError(str(error)) from None
    return True


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Suppress messages of Ray's C++ code about failed authentication."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _settings(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables for Ray, or unset them (None), and restore them afterwards."""
    before = {key: os.environ.get(key) for key in changes}
    _apply(changes)
    try:
        yield
    finally:
        _apply(before)


def _apply(values: Mapping[str, str | None]) -> None:
    """Set variables and make Ray, which caches them, read them again.

    The mode is set before the token, so that threads that are ending do not look for a removed
    token.
    """
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    set_variables(values)
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def set_variables(values: Mapping[str, str | None]) -> None:
    """Set variables of the environment, and unset those that are None."""
    for key, value in values.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value
