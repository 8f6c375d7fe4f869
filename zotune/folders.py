"""Folders that a command is to write into, tried before its work is done."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from zotune.errors import ConfigError


def require_writable(folder: Path, option: str = "-o") -> None:
    """Refuse a folder that cannot be made or written to; one that was not there is not left there.

    Args:
        folder: where files will go.
        option: by which another is chosen.
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
