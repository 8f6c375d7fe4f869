"""Export: a folder that transformers loads without us, with the very same logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    pipeline,
)

from tests.language.conftest import made, needs_minilm, parameters, write_rows
from zotune import minimize
from zotune.addresses import Keys
from zotune.cli import main
from zotune.core.names import STATE_FILE
from zotune.errors import ConfigError
from zotune.language.exported import load_classifier
from zotune.language.heads import Pooled
from zotune.language.made import VOCABULARY, tiny_tokenizer
from zotune.language.objective import LanguageModel
from zotune.language.options import Options


def disturbed(**options: Any) -> LanguageModel:
    """A model that is no longer as it was initialised."""
    objective = made(batch=6, **options)
    generator = torch.Generator().manual_seed(0)
    for parameter in objective.trained.values():
        parameter.data += 0.02 * torch.randn(parameter.shape, generator=generator)
    return objective


@torch.no_grad()
def logits(objective: LanguageModel, batch: Any) -> torch.Tensor:
    found: torch.Tensor = objective.module(batch)
    return found


@pytest.mark.parametrize("options", [{}, {"head": "own"}, {"trainable": "lora"}])
def test_a_classifier_is_loaded_as_one_with_its_tokenizer_and_the_names_of_its_classes(
    options: dict[str, Any], tmp_path: Path, keys: Keys
) -> None:
    objective = disturbed(**options)
    before = parameters(objective)
    objective.export(tmp_path)
    assert parameters(objective).keys() == before.keys()
    assert all(torch.equal(p, before[n]) for n, p in parameters(objective).items())
    batch = objective.batch(keys, 0)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    with torch.no_grad():
        theirs = loaded(**batch.inputs).logits
    torch.testing.assert_close(theirs, logits(objective, batch), rtol=1e-4, atol=1e-5)
    assert loaded.config.id2label == {0: "bad", 1: "good"}
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = objective.prepared.tokenizer.decode(batch.inputs["input_ids"][0][: batch.lengths[0]])
    ids = batch.inputs["input_ids"][0][: batch.lengths[0]].tolist()
    assert tokenizer(text)["input_ids"] == ids


def test_a_prompted_model_is_loaded_as_a_causal_one_still_tied(tmp_path: Path, keys: Keys) -> None:
    objective = disturbed(head="words", template="{text} it is", words=["bad", "good"])
    objective.export(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    batch = objective.batch(keys, 0)
    with torch.no_grad():
        last = loaded(**batch.inputs).logits[torch.arange(6), batch.lengths - 1]
    torch.testing.assert_close(
        last[:, objective.prepared.word_tokens], logits(objective, batch), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("options", [{}, {"trainable": "lora"}, {"head": "own"}])
def test_an_export_is_a_model_that_can_be_trained_further(
    options: dict[str, Any], tmp_path: Path, keys: Keys
) -> None:
    objective = disturbed(**options)
    objective.export(tmp_path)
    again = made(batch=6, model=str(tmp_path), head="own")
    batch = objective.batch(keys, 0)
    torch.testing.assert_close(again.loss(batch), objective.loss(batch), rtol=1e-4, atol=1e-5)
    assert again.fingerprint()["revision"].startswith("sha256:")


def test_a_head_keeps_the_order_of_its_classes_whatever_the_data_call_them(tmp_path: Path) -> None:
    rows = [{"text": "a film", "label": name} for name in ("Good", "Bad", "Good", "Bad")]
    path = str(write_rows(tmp_path / "mine.tsv", rows))
    first = Options(dataset=path, validation=path, labels=["Good", "Bad"], head="own")
    LanguageModel(first).export(tmp_path / "model")
    own: dict[str, Any] = {"model": str(tmp_path / "model"), "dataset": path, "validation": path}
    assert Options(head="own", **own).prepared().labels == ("Good", "Bad")
    assert Options(head="linear", **own).prepared().labels == ("Bad", "Good")


def test_a_mean_pooled_model_is_a_base_model_beside_its_head(tmp_path: Path, keys: Keys) -> None:
    objective = disturbed(pooling="mean")
    objective.export(tmp_path)
    AutoModel.from_pretrained(tmp_path / "backbone")
    classifier = load_classifier(tmp_path)
    texts = ["the film is very good .", "a dull story ."]
    found = classifier.probabilities(texts)
    assert found.shape == (2, 2)
    coded = objective.prepared.tokenizer(texts)["input_ids"]
    tokens = type(objective.prepared.train)(coded, None, [0, 0], 0, 128)
    expected = logits(objective, tokens.batch([0, 1], torch.device("cpu"))).softmax(-1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert set(classifier.predict(texts)) <= {"bad", "good"}


@needs_minilm
def test_a_real_encoder_is_exported_whole(tmp_path: Path) -> None:
    objective = made(model="minilm", pooling="mean", trainable="head")
    objective.export(tmp_path)
    assert AutoModel.from_pretrained(tmp_path / "backbone").config.model_type == "bert"
    assert load_classifier(tmp_path).labels == ("bad", "good")


def a_bert(folder: Path, **config: Any) -> str:
    """A saved BERT with a classification head of its own, and its tokenizer."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 128}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": VOCABULARY}
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**sizes, **layers, **config))
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


