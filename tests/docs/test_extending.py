"""``docs/extending.md``: its recipes run, and it leaves out nothing that an entry may declare."""

from __future__ import annotations

import doctest
import re
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conformance.resuming import check_vectors, check_weights
from tests.snippets import ROOT
from zotune import blocksizes, directions, estimators, steps, updates
from zotune.addresses import replicate_keys
from zotune.blocks import Block, DenseBlock

PAGE = ROOT / "docs" / "extending.md"
RECIPES: dict[str, dict[str, Any]] = {
    "moments": {"estimator": "halved", "step": "theory", "eta": None, "L": 1e3},
    "remember": {"estimator": "fading"},
    "directions": {"directions": "halves"},
    "linear": {"update": "averaged"},
    "a step": {"step": "harmonic"},
    "a search": {"step": "halving", "eta": None},
    "a size": {"q": {"rule": "agreeing", "most": 4}},
}
"""Settings that choose each entry of the page."""
SEAMS = (blocksizes, directions, estimators, steps, updates)


@pytest.fixture
def entries() -> None:
    """Those of the page, which are registered as its examples are run."""
    examples = doctest.DocTestParser().get_doctest(
        PAGE.read_text(encoding="utf-8"), {}, PAGE.name, str(PAGE), 0
    )
    assert doctest.DocTestRunner().run(examples, clear_globs=False).failed == 0


@pytest.mark.usefixtures("entries")
def test_recipes_run_and_resume_bit_for_bit_on_vectors_and_on_weights(tmp_path: Path) -> None:
    for name, told in RECIPES.items():
        folder = tmp_path / name
        folder.mkdir()
        check_vectors(folder, **told)
        check_weights(folder, **told)


@pytest.mark.usefixtures("entries")
def test_the_moments_and_directions_of_the_page_are_what_they_say() -> None:
    dim, q, draws = 8, 3, 4000
    g = torch.ones(dim, dtype=torch.float64)
    halved = estimators.ESTIMATORS["halved"]
    assert halved.moments is not None
    for kind in ("gaussian", "halves", "orthogonal"):
        entry = directions.DIRECTIONS[kind]
        sampler = entry.sampler(dim, replicate_keys("tried", 0, range(draws)), torch.device("cpu"))
        u, part = g.new_empty(draws, q, dim), g.new_empty(draws, 1, 2)
        sampler.fill(u, 5, range(q), range(dim))
        sampler.fill(part, 5, range(1, 2), range(3, 5))
        assert torch.equal(part, u[:, 1:2, 3:5])
        torch.testing.assert_close((u.mT @ u).mean(0) / q, g.diag(), atol=0.06, rtol=0)
        block = DenseBlock(u, orthogonal=entry.orthogonal)
        estimate = block.combine(halved(u @ g, block))
        said = halved.moments(entry, q, dim)
        assert float((estimate @ g).mean()) / dim == pytest.approx(said.alignment, rel=0.05)
        assert float(estimate.square().sum(1).mean()) / dim == pytest.approx(said.energy, rel=0.06)


def test_whatever_an_entry_may_declare_is_on_the_page() -> None:
    named = set(
        re.findall(r"[\w-]+", " ".join(re.findall(r"`([^`\n]+)`", PAGE.read_text("utf-8"))))
    )
    declared = {name for seam in SEAMS for name in signature(seam.register).parameters}
    of_block = {name for name in vars(Block) | Block.__annotations__ if not name.startswith("_")}
    of_line = {field.name for field in fields(steps.Line)}
    of_moments = {f.name for f in fields(estimators.Moments)} | {"mse", "step", "progress"}
    of_last = {field.name for field in fields(blocksizes.Last)}
    wanted = declared | of_block | of_line | of_moments | of_last | estimators.CLAIMS.keys()
    explained_by_use = {"name", "formula", "summary", "move_"}
    assert wanted - named - explained_by_use == set()
