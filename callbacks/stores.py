"""Tracking stores: resolve and open addresses, and remove credentials from them."""

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
USUAL_STORE = "sqlite:///mlflow.db"
"""The store unless another is named, in the folder of the process."""
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
"""Environment variables for the delivery process, unless the user has set them."""
USUAL = ("sqlite", "http", "https")
"""Kinds of stores that are accepted without importing MLflow, which takes seconds."""
_SCHEME = re.compile(r"(?<![\w+.-])([\w+.-]*)://")
_HOST = re.compile(r"(?:[^:]*|\[.*\])(?::\d*)?")
_USERINFO = re.compile(r"\A[^:/\s]*(?::[^@\s]*)?@(?:[^/?#@\s]*@)*")
"""User info as SQLAlchemy parses it: a password may contain a slash, and ends at an @."""
_SECRET = re.compile(r"(?i)([?&;](?:[^=&;\s]*(?:password|passwd|token|secret|key))=)[^&;\s]+")

_REMEMBERED: dict[str, str] = {}


def resolve_uri(given: str | os.PathLike[str] | None = None) -> str:
    """The store's full address: as given, from the environment, or ``mlflow.db`` in this folder.

    >>> resolve_uri("https://mlflow.example.net")
    'https://mlflow.example.net'
    """
    uri = with_credentials(str(given)) if given else os.environ.get(URI) or USUAL_STORE
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
    """Raise an error for a kind of address that neither MLflow nor a plugin supports."""
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


def is_found_by_default(uri: str) -> bool:
    """Whether commands find a store without its address, in this folder and in any shell.

    An address in the environment does not count: a script may have set it, for itself only.
    """
    usual = database_of(USUAL_STORE)
    here = usual is not None and database_of(uri) == usual.absolute()
    known = os.environ.get(URI)
    return here and (not known or resolve_uri(known) == uri)


def scheme_of(uri: str) -> str:
    """The scheme of an address; empty if it has none."""
    return uri.partition("://")[0].lower() if "://" in uri else ""


def without_credentials(text: str) -> str:
    """The text with user, password and token removed from all addresses.

    >>> without_credentials("postgresql://me:secret@host/runs?sslmode=require")
    'postgresql://host/runs?sslmode=require'
    """
    head, *parts = _SCHEME.split(text)
    addresses = zip(parts[::2], parts[1::2], strict=True)
    bare = (f"{scheme}://{_without_user(scheme, rest)}" for scheme, rest in addresses)
    return _SECRET.sub(r"\1…", head + "".join(bare))


def _without_user(scheme: str, rest: str) -> str:
    """The part of an address after its scheme, without user info as parsed by that store."""
    authority = re.split(r"[/?#\s]", rest, maxsplit=1)[0]
    of_server = scheme.lower().endswith(("http", "https"))
    if of_server and ("@" in authority or _HOST.fullmatch(authority)):
        return rest[authority.rfind("@") + 1 :]
    return _USERINFO.sub("", rest)


def remember(uri: str) -> None:
    """Keep the credentials of an address in this process; they are stored nowhere else."""
    bare = without_credentials(uri)
    if uri != bare:
        _REMEMBERED[bare] = uri


def with_credentials(uri: str) -> str:
    """The address of a store with the credentials that were removed when it was stored."""
    known = os.environ.get(URI, "")
    of_environment = known if known and without_credentials(known) == uri else uri
    return _REMEMBERED.get(uri, of_environment)


def database_of(uri: str) -> Path | None:
    """The file of a sqlite store; None for others. The path ends at a ``?``, not at a ``#``."""
    path = Path(uri.partition("://")[2].partition("?")[0].removeprefix("/"))
    return path if scheme_of(uri) == "sqlite" and path.name not in ("", ":memory:") else None


def artifact_root(uri: str) -> str | None:
    """The folder for artifacts of a sqlite store, next to it; None for a server, which has one."""
    database = database_of(uri)
    return None if database is None else (database.parent / "mlartifacts").as_uri()


def is_absent(uri: str) -> bool:
    """Whether the store is a sqlite file that does not exist; False for other stores."""
    database = database_of(uri)
    return database is not None and not database.is_file()


def open_client(uri: str) -> MlflowClient:
    """A client with an open store; locks new sqlite stores against concurrent creation."""
    from zotune.callbacks.answers import require_answer

    require_answer(uri)
    _quieten()
    from mlflow.tracking import MlflowClient

    with _first_opening(uri):
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
    return client


def _quieten() -> None:
    """Set variables that MLflow reads at its import, unless the user has set them."""
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
    """The id of the experiment with that name, which is created if necessary."""
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
