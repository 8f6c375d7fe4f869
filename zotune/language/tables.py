"""Read rows of a dataset: from files, a folder, the hub, or generated."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zotune.errors import ConfigError
from zotune.language.made import LABELS, MADE_DATASET, made_rows
from zotune.language.places import first_line, hub_cache

Row = dict[str, Any]
READABLE = (".tsv", ".csv", ".jsonl", ".parquet")
TRAINING = ("train", "training")
HELD_OUT = ("validation", "dev", "val", "valid", "validation_matched")
"""Names of validation splits; a split named test is not used."""
HUB = {"glue": "nyu-mll/glue", "super_glue": "aps/super_glue"}
"""Common short names of collections on the hub."""
PARQUET_BRANCH = "refs/convert/parquet"


@dataclass(frozen=True)
class Tables:
    """Training rows, validation rows if any, and class names if the dataset has them."""

    train: list[Row]
    validation: list[Row] | None
    label_names: tuple[str, ...] | None = None


def read_tables(
    dataset: str, validation: str | None, *, sizes: tuple[int | None, int | None], seed: int
) -> Tables:
    """Read the rows of a dataset; ``sizes`` is for the generated one."""
    if dataset == MADE_DATASET:
        if validation is not None:
            raise ConfigError(f"problem.validation has no use with {MADE_DATASET}; leave it out")
        train, held_out = sizes
        return Tables(
            made_rows("train", train, seed), made_rows("validation", held_out, seed), LABELS
        )
    path = Path(dataset).expanduser()
    if path.is_dir():
        return _from_folder(path, validation)
    if path.is_file():
        return Tables(read_file(path), None if validation is None else _held_out(validation))
    if path.suffix in READABLE or path.is_absolute() or dataset.startswith("."):
        raise ConfigError(
            f"problem.dataset {dataset!r} was not found: looked for {path.absolute()}"
        )
    return _from_hub(dataset, validation)


def _from_folder(folder: Path, validation: str | None) -> Tables:
    files = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in READABLE}
    train = next((files[name] for name in TRAINING if name in files), None)
    if train is None:
        raise ConfigError(
            f"problem.dataset: {folder.absolute()} has no train{{{','.join(READABLE)}}}; "
            f"it has {_listed(path.name for path in sorted(folder.iterdir()))}"
        )
    wanted = HELD_OUT if validation is None else (validation,)
    held_out = next((files[name] for name in wanted if name in files), None)
    if held_out is None and validation is not None:
        return Tables(read_file(train), _held_out(validation))
    return Tables(read_file(train), None if held_out is None else read_file(held_out))


def _held_out(name: str) -> list[Row]:
    path = Path(name).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"problem.validation {name!r} was not found: looked for {path.absolute()}"
        )
    return read_file(path)


def read_file(path: Path) -> list[Row]:
    """The rows of a .tsv, .csv, .jsonl or .parquet file."""
    if path.suffix not in READABLE:
        raise ConfigError(f"problem.dataset: {path} must be one of {', '.join(READABLE)}")
    try:
        if path.suffix == ".parquet":
            return _parquet_rows(path)
        with path.open(encoding="utf-8-sig", newline="") as file:  # spreadsheets write a mark first
            return list(_json_lines(path, file) if path.suffix == ".jsonl" else _cells(path, file))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"problem.dataset: cannot read {path}: {first_line(error)}") from None


def _parquet_rows(path: Path) -> list[Row]:
    from pyarrow import parquet  # type: ignore[import-untyped]

    rows: list[Row] = parquet.read_table(path).to_pylist()
    return rows


def _json_lines(path: Path, lines: Any) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ConfigError(
                f"problem.dataset: {path}:{number} is not a JSON object: {line[:60]!r}"
            )
        yield row


def _cells(path: Path, file: Any) -> Iterator[Row]:
    """Rows by the header's names; in tab-separated files quotes have no meaning, as in GLUE."""
    tabs: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    reader = csv.reader(file, **(tabs if path.suffix == ".tsv" else {"strict": True}))
    try:
        header = next(reader, [])
        for cells in reader:
            if len(cells) != len(header):
                raise ConfigError(
                    f"problem.dataset: {path}:{reader.line_num} has {len(cells)} cells, "
                    f"and the header {len(header)}"
                )
            yield dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise ConfigError(f"problem.dataset: {path}:{reader.line_num}: {error}") from None


def _from_hub(name: str, validation: str | None) -> Tables:
    repository, subset = _hub_name(name)
    try:
        with _quiet():
            splits = _load(repository, subset)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(_not_found(name, repository, error)) from None
    train = next((split for split in TRAINING if split in splits), None)
    if train is None:
        raise ConfigError(f"problem.dataset {name!r} has no train split; it has {_listed(splits)}")
    wanted = HELD_OUT if validation is None else (validation,)
    held_out = next((split for split in wanted if split in splits), None)
    if held_out is None and validation is not None:
        raise ConfigError(
            f"problem.validation {validation!r} is no split of {name!r}; it has {_listed(splits)}"
        )
    features = splits[train].features
    names = [feature.names for feature in features.values() if hasattr(feature, "names")]
    return Tables(
        splits[train].to_list(),
        None if held_out is None else splits[held_out].to_list(),
        tuple(names[0]) if len(names) == 1 else None,
    )


def _hub_name(name: str) -> tuple[str, str | None]:
    """Repository and subset: ``glue/sst2``, ``owner/name`` or ``owner/name/subset``."""
    first, *rest = name.split("/")
    if first in HUB:
        return HUB[first], rest[0] if rest else None
    return "/".join([first, *rest[:1]]), rest[1] if len(rest) > 1 else None


def _load(repository: str, subset: str | None) -> Any:
    """Load the splits; from the cache only if the hub does not answer."""
    from datasets import load_dataset  # type: ignore[import-untyped]

    with nullcontext() if _hub_answers(repository) else _cache_alone():
        try:
            return load_dataset(repository, subset)
        except RuntimeError as error:
            if "script" not in str(error):
                raise
            return load_dataset(repository, subset, revision=PARQUET_BRANCH)


@contextmanager
def _cache_alone() -> Iterator[None]:
    """Make the libraries use their caches at once; otherwise they retry for half a minute."""
    from datasets import config
    from huggingface_hub import constants

    before = config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _hub_answers(repository: str) -> bool:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(repository, timeout=10)
    except HfHubHTTPError:
        return True
    except Exception:  # whichever HTTP library the hub uses today
        return False
    return True


def _not_found(name: str, repository: str, error: Exception) -> str:
    where = f"there is no file or folder {Path(name).absolute()}"
    if _hub_answers(repository):
        return f"problem.dataset {name!r} was not found: {where}; hub: {first_line(error)}"
    return (
        f"problem.dataset {name!r} was not found: {where}, it is not in the cache "
        f"{hub_cache().parent / 'datasets'}, and the hub cannot be reached (offline); "
        "give a .tsv, .csv, .jsonl or .parquet file, or a folder of them"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress messages about retries; the error is reported once."""
    loggers = [logging.getLogger(name) for name in ("huggingface_hub", "datasets")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _listed(names: Any) -> str:
    return ", ".join(str(name) for name in names) or "nothing"
