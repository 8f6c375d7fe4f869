"""The process that delivers imports MLflow without what it does not need."""

from __future__ import annotations

import subprocess
import sys

HEAVY = "{'numpy', 'pandas', 'pyarrow', 'torch', 'ray'} & {*sys.modules}"


def told(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_store_is_opened_without_pandas_which_is_found_afterwards() -> None:
    said = told(
        "import sys\n"
        "from zotune.callbacks.slim_mlflow import import_mlflow\n"
        "from zotune.callbacks.stores import open_client\n"
        "import_mlflow()\n"
        "open_client('sqlite://').create_experiment('one')\n"
        f"print({HEAVY})\n"
        "import numpy, pandas\n"
        "print(pandas.Series([1]).sum())\n"
    )
    assert said.splitlines() == ["set()", "1"]


def test_a_version_of_mlflow_that_needs_them_gets_them() -> None:
    said = told(
        "import sys\n"
        "from zotune.callbacks import slim_mlflow\n"
        "slim_mlflow.NOT_NEEDED = ('pandas', 'yaml')\n"  # it cannot do without yaml
        "slim_mlflow.import_mlflow()\n"
        "from mlflow.tracking import MlflowClient\n"
        "print('pandas' in sys.modules, MlflowClient.__name__)\n"
    )
    assert said == "True MlflowClient"
