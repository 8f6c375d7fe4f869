"""Check output folders before the work starts, and create private temporary folders."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from itertools import chain
from pathlib import Path

from zotune.errors import ConfigError

SOCKET_PATH = 103
"""Maximum length of a socket's path that all systems support."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ACCESS = stat.S_IRWXG | stat.S_IRWXO


def require_writable(folder: Path, option: str = "-o") -> None:
    """Raise an error if a folder cannot be created or written to; a created one is removed again.

    Args:
        folder: the output folder.
        option: the option to choose another one, for the message.
    """
    new: list[Path] = []
    probe = folder / f".probe.{os.getpid()}"
    try:
        new += [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror or error}; choose another with {option}"
        ) from None
    finally:
        for place in new:
            with suppress(OSError):
                place.rmdir()


def from_here(path: Path) -> Path:
    """The path relative to the current folder if it is inside it; else unchanged.

    >>> from_here(Path.cwd() / "results" / "mine"), from_here(Path("/elsewhere"))
    (PosixPath('results/mine'), PosixPath('/elsewhere'))
    """
    here = Path.cwd()
    return path.relative_to(here) if path != here and path.is_relative_to(here) else path


def written_by_others(folder: Path) -> Path | None:
    """A path in a folder that another user owns or may write to; None if there is none.

    A folder that only its owner can enter is not searched. Our user id is taken from a new file in
    the folder, because some network file systems map root to another user.
    """
    with tempfile.TemporaryFile(dir=folder) as new:
        us = os.fstat(new.fileno()).st_uid
    if _keeps_out(folder.lstat(), us, _OTHERS_ACCESS):
        return None
    below = (Path(at, name) for at, *names in os.walk(folder) for name in chain(*names))
    seen = (path for path in chain([folder], below) if not path.is_symlink())
    return next((p for p in seen if not _keeps_out(p.lstat(), us, _OTHERS_WRITE)), None)


def _keeps_out(found: os.stat_result, us: int, forbidden: int) -> bool:
    return found.st_uid == us and not found.st_mode & forbidden


def private_folder(room: int = 0) -> Path:
    """A folder for temporary files that other users can neither read nor replace.

    Args:
        room: bytes to leave for the rest of the path of a socket in it.
    """
    base = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    folder = Path(base) / f"zotune-{os.getuid()}"
    if len(os.fsencode(folder)) + room > SOCKET_PATH:
        folder = Path("/tmp") / folder.name
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and _keeps_out(found, os.getuid(), _OTHERS_ACCESS):
        return folder
    return Path(tempfile.mkdtemp(prefix="zotune-", dir=folder.parent))