TEXTS = ["the film is very good .", "a dull story ."]


@pytest.mark.parametrize("config", [{}, {"problem_type": "multi_label_classification"}])
@pytest.mark.parametrize("trainable", ["all", "head", "lora"])
def test_a_model_with_a_head_is_exported_with_it_for_a_pipeline(
    trainable: str, config: dict[str, str], tmp_path: Path
) -> None:
    objective = disturbed(model=a_bert(tmp_path / "bert", **config), trainable=trainable)
    assert objective.options.head == "own"
    objective.export(tmp_path / "export")
    answers: Any = pipeline("text-classification", str(tmp_path / "export"))(TEXTS, top_k=None)
    theirs = [{one["label"]: one["score"] for one in answer} for answer in answers]
    coded = objective.prepared.tokenizer(TEXTS)["input_ids"]
    tokens = type(objective.prepared.train)(coded, None, [0, 0], 0, 128)
    ours = logits(objective, tokens.batch([0, 1], torch.device("cpu"))).softmax(-1)
    for answer, expected in zip(theirs, ours.tolist(), strict=True):
        assert answer == pytest.approx(dict(zip(("bad", "good"), expected, strict=True)), abs=1e-5)
    assert ours[0].tolist() != pytest.approx(ours[1].tolist(), abs=1e-5)
    found = load_classifier(tmp_path / "export").probabilities(TEXTS)
    torch.testing.assert_close(found, ours, rtol=1e-4, atol=1e-5)


def test_a_head_that_transformers_cannot_load_is_loaded_by_us_and_refused_by_a_pipeline(
    tmp_path: Path,
) -> None:
    objective = disturbed(model=a_bert(tmp_path / "bert"), head="linear", pooling="cls")
    objective.export(tmp_path / "export")
    assert objective.prepared.load_with == "zotune.language.load_classifier"
    assert isinstance(load_classifier(tmp_path / "export").module, Pooled)
    with pytest.raises((OSError, ValueError)):
        pipeline("text-classification", str(tmp_path / "export"))


def test_pooling_is_refused_where_the_model_has_a_head_of_its_own(tmp_path: Path) -> None:
    message = r"problem\.pooling is for a linear head, and '.*bert' has a head of its own; leave"
    with pytest.raises(ConfigError, match=message) as caught:
        Options(model=a_bert(tmp_path / "bert"), pooling="mean").check()
    assert "\n" not in str(caught.value)


def test_an_export_from_before_heads_were_chosen_is_read_as_it_was_written(tmp_path: Path) -> None:
    objective = disturbed(pooling="mean")
    objective.export(tmp_path)
    expected = load_classifier(tmp_path).probabilities(TEXTS)
    for path in (tmp_path / "backbone").iterdir():
        path.rename(tmp_path / path.name)
    (tmp_path / "backbone").rmdir()
    settings = json.loads((tmp_path / "zotune.json").read_text())
    del settings["options"]["head"]
    (tmp_path / "zotune.json").write_text(json.dumps(settings))
    assert torch.equal(load_classifier(tmp_path).probabilities(TEXTS), expected)


def test_a_run_of_no_language_model_is_told_so_with_what_reads_it(tmp_path: Path) -> None:
    checkpoints = [tmp_path / f"trial{q}" / "checkpoint_000000" / STATE_FILE for q in (1, 2)]
    for q, path in enumerate(checkpoints, start=1):
        minimize({"name": "quadratic", "dim": 4}, q=q, budget=8, checkpoint=path)
    for source, named in ((tmp_path, checkpoints[1]), (checkpoints[0], checkpoints[0])):  # the best
        done = CliRunner().invoke(main, ["export", str(source), "-o", str(tmp_path / "model")])
        assert done.exit_code == 2
        assert done.output == (
            f"zotune: export needs a run of a language-model, and {named} is "
            "a run of 'quadratic'; zotune.load_run reads it\n"
        )
    assert not (tmp_path / "model").exists()


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_read() -> None:
    done = CliRunner().invoke(main, ["export", "nothing", "-o", "/proc/zotune/model"])
    assert done.exit_code == 2
    assert done.output.startswith("zotune: cannot write to /proc/zotune/model: No such file")
