"""What `trainable` names: words, patterns and lists of them, from Python and from study files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import zotune
from tests.instrument import parse_config
from tests.language.conftest import made, needs_minilm
from tests.language.test_objective import PROMPTED
from zotune.errors import ConfigError
from zotune.language.options import Options
from zotune.study import Study, load_study
from zotune.study.refining import nested

ENCODER: dict[str, Any] = {"model": "minilm", "pooling": "mean"}


def names(*parts: str, **options: Any) -> list[str]:
    return list(made(trainable=list(parts), **options).trained)


def test_a_list_trains_what_any_of_its_parts_names_in_the_order_of_the_model() -> None:
    everything = list(made().trained)
    head, norms = list(made(trainable="head").trained), list(made(trainable="norms").trained)
    layer = list(made(trainable="*layers.1.*").trained)
    wanted = {*head, *norms, *layer}
    assert names("head", "*layers.1.*", "norms") == [n for n in everything if n in wanted]
    assert set(norms) - set(layer)
    assert names("norms", "head", "*layers.1.*") == names("head", "*layers.1.*", "norms")


def test_norms_are_the_weights_of_every_normalisation_layer() -> None:
    norms = names("norms")
    assert len(norms) == 2 * 4 + 1  # two of a layer, those of queries and keys, and the last
    assert all("norm" in name for name in norms)


def test_low_rank_layers_in_a_list_come_with_the_head() -> None:
    lora = list(made(trainable="lora").trained)
    both = names("lora", "norms")
    assert set(lora) < set(both)
    assert "head.weight" in both


def test_a_list_of_one_is_that_one() -> None:
    assert Options(trainable=["head"]) == Options(trainable="head")  # type: ignore[arg-type]
    assert names("head") == ["head.weight"]


@needs_minilm
def test_a_real_encoder_has_norms_and_biases() -> None:
    found = names("head", "norms", "biases", **ENCODER)
    biases = names("biases", **ENCODER)
    assert all(name.endswith(".bias") for name in biases)
    assert {"head.weight", "backbone.embeddings.LayerNorm.weight", *biases} <= set(found)
    assert not any("pooler" in name for name in found)
    assert made(trainable=["head", "norms", "biases"], **ENCODER).dim < 50_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"trainable": ["head", "nroms"]},
            r"trainable 'nroms' is none of all, head, lora, norms and biases "
            r"\(did you mean 'norms'\?\) and matches no",
        ),
        ({"trainable": ["head", "*layers.9.*"]}, r"'\*layers\.9\.\*' .* matches no parameter"),
        ({"trainable": ["head", "biases"]}, r"this model has no biases; leave 'biases' out"),
        (PROMPTED | {"trainable": ["norms", "head"]}, r"head: words has no head of its own; use"),
        ({"trainable": ["all", "head"]}, r"all has every weight, got head beside it; leave all or"),
        ({"trainable": []}, r"trainable must be a list of names, got \[\]"),
        ({"trainable": ["head", "head"]}, r"trainable must be different names"),
        ({"trainable": ["head", ""]}, r"has an empty name in its list"),
        ({"trainable": 3}, r"trainable must be a word, a pattern of parameter names, or a list, g"),
    ],
)
def test_a_part_that_cannot_be_trained_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Options(**options).check()
    assert "\n" not in str(caught.value)


def study_of(folder: Path, parts: Any, space: dict[str, Any]) -> Study:
    small = {"train_size": 16, "validation_size": 8, "batch": 4}
    study = {
        "name": "parts",
        "question": "Which part?",
        "problem": {"name": "language-model", "trainable": parts} | small,
        "budget": 8,
        "space": space,
        "fixed": {"estimator": "avg", "q": 1, "step": "constant", "eta": 0.01},
    }
    (folder / "parts.yaml").write_text(yaml.safe_dump(study))
    return load_study(folder / "parts.yaml")


def test_a_study_file_has_a_list_and_its_mistakes_are_told_with_their_line(tmp_path: Path) -> None:
    study = study_of(tmp_path, ["head", "norms"], {})
    assert study.problem["trainable"] == ["head", "norms"]
    assert study.config["problem"]["trainable"] == ["head", "norms"]
    with pytest.raises(zotune.ZotuneError, match=r":\d+: problem\.trainable 'hed' is none of all"):
        study_of(tmp_path, ["norms", "hed"], {})


def test_a_searched_value_may_be_a_list(tmp_path: Path) -> None:
    space = {"problem.trainable": ["head", ["head", "norms"], ["norms", "*layers.1.*"]]}
    study = study_of(tmp_path, "all", space)
    assert [point["problem.trainable"] for point in study.trials] == space["problem.trainable"]
    dims = {zotune.language.Options(trainable=part).dim for part in space["problem.trainable"]}
    assert len(dims) == 3
    with pytest.raises(zotune.ZotuneError, match=r"problem\.trainable 'hed' is none of all"):
        study_of(tmp_path, "all", {"problem.trainable": [["head", "hed"]]})


def test_a_list_among_the_points_reaches_the_trial_as_a_list() -> None:
    point = nested({"problem.trainable": ["head", "norms"], "q": 1})
    assert point["problem"]["trainable"] == '["head", "norms"]'  # Tune takes no lists in points
    config = parse_config({"budget": 4, "problem": {"name": "language-model"} | point["problem"]})
    assert config.problem["trainable"] == ["head", "norms"]


@pytest.mark.slow
def test_trials_train_the_parts_of_their_lists(shared_ray: None, tmp_path: Path) -> None:
    space = {"problem.trainable": ["head", ["head", "norms"]]}
    results = study_of(tmp_path, "all", space).run(storage_path=tmp_path / "results")
    assert not results.errors
    runs = [zotune.load_run(result) for result in results]
    parts = [run.config.problem["trainable"] for run in runs]
    assert sorted(parts, key=len) == [["head", "norms"], "head"]
    trained = {str(run.config.problem["trainable"]): len(run.weights()) for run in runs}
    assert trained == {"head": 1, "['head', 'norms']": 10}
