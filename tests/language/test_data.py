"""Data: files and folders read, columns and labels found, splits drawn, batches by address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.language.conftest import REAL_DATA, needs_real_data, write_rows
from zotune.addresses import Keys, replicate_keys
from zotune.errors import ConfigError
from zotune.language.examples import read_examples
from zotune.language.made import made_rows
from zotune.language.options import Options
from zotune.language.tables import _hub_name
from zotune.language.tokens import Tokenised, batch_rows

ROWS = [{"sentence": f"text number {n}", "label": n % 2} for n in range(20)]


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "parquet"])
def test_every_kind_of_file_gives_the_same_examples(kind: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / f"mine.{kind}", ROWS)
    data = read_examples(Options(dataset=str(path), validation=str(path)))
    assert data.train.texts[3] == ("text number 3",)
    assert data.train.labels == [n % 2 for n in range(20)]
    assert data.labels == ("0", "1")


def test_quotes_belong_to_the_text_of_a_tsv_and_to_the_form_of_a_csv(tmp_path: Path) -> None:
    rows = 'sentence{0}label\n"so" it goes{0}0\n"a{0} b"{0}1\n'
    (tmp_path / "mine.tsv").write_text('sentence\tlabel\n"so" it goes\t0\nall "quoted\t1\n')
    (tmp_path / "mine.csv").write_text(rows.format(",").replace('"so" it', "so it"))
    tabs = read_examples(Options(dataset=str(tmp_path / "mine.tsv"), labels=["0", "1"]))
    commas = read_examples(Options(dataset=str(tmp_path / "mine.csv"), labels=["0", "1"]))
    texts = {*tabs.train.texts, *tabs.validation.texts}
    assert texts == {('"so" it goes',), ('all "quoted',)}
    assert {*commas.train.texts, *commas.validation.texts} == {("so it goes",), ("a, b",)}


def test_the_mark_that_spreadsheets_write_first_is_no_part_of_a_column(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("text,label\na b,0\nc d,1\ne f,0\n", encoding="utf-8-sig")
    assert read_examples(Options(dataset=str(tmp_path / "mine.csv"))).columns == ("text",)


def test_a_folder_is_its_train_and_validation_files(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.jsonl", ROWS[:15])
    write_rows(tmp_path / "dev.tsv", ROWS[15:])
    data = read_examples(Options(dataset=str(tmp_path)))
    assert (len(data.train), len(data.validation)) == (15, 5)


def test_a_single_file_is_split_by_the_seed_and_no_example_is_on_both_sides(
    tmp_path: Path,
) -> None:
    path = str(write_rows(tmp_path / "mine.tsv", ROWS))
    one, same, other = (
        read_examples(Options(dataset=path, validation_size=6, seed=s)) for s in (0, 0, 1)
    )
    assert one == same
    assert one.validation.texts != other.validation.texts
    assert {*one.train.texts} | {*one.validation.texts} == {(row["sentence"],) for row in ROWS}
    assert (len(one.train), len(one.validation)) == (14, 6)


def test_sizes_draw_different_examples_for_different_seeds(tmp_path: Path) -> None:
    path = str(write_rows(tmp_path / "mine.tsv", ROWS))
    drawn = [
        read_examples(Options(dataset=path, validation=path, train_size=8, seed=s)).train.texts
        for s in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 8


def test_columns_are_found_by_their_usual_names_or_as_told(tmp_path: Path) -> None:
    pair = {"premise": "a", "hypothesis": "b", "label": "no"}
    path = write_rows(tmp_path / "pair.jsonl", [pair, pair | {"label": "yes"}] * 3)
    found = read_examples(Options(dataset=str(path), validation=str(path)))
    assert found.columns == ("premise", "hypothesis")
    assert found.train.texts[0] == ("a", "b")
    told = read_examples(Options(dataset=str(path), validation=str(path), text="hypothesis"))
    assert told.train.texts[0] == ("b",)


def test_labels_come_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / "mine.jsonl", [{"text": "t", "label": x} for x in ("b", "a", "b", "a")]
    )
    options = {"dataset": str(path), "validation": str(path)}
    assert read_examples(Options(**options)).train.labels == [1, 0, 1, 0]  # type: ignore[arg-type]
    told: Any = options | {"labels": ["b", "a", "c"]}
    assert read_examples(Options(**told)).train.labels == [0, 1, 0, 1]


def test_whole_numbers_are_classes_in_their_own_order(tmp_path: Path) -> None:
    rows = [{"text": "t", "label": n} for n in (10, 9, 2)]
    path = str(write_rows(tmp_path / "mine.jsonl", rows))
    assert read_examples(Options(dataset=path, validation=path)).labels == ("2", "9", "10")


def test_names_of_the_hub_are_those_that_everybody_writes() -> None:
    assert _hub_name("glue/sst2") == ("nyu-mll/glue", "sst2")
    assert _hub_name("super_glue/cb") == ("aps/super_glue", "cb")
    assert _hub_name("stanfordnlp/imdb") == ("stanfordnlp/imdb", None)
    assert _hub_name("owner/name/subset") == ("owner/name", "subset")
    assert _hub_name("imdb") == ("imdb", None)


def test_made_reviews_are_the_seeds_own_balanced_and_told_apart_by_their_words() -> None:
    rows = made_rows("train", 200, 0)
    assert rows == made_rows("train", 200, 0) != made_rows("train", 200, 1)
    assert [row["label"] for row in rows].count("good") == 100
    words = {
        label: {w for row in rows if row["label"] == label for w in row["text"].split()}
        for label in ("good", "bad")
    }
    assert "superb" in words["good"] - words["bad"]
    assert "awful" in words["bad"] - words["good"]


@needs_real_data
@pytest.mark.parametrize(
    ("name", "columns", "labels", "sizes"),
    [
        ("sst2", ("sentence",), ("0", "1"), (67349, 872)),
        ("cb", ("premise", "hypothesis"), ("contradiction", "entailment", "neutral"), (250, 56)),
    ],
)
def test_the_real_sets_are_read_without_being_told_anything(
    name: str, columns: tuple[str, ...], labels: tuple[str, ...], sizes: tuple[int, int]
) -> None:
    data = read_examples(Options(dataset=str(REAL_DATA / name)))
    assert (data.columns, data.labels) == (columns, labels)
    assert (len(data.train), len(data.validation)) == sizes


@pytest.mark.parametrize(("size", "batch"), [(20, 4), (21, 4), (5, 8)])
def test_every_example_is_seen_once_an_epoch(size: int, batch: int, keys: Keys) -> None:
    rows = [row for step in range(size * 3) for row in batch_rows(keys, step, batch, size)]
    epochs = [rows[at : at + size] for at in range(0, size * batch, size)]
    assert all(sorted(epoch) == list(range(size)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_a_batch_is_a_function_of_its_address(keys: Keys) -> None:
    assert batch_rows(keys, 7, 4, 100) == batch_rows(keys, 7, 4, 100)
    assert batch_rows(keys, 7, 4, 100) != batch_rows(keys, 8, 4, 100)
    others = replicate_keys("batches", 0, [1])
    assert batch_rows(keys, 7, 4, 100) != batch_rows(others, 7, 4, 100)


def test_batches_are_padded_to_a_multiple_of_eight_and_no_further_than_the_model_goes() -> None:
    ids = [[1] * length for length in (3, 9, 19)]
    tokens = Tokenised(ids, None, [0, 1, 0], pad=7, longest=20)
    device = torch.device("cpu")
    short, long = tokens.batch([0], device), tokens.batch([0, 1, 2], device)
    assert short.inputs["input_ids"].tolist() == [[1, 1, 1, 7, 7, 7, 7, 7]]
    assert short.inputs["attention_mask"].tolist() == [[1, 1, 1, 0, 0, 0, 0, 0]]
    assert long.inputs["input_ids"].shape == (3, 20)
    assert long.lengths.tolist() == [3, 9, 19]


def test_held_out_batches_hold_every_example_once() -> None:
    rng = np.random.default_rng(0)
    ids = [[at] * int(rng.integers(1, 9)) for at in range(23)]
    tokens = Tokenised(ids, None, [0] * 23, pad=0, longest=64)
    batches = list(tokens.batches(5, torch.device("cpu")))
    assert [len(batch) for batch in batches] == [5, 5, 5, 5, 3]
    seen = sorted(int(row[0]) for batch in batches for row in batch.inputs["input_ids"])
    assert seen == list(range(23))


def test_columns_that_are_not_there_are_told_with_those_that_are(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "mine.tsv", [{"words": "a", "verdict": "x"}])
    with pytest.raises(
        ConfigError, match=r"columns words, verdict, none of which is known for a te"
    ):
        read_examples(Options(dataset=str(path)))
    with pytest.raises(ConfigError, match=r"verdict, none .* for a label; set problem\.label"):
        read_examples(Options(dataset=str(path), text="words"))
    with pytest.raises(ConfigError, match=r"verdict, and not the text column 'word'; set problem"):
        read_examples(Options(dataset=str(path), text="word", label="verdict"))
