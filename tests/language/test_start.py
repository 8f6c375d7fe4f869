"""How good a model is before it is trained is shown before a study starts, if it costs little."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.language.conftest import SMALL, made
from tests.language.test_objective import PROMPTED
from tests.language.test_studies import study_of
from zotune.cli.run_command import start_line
from zotune.language import start
from zotune.language.options import Options


@pytest.mark.parametrize("options", [{}, {"trainable": "head"}, PROMPTED, {"batch": 7}])
def test_the_line_has_loss_and_accuracy_of_the_start(options: dict[str, Any]) -> None:
    seen = made(**options).validate()
    line = Options(**(SMALL | options)).start_line()
    assert line == (
        f"at the start: loss {seen['loss']:.4g}, accuracy {seen['accuracy']:.3g} on 32 held-out "
        "examples; the largest class has 0.5 of them"
    )


def test_of_many_examples_as_many_are_looked_at_as_cost_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = Options(train_size=8, validation_size=200)
    prepared = options.prepared()
    tokens = sum(map(len, prepared.validation.ids)) / 200
    monkeypatch.setattr(start, "AFFORDABLE", 2 * prepared.dense * tokens * 50.5)
    assert " on 50 of 200 held-out examples" in options.start_line()
    monkeypatch.setattr(start, "AFFORDABLE", 2 * prepared.dense * tokens * 20)
    assert options.start_line() == ""


def test_all_weights_but_embeddings_count() -> None:
    objective = made()
    embedding = 384 * 32
    assert objective.prepared.dense == objective.dim - embedding


def test_a_study_shows_it_where_all_trials_start_alike() -> None:
    alike = study_of(space={"problem.trainable": ["all", ["head", "norms"], "lora"], "q": [1, 2]})
    assert re.match(r"at the start: loss 0\.\d+, accuracy", start_line(alike))
    assert start_line(study_of(space={"problem.pooling": ["last", "mean"]})) == ""
