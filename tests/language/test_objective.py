"""The objective: losses that are the models' own, parameters that are trained, rows that count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import zotune
from tests.instrument import parse_config
from tests.language.conftest import REAL_DATA, made, needs_minilm, needs_real_data, parameters
from zotune.addresses import Keys
from zotune.errors import ConfigError
from zotune.language.heads import pooled
from zotune.language.objective import LanguageModel
from zotune.language.options import Options
from zotune.language.preparation import prepare
from zotune.language.tokens import Batch
from zotune.loop import Loop
from zotune.objectives import build_any_problem, build_problem

PROMPTED: dict[str, Any] = {"head": "words", "template": "{text} it is", "words": ["bad", "good"]}
HEADS: dict[str, dict[str, Any]] = {
    "linear": {},
    "mean": {"pooling": "mean"},
    "own": {"head": "own"},
    "words": PROMPTED,
    "lora": {"trainable": "lora"},
}


@pytest.mark.parametrize("options", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_loss_is_a_finite_float32_scalar_in_every_precision(
    options: dict[str, Any], dtype: str, keys: Keys
) -> None:
    objective = made(dtype=dtype, **options)
    loss = objective.loss(objective.batch(keys, 0))
    assert (loss.dtype, loss.shape) == (torch.float32, ())
    assert float(loss) == pytest.approx(0.69, abs=0.1)
    assert objective.dtype == getattr(torch, dtype)
    assert {p.dtype for p in objective.trained.values()} == {objective.dtype}
    assert (
        objective.dim == objective.options.dim == sum(p.numel() for p in objective.trained.values())
    )


def test_a_pooled_loss_is_the_cross_entropy_of_hidden_states_that_are_run_one_by_one(
    keys: Keys,
) -> None:
    objective = made(batch=5)
    batch = objective.batch(keys, 3)
    backbone: Any = objective.module.inner
    head = dict(objective.module.named_parameters())["head.weight"]
    losses = []
    for ids, length, label in zip(
        batch.inputs["input_ids"], batch.lengths, batch.labels, strict=True
    ):
        with torch.no_grad():
            hidden = backbone(input_ids=ids[None, :length]).last_hidden_state
            logits = hidden[:, -1] @ head.T
        losses.append(torch.nn.functional.cross_entropy(logits, label[None]))
    assert float(objective.loss(batch)) == pytest.approx(
        float(torch.stack(losses).mean()), rel=1e-5
    )


def test_a_prompted_loss_compares_the_words_of_the_whole_vocabulary(keys: Keys) -> None:
    objective = made(batch=4, **PROMPTED)
    batch = objective.batch(keys, 0)
    tokenizer, causal = objective.prepared.tokenizer, objective.module.inner
    words = [tokenizer(word)["input_ids"] for word in (" bad", " good")]
    assert [len(word) for word in words] == [1, 1]
    assert tokenizer.decode(batch.inputs["input_ids"][0][: batch.lengths[0]]).endswith("it is")
    with torch.no_grad():
        everything = causal(**batch.inputs).logits
    last = everything[torch.arange(4), batch.lengths - 1][:, [words[0][0], words[1][0]]]
    expected = torch.nn.functional.cross_entropy(last, batch.labels)
    assert float(objective.loss(batch)) == pytest.approx(float(expected), rel=1e-5)


def test_pooling_takes_the_last_token_the_mean_of_all_or_the_first() -> None:
    hidden = torch.tensor([[[1.0], [3.0], [100.0]], [[2.0], [4.0], [6.0]]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    batch = Batch({"attention_mask": mask}, mask.sum(1), torch.zeros(2))
    assert pooled(hidden, batch, "last").flatten().tolist() == [3, 6]
    assert pooled(hidden, batch, "mean").flatten().tolist() == [2, 4]
    assert pooled(hidden, batch, "cls").flatten().tolist() == [1, 2]


@pytest.mark.parametrize("options", HEADS.values(), ids=HEADS)
def test_rows_that_are_not_touched_do_not_matter_and_those_that_are_do(
    options: dict[str, Any], keys: Keys
) -> None:
    objective = made(batch=4, **options)
    batch = objective.batch(keys, 0)
    touched = objective.touched(batch)
    if options.get("trainable") == "lora":
        assert touched == {}
        return
    ((name, rows),) = touched.items()
    weight = objective.trained[name]
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert len(rows) < len(weight) / 2
    others = torch.ones(len(weight), dtype=torch.bool).index_fill_(0, rows, False)
    before = objective.loss(batch)
    weight.data[others] += 1.0
    assert torch.equal(objective.loss(batch), before)
    weight.data[rows] += torch.linspace(0, 1, len(rows))[:, None]
    assert not torch.equal(objective.loss(batch), before)


@pytest.mark.parametrize("options", HEADS.values(), ids=HEADS)
def test_lean_memory_sees_the_same_losses(options: dict[str, Any]) -> None:
    def factors(memory: str) -> list[list[float]]:
        settings = {"estimator": "avg", "q": 2, "budget": 6, "step": "constant", "eta": 1e-3}
        loop = Loop(parse_config(settings | {"memory": memory}), made(batch=4, **options))
        loop.advance(loop.init())
        return loop.iterate.log

    assert factors("lean") == factors("fast")


def test_an_output_of_its_own_says_its_words_too(tmp_path: Path, keys: Keys) -> None:
    tied = made(batch=4, **PROMPTED)
    config, causal = tied.prepared.config, tied.module.inner
    untied = type(causal)(type(config)(**(config.to_dict() | {"tie_word_embeddings": False})))
    untied.load_state_dict(causal.state_dict())
    untied.save_pretrained(tmp_path)
    tied.prepared.tokenizer.save_pretrained(tmp_path)
    objective = made(batch=4, model=str(tmp_path), **PROMPTED)
    batch = objective.batch(keys, 0)
    assert torch.allclose(objective.loss(batch), tied.loss(batch))
    rows = objective.touched(batch)
    assert rows["model.lm_head.weight"].tolist() == sorted(objective.prepared.word_tokens)
    others = torch.ones(384, dtype=torch.bool)
    others[rows["model.lm_head.weight"]] = False
    before = objective.loss(batch)
    objective.trained["model.lm_head.weight"].data[others] += 1.0
    assert torch.equal(objective.loss(batch), before)


def test_a_tied_embedding_stands_in_the_vector_once_and_reads_its_words_as_well() -> None:
    objective = made(**PROMPTED)
    causal: Any = objective.module.inner
    tied = causal.get_input_embeddings().weight
    assert causal.get_output_embeddings().weight is tied
    assert sum(parameter is tied for parameter in objective.trained.values()) == 1
    assert len(objective.trained) == len({id(p) for p in objective.trained.values()})


def test_what_is_trained_is_what_was_asked_for() -> None:
    everything = dict(made().trained)
    assert list(made(trainable="head").trained) == ["head.weight"]
    assert list(made(head="own", trainable="head").trained) == ["model.score.weight"]
    lora = made(trainable="lora", lora_rank=3)
    assert list(lora.trained)[-1] == "head.weight"
    assert lora.dim == 2 * (3 * (32 + 32) + 3 * (32 + 16)) + 64
    norms = made(trainable="*layernorm*")
    assert norms.trained
    assert all("layernorm" in name for name in norms.trained)
    assert norms.trained.keys() < everything.keys()


def test_low_rank_layers_change_nothing_before_they_are_trained(keys: Keys) -> None:
    plain, lora = made(), made(trainable="lora")
    batch = plain.batch(keys, 0)
    assert torch.equal(plain.loss(batch), lora.loss(batch))
    b = next(p for name, p in lora.trained.items() if name.endswith("lora_b"))
    b.data += 1.0
    assert not torch.equal(plain.loss(batch), lora.loss(batch))


def test_the_instance_is_the_seeds_own_and_torchs_numbers_go_on_as_if_nothing_were() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one, same, other = made(), made(), made(seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    weights = [parameters(objective) for objective in (one, same, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(weights[0]["head.weight"], weights[2]["head.weight"])
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


def test_validation_is_the_mean_over_all_held_out_examples() -> None:
    by_batch = [made(batch=batch).validate() for batch in (5, 32)]
    assert by_batch[0]["loss"] == pytest.approx(by_batch[1]["loss"], rel=1e-5)
    assert by_batch[0]["accuracy"] == by_batch[1]["accuracy"]
    assert (by_batch[0]["accuracy"] * 32).is_integer()


def test_a_look_at_the_validation_data_counts_as_evaluations_of_batches() -> None:
    objective = made(batch=5)
    assert objective.evaluations_to_validate == 7  # 32 examples
    told = {"q": 1, "eta": 1e-3, "estimator": "avg", "step": "constant", "update": "sgd"}
    run = zotune.minimize(objective, budget=8, points=2, **told)
    looks = run.state.ledger.monitored / 7
    assert looks.is_integer()
    assert looks >= 2  # at the start and at the end


def test_modules_are_in_evaluation_mode_without_gradients(keys: Keys) -> None:
    objective = made(trainable="lora")
    assert not any(module.training for module in objective.module.modules())
    assert not any(p.requires_grad for p in objective.module.parameters())
    assert not objective.loss(objective.batch(keys, 0)).requires_grad


def test_the_problem_is_built_by_its_name_but_not_as_a_function_of_a_vector() -> None:
    built = build_any_problem({"name": "language-model", "train_size": 8, "validation_size": 8})
    assert isinstance(built, LanguageModel)
    with pytest.raises(ConfigError, match="'language-model' is a function of a model's weights"):
        build_problem("language-model")


def test_preparing_loads_no_weights_and_is_done_once() -> None:
    options = Options(train_size=8, validation_size=8, seed=7)
    assert prepare(options) is prepare(Options(train_size=8, validation_size=8, seed=7))
    assert options.dim == LanguageModel(options).dim


@needs_minilm
def test_a_real_encoder_pools_as_its_makers_do_and_leaves_its_pooler_alone(keys: Keys) -> None:
    objective = made(model="minilm", pooling="mean", batch=4)
    assert objective.dim == 22_713_216 - 384 * 384 - 384 + 2 * 384
    assert not any("pooler" in name for name in objective.trained)
    batch = objective.batch(keys, 0)
    assert "token_type_ids" in batch.inputs
    ((name, rows),) = objective.touched(batch).items()
    assert name.endswith("word_embeddings.weight")
    assert {101, 102} <= set(rows.tolist())


@needs_minilm
@needs_real_data
def test_pairs_are_fed_as_the_tokenizer_joins_them_or_on_two_lines() -> None:
    real: dict[str, Any] = {"dataset": str(REAL_DATA / "cb"), "train_size": 4, "max_length": 64}
    encoder = Options(model="minilm", pooling="mean", validation_size=4, **real).prepared()
    decoder = Options(validation_size=4, **real).prepared()
    assert encoder.train.types is not None
    assert {0, 1} == set(encoder.train.types[0])
    assert encoder.tokenizer.decode(encoder.train.ids[0]).count("[SEP]") == 2
    assert decoder.train.types is None
    whole = Options(**(real | {"max_length": 128, "validation_size": 4})).prepared()
    assert any("\n" in whole.tokenizer.decode(ids) for ids in whole.train.ids)
