"""Convert rows of a dataset to examples: text and label columns, classes, validation split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zotune.addresses import instance_generator
from zotune.errors import ConfigError
from zotune.language.options import Options
from zotune.language.tables import Row, Tables, read_tables

PAIRS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("passage", "question"),
    ("text_a", "text_b"),
)
SINGLES = ("text", "sentence", "review", "content", "question", "premise")
LABEL_COLUMNS = ("label", "labels", "target", "class", "sentiment", "category")
HELD_OUT_SHARE = 10
"""If there is no validation split, one in this many training rows is held out."""

NAMED = 10
"""Classes that an error names."""


@dataclass(frozen=True)
class Examples:
    """Texts and classes of one split."""

    texts: list[tuple[str, ...]]
    """One or two texts per example."""
    labels: list[int]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Data:
    """Both splits, and the names of their columns and classes."""

    train: Examples
    validation: Examples
    columns: tuple[str, ...]
    labels: tuple[str, ...]


def read_examples(options: Options) -> Data:
    """Read the examples by the options; random choices use the options' seed."""
    sizes = options.train_size, options.validation_size
    tables = read_tables(options.dataset, options.validation, sizes=sizes, seed=options.seed)
    if not tables.train:
        raise ConfigError(f"problem.dataset {options.dataset!r} has an empty train split")
    columns, label = _columns(tables.train[0], options)
    train, validation = _splits(tables, options)
    for split, rows in (("train", train), ("validation", validation)):
        _require_labels(split, rows, label)
    labels = _label_names(train, label, tables, options)
    known = {name: at for at, name in enumerate(labels)}
    if tables.label_names is not None and options.labels is None:
        known |= {str(at): at for at in range(len(labels))}
    return Data(
        _examples("train", train, columns, label, known),
        _examples("validation", validation, columns, label, known),
        columns,
        labels,
    )


def _columns(row: Row, options: Options) -> tuple[tuple[str, ...], str]:
    """The text columns and the label column: as given, or by their usual names."""
    wanted = options.text if isinstance(options.text, tuple) else None
    texts = wanted or next((pair for pair in PAIRS if all(c in row for c in pair)), None)
    texts = texts or next(((single,) for single in SINGLES if single in row), None)
    label = options.label or next((name for name in LABEL_COLUMNS if name in row), None)
    has = f"problem.dataset {options.dataset!r} has the columns {', '.join(map(str, row))}"
    for option, names in (("text", texts), ("label", None if label is None else (label,))):
        if names is None:
            raise ConfigError(f"{has}, none of which is known for a {option}; set problem.{option}")
        absent = [name for name in names if name not in row]
        if absent:
            raise ConfigError(
                f"{has}, and not the {option} column {absent[0]!r}; set problem.{option}"
            )
    assert texts is not None  # for the type checker
    assert label is not None
    return texts, label


def _splits(tables: Tables, options: Options) -> tuple[list[Row], list[Row]]:
    """Training and validation rows, drawn without replacement; split off train if necessary."""
    train, validation = tables.train, tables.validation
    if validation is None:
        held_out = options.validation_size or max(1, len(train) // HELD_OUT_SHARE)
        shuffled = _drawn("split", train, len(train), options.seed)
        validation, train = shuffled[:held_out], shuffled[held_out:]
    for name, rows in (("train", train), ("validation", validation)):
        if not rows:
            raise ConfigError(
                f"problem.dataset {options.dataset!r} leaves an empty {name} split; "
                "give more rows, or lower problem.validation_size"
            )
    return (
        _drawn("train", train, options.train_size, options.seed),
        _drawn("validation", validation, options.validation_size, options.seed),
    )


def _drawn(split: str, rows: list[Row], size: int | None, seed: int) -> list[Row]:
    if size is None:
        return rows
    if size > len(rows):
        raise ConfigError(
            f"problem.{split}_size must be at most {len(rows)}, the rows of that split, got {size}"
        )
    order = instance_generator("examples", split, seed).permutation(len(rows))[:size]
    return [rows[at] for at in order]


def _require_labels(split: str, rows: Sequence[Row], label: str) -> None:
    """Refuse empty cells and the like, which would be a class of their own."""
    for number, row in enumerate(rows):
        value = row.get(label)
        if value in (None, "") or value != value:  # NaN
            raise ConfigError(
                f"problem.label: {split} row {number} has no label in column {label!r}, "
                f"got {value!r}; leave such rows out"
            )


def _label_names(
    rows: Sequence[Row], label: str, tables: Tables, options: Options
) -> tuple[str, ...]:
    """Class names: as given, from the dataset, or sorted from the training rows."""
    if options.labels is not None:
        return options.labels
    if tables.label_names is not None:
        return tables.label_names
    found = {_name(row.get(label)) for row in rows}
    if len(found) < 2:
        raise ConfigError(
            f"problem.label: column {label!r} must have two classes or more in the training rows, "
            f"got {', '.join(sorted(found))}"
        )
    whole = all(name.lstrip("-").isdigit() for name in found)
    return tuple(sorted(found, key=int) if whole else sorted(found))


def _examples(
    split: str, rows: Sequence[Row], columns: tuple[str, ...], label: str, known: dict[str, int]
) -> Examples:
    texts, labels = [], []
    for number, row in enumerate(rows):
        name = _name(row.get(label))
        if name not in known:
            classes = ", ".join(list(known)[:NAMED]) + ", …" * (len(known) > NAMED)
            raise ConfigError(
                f"problem.labels: {split} row {number} has the label {name!r}, which is none of "
                f"the classes {classes}; set problem.labels to all of them"
            )
        absent = [column for column in columns if not isinstance(row.get(column), str)]
        if absent:
            raise ConfigError(
                f"problem.text: {split} row {number} has no text in column {absent[0]!r}, "
                f"got {row.get(absent[0])!r}"
            )
        texts.append(tuple(row[column].strip() for column in columns))
        labels.append(known[name])
    return Examples(texts, labels)


def _name(value: Any) -> str:
    return (
        str(int(value)) if isinstance(value, bool | float) and value == int(value) else str(value)
    )
