"""Tracking stores: where they are, how they are opened, and what of their address may be told."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zotune.errors import ConfigError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

URI, EXPERIMENT = "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"
NOWHERE = "none"
"""The tracking URI of a launch that is not recorded in MLflow."""
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
"""What a process that delivers sets, unless the user has."""
USUAL = ("sqlite", "http", "https")
"""Kinds that are known without MLflow's import, which takes seconds."""
_SCHEME = re.compile(r"(?<![\w+.-])([\w+.-]*)://")
_HOST = re.compile(r"(?:[^:]*|\[.*\])(?::\d*)?")
_USERINFO = re.compile(r"\A[^:/\s]*(?::[^@\s]*)?@(?:[^/?#@\s]*@)*")
"""As SQLAlchemy reads it: a password may hold a slash, and ends at an @."""
_SECRET = re.compile(r"(?i)([?&;](?:[^=&;\s]*(?:password|passwd|token|secret|key))=)[^&;\s]+")

_REMEMBERED: dict[str, str] = {}


def resolve_uri(given: str | os.PathLike[str] | None = None) -> str:
    """The store's full address: given, of the environment, or ``mlflow.db`` in this folder.

    >>> resolve_uri("https://tracking.example.org")
    'https://tracking.example.org'
    """
    uri = str(given or os.environ.get(URI) or "sqlite:///mlflow.db")
    scheme = scheme_of(uri)
    if scheme == "file" or (not scheme and uri != "databricks"):
        file = uri if uri.endswith(".db") else "mlflow.db"
        raise ConfigError(
            f"tracking URI {uri!r} names a folder of files, a store that MLflow has retired; "
            f"use sqlite:///{file}, an http(s) server or postgresql://…"
        )
    _require_kind(uri)
    database = database_of(uri)
    return uri if database is None else _absolute(database, uri)


def _require_kind(uri: str) -> None:
    """Refuse an address of a kind for which neither MLflow nor a plugin of it has a store."""
    if scheme_of(uri) in USUAL:
        return
    _quieten()
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import registry
    from mlflow.tracking._tracking_service.utils import _tracking_store_registry as stores

    try:
        stores.get_store_builder(uri)  # type: ignore[no-untyped-call]
    except registry.UnsupportedModelRegistryStoreURIException as error:
        known = ", ".join(sorted({*error.supported_uri_schemes} - {"", "file"}))
        raise ConfigError(
            f"tracking URI {without_credentials(uri)!r} is of no kind that MLflow knows: {known}; "
            "use sqlite:///mlflow.db, an http(s) server or postgresql://…"
        ) from None
    except MlflowException as error:
        raise ConfigError(
            f"tracking URI {without_credentials(uri)!r} is refused by MLflow: "
            f"{' '.join(without_credentials(str(error)).split())}"
        ) from None


def _absolute(database: Path, uri: str) -> str:
    path, (_, mark, options) = str(database.absolute()), uri.partition("?")
    if "?" in path or unquote(path) != path:
        raise ConfigError(
            f"the path of a sqlite store can have no ? and no escape such as %20, got {path}; "
            "rename the folder, or give another --tracking-uri"
        )
    return f"sqlite:///{path}{mark}{options}"


def scheme_of(uri: str) -> str:
    """The kind of a store; empty for what is no address."""
    return uri.partition("://")[0].lower() if "://" in uri else ""


def without_credentials(text: str) -> str:
    """Text in which no address has a user, a password or a token.

    >>> without_credentials("postgresql://me:secret@host/runs?sslmode=require")
    'postgresql://host/runs?sslmode=require'
    """
    head, *parts = _SCHEME.split(text)
    addresses = zip(parts[::2], parts[1::2], strict=True)
    bare = (f"{scheme}://{_without_user(scheme, rest)}" for scheme, rest in addresses)
    return _SECRET.sub(r"\1…", head + "".join(bare))


def _without_user(scheme: str, rest: str) -> str:
    """What follows a scheme, without the user info that its kind of store would read there."""
    authority = re.split(r"[/?#\s]", rest, maxsplit=1)[0]
    of_server = scheme.lower().endswith(("http", "https"))
    if of_server and ("@" in authority or _HOST.fullmatch(authority)):
        return rest[authority.rfind("@") + 1 :]
    return _USERINFO.sub("", rest)


def remember(uri: str) -> None:
    """Let this process find the credentials of an address; they are written down nowhere."""
    bare = without_credentials(uri)
    if uri != bare:
        _REMEMBERED[bare] = uri


def with_credentials(uri: str) -> str:
    """The full address of a store that was written down without its credentials."""
    known = os.environ.get(URI, "")
    of_environment = known if known and without_credentials(known) == uri else uri
    return _REMEMBERED.get(uri, of_environment)


def database_of(uri: str) -> Path | None:
    """The file of a sqlite store; None for any other. Its path ends at a ``?``, not at a ``#``."""
    path = Path(uri.partition("://")[2].partition("?")[0].removeprefix("/"))
    return path if scheme_of(uri) == "sqlite" and path.name not in ("", ":memory:") else None


def artifact_root(uri: str) -> str | None:
    """Where artifacts of a sqlite store go, beside it; a server knows its own place."""
    database = database_of(uri)
    return None if database is None else (database.parent / "mlartifacts").as_uri()


def is_absent(uri: str) -> bool:
    """Whether the store is a sqlite file that does not exist; of others nobody knows."""
    database = database_of(uri)
    return database is not None and not database.is_file()


def open_client(uri: str) -> MlflowClient:
    """A client whose store is open; processes that open a new sqlite store take turns."""
    from zotune.callbacks.answers import require_answer

    require_answer(uri)
    _quieten()
    from mlflow.tracking import MlflowClient

    with _first_opening(uri):
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
    return client


def _quieten() -> None:
    """Set what MLflow reads when it is imported; what the user has set stays."""
    for key, value in QUIET.items():
        os.environ.setdefault(key, value)


@contextmanager
def _first_opening(uri: str) -> Iterator[None]:
    database = database_of(uri)
    if database is None:
        yield
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with database.with_name(f".{database.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def experiment_id(client: MlflowClient, uri: str, name: str) -> str:
    """The experiment of that name, made if there is none."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        root = artifact_root(uri)
        location = None if root is None else f"{root}/{re.sub(r'[^-.A-Za-z0-9_]', '-', name)}"
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise ConfigError(
            f"experiment {name!r} is deleted in the store; restore it there, or name another"
        )
    return str(found.experiment_id)
