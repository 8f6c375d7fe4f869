"""Language models as studies: checked before anything is loaded, run, learnt, taken home."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForSequenceClassification

import zotune
from tests.instrument import parse_config
from tests.language.conftest import REAL_DATA, SMALL, made, needs_minilm, needs_real_data
from zotune.cli import main
from zotune.cli.next_command import loaders
from zotune.errors import CheckpointError, ConfigError
from zotune.language import export_run, load_classifier
from zotune.language.preparation import prepare
from zotune.loop import Loop
from zotune.runs.checkpoint import save_loop
from zotune.runs.run import load_run
from zotune.study import Study, load_study
from zotune.study.studyfile import StudyError, shipped_studies

TINY = ["problem.model=tiny-qwen3", "problem.dataset=made-reviews", "problem.max_length=64"]
PAPERS = ["qwen3-sst2", "qwen3-cb", "minilm-sst2"]


def mistakes(**settings: Any) -> list[str]:
    base: dict[str, Any] = {
        "name": "s",
        "problem": {"name": "language-model"},
        "budget": 100,
        "fixed": {"step": "constant", "eta": 1e-3},
    }
    with pytest.raises(StudyError) as caught:
        Study(**(base | settings))
    return caught.value.problems


def finished(objective: Any, **settings: Any) -> tuple[Loop, Any, list[dict[str, Any]]]:
    """A run in this process: its loop, its last state and its rows, two unless told otherwise."""
    settings = {"report_every": settings["budget"]} | settings
    options = {"name": "language-model", **objective.options.located()}
    loop = Loop(parse_config({"problem": options, "L": 1.0, **settings}), objective)
    state, row = loop.report(loop.init())
    rows = [row]
    while loop.status(state) == "running":
        state, row = loop.report(loop.advance_to_report(state))
        rows.append(row)
    return loop, state, rows


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_protocol_is_a_grid_of_steps_for_each_estimator_and_q(name: str) -> None:
    study = load_study(name, settings=TINY)
    assert study.question.endswith("?")
    assert (study.budget, study.count, study.scheduler) == (20_000, "directions", "asha")
    pairs: dict[tuple[str, int], list[float]] = {}
    for point in study.trials:
        pairs.setdefault((point["estimator"], point["q"]), []).append(point["eta"])
    assert set(pairs) == {(e, q) for e in ("avg", "align-diag") for q in (1, 10, 100)}
    for steps in pairs.values():
        assert len(steps) == 5
        assert all(3 <= after / before < 3.4 for before, after in itertools.pairwise(steps))
    assert study.problem["trainable"] == "all"
    assert study.within == ["estimator", "q"]


@pytest.mark.parametrize("name", PAPERS)
def test_what_cannot_be_had_is_told_with_its_line_before_anything_starts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        StudyError, match=r":\d+: problem\.(model|dataset) .*(\(offline\)|not installed)"
    ):
        load_study(name, settings=["problem.revision=no-such-branch"])


def test_lean_memory_and_an_update_that_keeps_vectors_are_refused_before_anything_starts() -> None:
    told = ["memory=lean", "update=adam", "step=normalized", "space.eta=[0.01]"]
    with pytest.raises(StudyError, match="and update 'adam' keeps 2; set memory='fast'"):
        load_study("tiny-lm", settings=told)


def test_a_study_is_checked_without_loading_weights() -> None:
    assert mistakes(problem={"name": "language-model", "poling": "mean"})[0].startswith(
        "problem 'language-model' has no option 'poling' (did you mean 'pooling'?); it takes model,"
    )
    assert (
        "problem.trainable 'bias'"
        in mistakes(problem={"name": "language-model", "trainable": "bias"})[0]
    )
    assert mistakes(fixed={"step": "theory"}) == [
        "step theory needs L, which is not estimated for the weights of a model; "
        "give L (with L: 1, eta is 1/L), or step: constant with eta"
    ]
    assert mistakes(replicates=3) == [
        "replicates of a model's weights are trials; say replicates_as: trials"
    ]
    assert mistakes(space={"problem.dtype": ["float32", "float8"]})[0].startswith(
        "problem.dtype 'float8' is not known"
    )


def test_dimension_and_paths_are_known_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(trainable="head").export(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    study = Study(
        name="s",
        problem={"name": "language-model", "model": "mine", "trainable": "head"},
        budget=100,
        space={"estimator": ["align"], "q": [10, 64, 65]},
        fixed={"step": "constant", "eta": 1e-3},
    )
    assert [str(skipped) for skipped in study.skipped] == [
        "align q=65: align needs q ≤ d, and d = 64"
    ]
    assert study.config["problem"]["model"] == str(tmp_path / "mine")
    assert Study.from_dict(study.to_dict()) == study


def test_language_studies_are_small_in_smoke_mode() -> None:
    assert "tiny-lm" in shipped_studies()
    small = load_study("tiny-lm").smoke()
    assert (small.budget, small.size) == (200, 8)
    assert small.problem["train_size"] == 64
    for point in (small.trials[0], small.trials[-1]):
        config = small.configuration(point)
        objective = zotune.objectives.build_any_problem(config.problem)
        loop = Loop(config, objective)  # type: ignore[arg-type]
        assert loop.status(loop.advance(loop.init(), 20)) == "running"


def test_separable_texts_are_told_apart() -> None:
    objective = made(train_size=512, validation_size=64, batch=32)
    _, _, rows = finished(objective, estimator="align", q=5, budget=600, eta=17.0, report_every=200)
    assert rows[0]["accuracy"] < 0.6
    assert rows[-1]["accuracy"] > 0.8
    assert rows[-1]["loss"] < 0.7 * rows[0]["loss"]
    assert rows[-1]["train_loss"] < rows[1]["train_loss"]


def test_rows_that_are_not_perturbed_change_nothing_but_the_time() -> None:
    def values(touches: bool) -> torch.Tensor:
        objective = made()
        if not touches:
            objective.touched = lambda batch: {}  # type: ignore[method-assign]
        options = {"estimator": "avg", "q": 2, "budget": 8, "eta": 10.0, "embedding_rows": "all"}
        loop, _, _ = finished(objective, **options)
        return torch.tensor(loop.iterate.log)

    torch.testing.assert_close(values(True), values(False), rtol=1e-4, atol=1e-9)


def test_a_finished_run_is_taken_home_from_its_checkpoint(tmp_path: Path) -> None:
    objective = made(trainable="lora", batch=8)
    loop, state, rows = finished(objective, estimator="avg", q=1, budget=60, eta=10.0)
    trial = tmp_path / "study" / "launch" / "trial" / "checkpoint_000003"
    save_loop(loop, state, trial / "state.safetensors")
    (trial.parents[1] / "study.yaml").touch()
    for number, source in enumerate((trial, trial.parent, trial.parents[1], trial.parents[2])):
        exported = export_run(source, tmp_path / f"model-{number}")
        assert exported.loss == rows[-1]["loss"]
    batch = objective.batch(loop.iterate.batch_keys, 0)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model-3")
    with torch.no_grad():
        theirs, ours = model(**batch.inputs).logits, objective.module(batch)
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-5)
    texts = ["the film is very good .", "a dull story ."]
    probabilities = load_classifier(tmp_path / "model-0").probabilities(texts)
    assert probabilities.shape == (2, 2)
    run: Any = load_run(trial)
    assert run.weights().keys() == run.weights(best=True).keys() == objective.trained.keys()
    best = export_run(trial, tmp_path / "best", best=True)
    assert best.loss == run.best_loss <= rows[-1]["loss"]
    assert best.accuracy == next(row["accuracy"] for row in rows if row["loss"] == best.loss)


def test_a_launch_gives_its_best_trial(tmp_path: Path) -> None:
    losses = {}
    for eta in (1.0, 20.0):
        loop, state, rows = finished(made(), estimator="avg", q=1, budget=40, eta=eta)
        save_loop(loop, state, tmp_path / f"trial-{eta}/checkpoint_000000/state.safetensors")
        losses[eta] = rows[-1]["loss"]
    exported = export_run(tmp_path, tmp_path / "model")
    assert exported.loss == min(losses.values())
    assert exported.load_with.endswith("SequenceClassification.from_pretrained")


@pytest.mark.parametrize("options", [{}, {"pooling": "mean"}, {"head": "own"}])
def test_what_a_run_says_of_its_export_is_what_the_export_says(
    options: dict[str, str], tmp_path: Path
) -> None:
    loop, state, _ = finished(made(**options), estimator="avg", q=1, budget=10, eta=1.0)
    save_loop(loop, state, tmp_path / "state.safetensors")
    exported = export_run(tmp_path / "state.safetensors", tmp_path / "model")
    assert loaders(study_of(**options)) == exported.load_with
    searched = study_of(space={"q": [1], "problem.pooling": ["last", "mean"]})
    assert loaders(searched) == (
        "transformers.AutoModelForSequenceClassification.from_pretrained or "
        "zotune.language.load_classifier"
    )


def study_of(space: dict[str, Any] | None = None, **options: Any) -> Study:
    return Study(
        name="s",
        problem={"name": "language-model"} | SMALL | options,
        budget=10,
        space=space or {"q": [1]},
        fixed={"estimator": "avg", "step": "constant", "eta": 1.0},
    )


def test_exports_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no checkpoint at .*; give a launch's or a trial's"):
        export_run(tmp_path, tmp_path / "model")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ConfigError, match=r"full is there already; give a folder that is empty"):
        export_run(tmp_path, tmp_path / "full")
    zotune.minimize("quadratic", budget=10, checkpoint=tmp_path / "vector.safetensors")
    with pytest.raises(CheckpointError, match=r"is a run of 'quadratic'; zotune\.load_run"):
        export_run(tmp_path / "vector.safetensors", tmp_path / "model")
    with pytest.raises(ConfigError, match=r"has no zotune\.json; give a folder of zotune export"):
        load_classifier(tmp_path)


def test_an_export_on_another_base_model_is_refused(tmp_path: Path) -> None:
    made().export(tmp_path / "base")
    base: dict[str, Any] = {"model": str(tmp_path / "base"), "trainable": "head"}
    loop, state, _ = finished(made(**base), estimator="avg", q=1, budget=10, eta=1.0)
    save_loop(loop, state, tmp_path / "state.safetensors")
    weights = tmp_path / "base" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\1\0")
    prepare.cache_clear()  # as in another process
    with pytest.raises(CheckpointError, match=r"another run: it has revision='sha256:"):
        export_run(tmp_path / "state.safetensors", tmp_path / "model")


def test_the_command_exports_for_people_and_machines(tmp_path: Path) -> None:
    loop, state, _ = finished(made(), estimator="avg", q=1, budget=10, eta=1.0)
    save_loop(loop, state, tmp_path / "state.safetensors")
    told = CliRunner().invoke(main, ["export", str(tmp_path), "-o", str(tmp_path / "model")])
    assert told.exit_code == 0, told.output
    assert f"model: {tmp_path / 'model'}, for transformers.AutoModelForSeq" in told.output
    arguments = ["export", str(tmp_path), "-o", str(tmp_path / "again"), "--json"]
    assert json.loads(CliRunner().invoke(main, arguments).output)["accuracy"] is not None


REAL: dict[str, Any] = {
    "model": "minilm",
    "pooling": "mean",
    "dataset": str(REAL_DATA / "sst2"),
    "train_size": 1000,
}


@needs_minilm
@needs_real_data
def test_the_head_of_a_real_model_learns_from_real_texts() -> None:
    objective = made(**REAL, max_length=16, trainable="head", validation_size=64)
    _, _, rows = finished(objective, estimator="avg", q=8, budget=32, eta=8.0)
    assert rows[-1]["loss"] < rows[0]["loss"]


@pytest.mark.long
@needs_minilm
@needs_real_data
def test_all_weights_of_a_real_model_learn_from_real_texts() -> None:
    """The study minilm-sst2 at the first fortieth of its budget."""
    study = load_study("minilm-sst2", settings=[f"problem.dataset={REAL_DATA / 'sst2'}"])
    options = {key: value for key, value in study.problem.items() if key != "name"}
    settings = {**study.fixed, "estimator": "avg", "q": 10, "eta": 1900.0, "budget": 500}
    _, _, rows = finished(made(**options), **settings)
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.003


def test_a_paper_s_study_can_be_pointed_at_another_model_where_there_is_no_hub(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    settings = ("problem.model=tiny-qwen3", "problem.dataset=made-reviews", "resources.gpu=0")
    study = load_study("qwen3-sst2", settings=settings)
    assert study.fixed["embedding_rows"] == "all"
    assert study.lost_claims == ()
