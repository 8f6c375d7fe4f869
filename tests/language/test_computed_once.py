"""What does not move is computed once: the same losses, the same charge, a product for a probe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.instrument import parse_config
from tests.language.conftest import REAL_DATA, made, needs_minilm, needs_real_data
from tests.language.test_micro_batches import rows_of_forwards
from tests.language.test_objective import PROMPTED
from tests.weights.toy import assert_same, bits
from zotune.addresses import Keys
from zotune.errors import CheckpointError, ConfigError
from zotune.language.loading import quiet
from zotune.language.made import tiny_tokenizer
from zotune.language.objective import LanguageModel
from zotune.language.options import Options
from zotune.loop import Loop
from zotune.runs.checkpoint import load_loop, save_loop

TOLD = {"estimator": "avg", "q": 2, "update": "sgd", "step": "constant", "eta": 0.1}
CUTS: dict[str, tuple[dict[str, Any], str]] = {
    "linear head": ({"trainable": "head"}, "head"),
    "mean of all tokens": ({"trainable": "head", "pooling": "mean"}, "head"),
    "own head": ({"trainable": "head", "head": "own"}, "layer 2"),
    "last layer": ({"trainable": "*layers.1.*"}, "layer 1"),
    "last layer and head": ({"trainable": ["head", "*layers.1.*"]}, "layer 1"),
    "last norm": ({"trainable": ["*backbone.norm*", "head"]}, "layer 2"),
    "words": (PROMPTED | {"trainable": "*layers.1.*"}, "layer 1"),
}
MOVING: dict[str, dict[str, Any]] = {
    "all": {},
    "norms": {"trainable": "norms"},
    "lora": {"trainable": "lora"},
    "tied words": PROMPTED | {"trainable": "*embed_tokens*"},
}
EACH = pytest.mark.parametrize("options", [options for options, _ in CUTS.values()], ids=CUTS)

SOME = pytest.mark.parametrize(
    "options", [CUTS["linear head"][0], CUTS["last layer and head"][0]], ids=["head", "layer"]
)


def uncached(**options: Any) -> LanguageModel:
    return made(cache_bytes=0, **options)


@pytest.mark.parametrize(("options", "cut"), CUTS.values(), ids=CUTS)
def test_the_highest_place_below_which_nothing_moves_is_found(
    options: dict[str, Any], cut: str
) -> None:
    said = made(**options).computed_once
    assert said == f"what arrives at the {cut} is computed once for every example, within 512 MiB"


@pytest.mark.parametrize("options", MOVING.values(), ids=MOVING)
def test_nothing_is_computed_once_above_what_moves(options: dict[str, Any]) -> None:
    objective = made(**options)
    assert "trained weights are used from the first layer on" in objective.computed_once


@EACH
def test_losses_are_those_without_a_cache(options: dict[str, Any], keys: Keys) -> None:
    cached, plain = made(batch=12, **options), uncached(batch=12, **options)
    for step in (0, 7):
        batch = plain.batch(keys, step)
        for objective in (cached, plain):
            for parameter in objective.trained.values():
                parameter.data += 0.01 * torch.linspace(-1, 1, parameter.numel()).view_as(parameter)
        assert len(set(batch.lengths.tolist())) > 3
        assert float(cached.loss(batch)) == pytest.approx(float(plain.loss(batch)), rel=1e-5)
        assert cached.validate()["loss"] == pytest.approx(plain.validate()["loss"], rel=1e-5)


@pytest.mark.parametrize("memory", ["fast", "lean"])
@SOME
def test_runs_with_and_without_a_cache_agree_and_are_charged_alike(
    options: dict[str, Any], memory: str
) -> None:
    told = TOLD | {"memory": memory, "eta": 1e-3}
    runs = [
        zotune.minimize(build(**options), budget=30, points=3, **told) for build in (made, uncached)
    ]
    assert [run.state.ledger.evaluations for run in runs] == [30, 30]
    assert runs[0].state.ledger.monitored == runs[1].state.ledger.monitored
    losses = [[row["loss"] for row in run.rows] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize("cache_bytes", [2**29, 2000, 0])
@SOME
def test_a_resumed_run_has_the_same_bits_with_and_without_a_cache(
    options: dict[str, Any], cache_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = parse_config(TOLD | {"budget": 60})
    several = options | {"batch": 12, "micro_batch": 5, "cache_bytes": cache_bytes}
    whole = Loop(config, made(**several))
    end = whole.advance(whole.init())
    first = Loop(config, made(**several))
    save_loop(first, first.advance(first.init(), 10), tmp_path / "state.safetensors")
    monkeypatch.setattr("zotune.language.frozen._STORES", type(_stores())())  # another process
    second = Loop(config, made(**several))
    assert_same(second.advance(load_loop(second, tmp_path / "state.safetensors")[0]), end)
    assert bits(second.objective) == bits(whole.objective)  # type: ignore[arg-type]


def _stores() -> Any:
    from zotune.language import frozen

    return frozen._STORES


def test_a_step_on_the_head_runs_the_model_once_for_every_example() -> None:
    _stores().clear()
    objective = made(trainable="head", batch=8)
    counted = rows_of_forwards(objective)
    run = zotune.minimize(objective, budget=150, points=3, **TOLD)
    assert run.state.ledger.evaluations == 150
    assert sum(counted) == 64 + 32  # of train and of validation
    plain = uncached(trainable="head", batch=8)
    counted = rows_of_forwards(plain)
    zotune.minimize(plain, budget=150, points=3, **TOLD)
    assert sum(counted) > 150 * 8


def test_what_does_not_fit_is_computed_once_a_step(keys: Keys) -> None:
    _stores().clear()
    objective = made(trainable="head", batch=8, cache_bytes=10 * 32 * 4)
    counted = rows_of_forwards(objective)
    for step in range(2):
        batch = objective.batch(keys, step)
        losses = {float(objective.loss(batch)) for _ in range(5)}
        assert len(losses) == 1
    assert sum(counted) == 16
    objective.loss(objective.batch(keys, 0))
    assert sum(counted) == 16  # the first ten are kept
    objective.loss(objective.batch(keys, 1))
    assert sum(counted) == 16 + 6


def test_trials_on_one_model_and_its_data_share_what_is_kept_and_others_do_not(keys: Keys) -> None:
    _stores().clear()
    one = made(trainable="head", batch=8)
    one.loss(one.batch(keys, 0))
    for options, forwards in (
        ({}, 0),
        ({"pooling": "mean"}, 8),
        ({"seed": 1}, 8),
        ({"cache_bytes": 2**20}, 8),
        ({"dtype": "bfloat16"}, 8),
    ):
        other = made(**({"trainable": "head", "batch": 8} | options))
        counted = rows_of_forwards(other)
        other.loss(other.batch(keys, 0))
        assert sum(counted) == forwards, options


def test_a_model_in_training_mode_is_run_for_every_loss(keys: Keys) -> None:
    objective = made(trainable="head", batch=8)
    objective.module.train()
    counted = rows_of_forwards(objective)
    for _ in range(3):
        objective.loss(objective.batch(keys, 0))
    assert counted == [8, 8, 8]


def test_a_checkpoint_with_a_cache_is_not_continued_without(tmp_path: Path) -> None:
    config = parse_config(TOLD | {"budget": 30})
    cached = Loop(config, made(trainable="head"))
    save_loop(cached, cached.advance(cached.init(), 6), tmp_path / "state.safetensors")
    with pytest.raises(CheckpointError, match=r"another run: it has computed_once='head'"):
        load_loop(Loop(config, uncached(trainable="head")), tmp_path / "state.safetensors")


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_the_limit_is_a_number_of_bytes(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"problem\.cache_bytes must be"):
        Options(cache_bytes=value)


@needs_minilm
@needs_real_data
@pytest.mark.parametrize("trainable", ["head", "*layer.5.*"])
def test_a_real_encoder_has_the_losses_that_it_has_without_a_cache(
    trainable: str, keys: Keys
) -> None:
    options: dict[str, Any] = {"model": "minilm", "dataset": str(REAL_DATA / "sst2"), "batch": 6}
    options |= {"pooling": "mean", "max_length": 32, "trainable": trainable}
    cached, plain = made(**options), uncached(**options)
    batch = plain.batch(keys, 0)
    assert "computed once for every example" in cached.computed_once
    assert float(cached.loss(batch)) == pytest.approx(float(plain.loss(batch)), rel=1e-5)


def _architecture(name: str) -> Any:
    import transformers

    same = {"vocab_size": 384, "hidden_size": 32, "num_attention_heads": 2}
    wide = same | {"intermediate_size": 64, "num_hidden_layers": 3}
    configs: dict[str, dict[str, Any]] = {
        "Bert": wide,
        "Albert": wide | {"embedding_size": 16},
        "GPT2": {"vocab_size": 384, "n_embd": 32, "n_layer": 3, "n_head": 2},
        "Llama": wide,
        "OPT": same | {"ffn_dim": 64, "num_hidden_layers": 3, "word_embed_proj_dim": 32},
    }
    return getattr(transformers, f"{name}Config")(**configs[name])


@pytest.mark.parametrize(
    ("name", "trainable", "cut"),
    [
        ("Bert", "*layer.2.*", "at the layer 2 is computed once"),
        ("GPT2", ["head", "*h.1.*"], "at the layer 1 is computed once"),
        ("Llama", "*layers.2.*", "at the layer 2 is computed once"),
        ("OPT", "*layers.2.*", "at the layer 2 is computed once"),
        ("Albert", "*attention*", "nothing is computed once"),  # its layers are one and the same
        ("Albert", "head", "at the head is computed once"),
    ],
)
def test_architectures_have_the_losses_that_they_have_without_a_cache(
    name: str, trainable: Any, cut: str, tmp_path: Path, keys: Keys
) -> None:
    from transformers import AutoModel

    with quiet():
        AutoModel.from_config(_architecture(name)).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    options: dict[str, Any] = {"model": str(tmp_path), "trainable": trainable, "batch": 12}
    cached, plain = made(**options), uncached(**options)
    assert cut in cached.computed_once
    batch = plain.batch(keys, 0)
    assert len(set(batch.lengths.tolist())) > 3
    assert float(cached.loss(batch)) == pytest.approx(float(plain.loss(batch)), rel=1e-5)
