"""What users write goes where studies go: their problems and estimators, by file or by registry."""

from __future__ import annotations

import json
import sys
from abc import ABC
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from ray import tune

import zotune
from tests.solo import reported
from zotune.cli import main
from zotune.errors import ConfigError
from zotune.estimators import ESTIMATORS
from zotune.objectives import PROBLEMS
from zotune.reporting.report import build
from zotune.results.store import Store
from zotune.runs.plugin_entries import adopt_plugins, plugin_entries
from zotune.study import Study
from zotune.tune.plugins import import_plugin

BESIDE = "def shifted(x):\n    return x - 1\n"
"""A module that the file of the user's imports."""
OWN = """
import torch
import zotune
from shifting import shifted
from zotune import estimators, objectives


@objectives.register("misfit", formula="‖Fx − t‖² / n")
def misfit(rows: int = 50, seed: int = 0) -> zotune.Objective:
    "How far twenty weights are from explaining the targets."
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, 20, dtype=torch.float64, generator=generator)
    return zotune.objective(lambda x: (features @ shifted(x)).square().mean(), dim=20, optimum=0.0)


@estimators.register("sign", formula="U sign(v) / q")
def sign(v, block):
    "The mean of the directions, each turned downhill."
    return v.sign() / block.q
"""
STUDY: dict[str, Any] = {
    "name": "own",
    "problem": {"name": "misfit", "rows": 30},
    "budget": 60,
    "space": {"estimator": ["sign", "align"], "q": [2, 20]},
    "fixed": {"step": "constant", "eta": 0.05},
}


@pytest.fixture
def own_file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "my_problem.py"
    (tmp_path / "shifting.py").write_text(BESIDE, encoding="utf-8")
    path.write_text(OWN + "\nprint('my file is imported')\n", encoding="utf-8")
    yield path
    sys.modules.pop("my_problem", None)
    sys.modules.pop("shifting", None)
    if str(tmp_path) in sys.path:
        sys.path.remove(str(tmp_path))


@pytest.mark.usefixtures("shared_ray")
def test_a_study_names_what_a_file_of_mine_registers(own_file: Path, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(json.dumps(STUDY))
    told = ["run", str(tmp_path / "own.yaml"), "--import", str(own_file), "--json"]
    told += ["--tracking-uri", "none", "--storage", str(tmp_path / "results")]
    done = CliRunner().invoke(main, told)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert not found["failed"]
    assert {(b["estimator"], b["q"]) for b in found["best"]} == {
        (e, q) for e in ("sign", "align") for q in (2, 20)
    }
    alone = reported(STUDY["problem"], estimator="sign", q=2, budget=60, step="constant", eta=0.05)
    (entry,) = [b for b in found["best"] if (b["estimator"], b["q"]) == ("sign", 2)]
    assert entry["loss"] == alone.rows[-1]["loss"]


@pytest.mark.usefixtures("shared_ray")
@pytest.mark.parametrize(
    ("raises", "advised"),
    [("ArithmeticError('no convergence')", True), ("NameError('oops')", False)],
)
def test_where_a_function_of_mine_raises_it_is_said_how_such_points_are_rejected(
    raises: str, advised: bool, own_file: Path, tmp_path: Path
) -> None:
    broken = f"def shifted(x):\n    if x[0] != 0:\n        raise {raises}\n    return x - 1\n"
    (tmp_path / "shifting.py").write_text(broken, encoding="utf-8")
    (tmp_path / "own.yaml").write_text(json.dumps(STUDY | {"space": {"q": [2]}}))
    told = ["run", str(tmp_path / "own.yaml"), "--import", str(own_file)]
    told += ["--tracking-uri", "none", "--storage", str(tmp_path / "results")]
    done = CliRunner().invoke(main, told)
    assert done.exit_code == 1, done.output
    advice = (
        "if the function fails at some points, zotune.objective(…, failures=(ArithmeticError,)) in "
        f"{own_file} rejects them and the trial goes on"
    )
    assert ("rejects them" in done.output, advice in done.output) == (advised, advised)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_an_estimated_smoothness_is_told_in_tables_reports_and_verdicts(
    own_file: Path, tmp_path: Path, store: str
) -> None:
    claims = [{"name": "blocks", "says": "Blocks help.", "not_rising": "q"}]
    plain = {"estimator": "align", "update": "sgd", "step": "theory"}
    space = {"space": {"q": [2, 20]}, "fixed": plain, "replicates": 6, "claims": claims}
    (tmp_path / "own.yaml").write_text(json.dumps(STUDY | space))
    told = ["run", str(tmp_path / "own.yaml"), "--import", str(own_file), "--json"]
    told += ["--tracking-uri", store, "--storage", str(tmp_path / "results")]
    done = CliRunner().invoke(main, told)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    run = reported(STUDY["problem"], q=2, budget=60, replicates=6, **plain)
    assert run.smoothness is not None
    assert found["best"][0]["smoothness"] == pytest.approx(float(run.smoothness.mean()))
    assert all(entry["smoothness_estimated"] for entry in found["best"])
    report = build(Store.open(store).read("own"))
    assert found["verdicts"][0]["verdict"] == report.verdicts[0].verdict == "undecided"
    why = "cannot be judged: L was estimated, so that the step is not the theory's"
    assert found["verdicts"][0]["why"].startswith(why)
    assert report.verdicts[0].why.startswith(why)
    assert report.table["estimated_L"].tolist()[0] == pytest.approx(float(run.smoothness.mean()))
    tables = [table for section in report.sections for table in section.tables]
    (best,) = [table for table in tables if table.title == "Best by estimator and q"]
    assert all(row[-1] for row in best.rows)  # a mark, or "best" with one
    assert any("L estimated (" in line for line in best.footnotes)


@pytest.mark.usefixtures("shared_ray")
def test_a_trainable_takes_estimators_along_that_were_registered_before_it(tmp_path: Path) -> None:
    @zotune.estimators.register("halved", formula="U v / 2q")
    def halved(v: torch.Tensor, block: Any) -> torch.Tensor:
        """Half of the average."""
        return v / (2 * block.q)

    halved.__module__ = "__main__"  # as in a script, whose functions travel by value
    bowl = zotune.objective(lambda x: (x - 1).square().sum(), dim=5, L=2.0)
    settings = {"estimator": "halved", "q": 2, "budget": 40, "step": "constant", "eta": 0.1}
    results = tune.Tuner(
        zotune.trainable(bowl, name="own-bowl"),
        param_space=settings,
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert not results.errors
    alone = reported(bowl, **settings)
    assert (results[0].metrics or {})["loss"] == alone.rows[-1]["loss"]


@pytest.mark.usefixtures("shared_ray")
@pytest.mark.parametrize("in_a_class", [False, True])
def test_our_trainable_takes_problems_and_estimators_of_a_script_to_its_workers(
    tmp_path: Path, in_a_class: bool
) -> None:
    @zotune.estimators.register("third", formula="U v / 3q")
    def third(v: torch.Tensor, block: Any) -> torch.Tensor:
        """A third of the average."""
        return v / (3 * block.q)

    @zotune.objectives.register("moved", formula="‖x − 1‖²")
    def moved(dim: int = 5) -> zotune.Objective:
        """A bowl away from the start."""
        return zotune.objective(lambda x: (x - 1).square().sum(), dim, L=2.0)

    third.__module__ = moved.__module__ = "__main__"  # as in a script
    mine: Any = type("Mine", (zotune.ZOTrainable, ABC), {}) if in_a_class else zotune.ZOTrainable
    settings = {"estimator": "third", "q": 2, "budget": 40, "step": "constant", "eta": 0.1}
    results = tune.Tuner(
        tune.with_resources(mine, {"cpu": 0.5}),
        param_space=settings | {"problem": {"name": "moved", "dim": 4}},
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert not results.errors
    alone = reported({"name": "moved", "dim": 4}, **settings)
    assert (results[0].metrics or {})["loss"] == alone.rows[-1]["loss"]


def test_a_problem_without_a_dimension_among_its_options_is_asked_for_it(own_file: Path) -> None:
    import_plugin(str(own_file))
    study = Study(**STUDY | {"space": {"estimator": ["align"], "q": [2, 20, 21]}})
    assert [skipped.point["q"] for skipped in study.skipped] == [21]
    assert "d = 20" in study.skipped[0].reason


def test_a_file_is_imported_once_however_often_it_is_named(own_file: Path) -> None:
    import_plugin(str(own_file))
    import_plugin(str(own_file))
    assert {"problem", "estimator"} == plugin_entries().keys()


def test_entries_of_another_process_do_not_replace_those_of_this_one(own_file: Path) -> None:
    import_plugin(str(own_file))
    before = ESTIMATORS["sign"]
    adopt_plugins({"estimator": {"sign": "another", "avg": "another"}})
    assert ESTIMATORS["sign"] is before
    assert ESTIMATORS["avg"].formula == "U v / q"


def test_zotunes_own_entries_stay_at_home() -> None:
    assert plugin_entries() == {}


def test_a_listed_file_shows_its_entries(own_file: Path) -> None:
    done = CliRunner().invoke(main, ["list", "--json", "--import", str(own_file)])
    assert done.exit_code == 0, done.output
    assert "misfit" in [problem["name"] for problem in json.loads(done.stdout)["problems"]]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (None, "nothing.py", r"--import .*nothing\.py: there is no such file"),
        ("\n1 / 0\n", "broken.py", r"--import .*broken\.py failed in line 2: ZeroDivisionError"),
        ("", "json.py", "a module 'json' is imported already; rename the file"),
        (None, "no_such_module", "no module of this name; a file ends in .py"),
        ("import no_such_thing\n", "wanting.py", "ModuleNotFoundError: No module named 'no_such"),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_line(
    tmp_path: Path, text: str | None, place: str, message: str
) -> None:
    if text is not None:
        (tmp_path / place).write_text(text)
    with pytest.raises(ConfigError, match=message) as told:
        import_plugin(str(tmp_path / place) if place.endswith(".py") else place)
    assert "\n" not in str(told.value)
    assert Path(place).stem == "json" or Path(place).stem not in sys.modules


def test_a_name_that_is_not_imported_says_how_it_would_be(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(json.dumps(STUDY | {"problem": "xyz"}))
    done = CliRunner().invoke(main, ["run", str(tmp_path / "own.yaml")])
    assert done.exit_code == 2
    assert "problem 'xyz' is not known" in done.stderr
    assert "one of yours is imported by --import FILE" in done.stderr


def test_options_need_defaults_and_a_problem_builds_an_objective() -> None:
    with pytest.raises(ConfigError, match="option 'rows' of problem 'rowed' needs a default"):

        @zotune.objectives.register("rowed")
        def rowed(rows: int) -> zotune.Objective:
            return zotune.objective(lambda x: x.sum(), rows)

    assert "rowed" not in PROBLEMS
    zotune.objectives.register("plain")(lambda: len)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="must build an Objective, got builtin_function"):
        zotune.minimize("plain", budget=1)


def test_a_problem_that_cannot_be_built_is_a_complaint_about_its_line() -> None:
    @zotune.objectives.register("failing")
    def failing(port: int = 8080) -> zotune.Objective:
        raise RuntimeError(f"nobody listens on port {port}")

    with pytest.raises(ConfigError, match="problem cannot be built: nobody listens on port 8080"):
        Study(name="x", problem="failing", budget=10)
    del failing


NETWORK = """
import torch
from torch import nn

import zotune
from zotune.addresses import extend
from zotune.weights.objective import WeightsObjective


@zotune.objectives.register("network", formula="mean (net(x) − Σx)²", weights=True)
class Network(WeightsObjective):
    "A network that learns to add."

    name = "network"

    def __init__(self, hidden: int = 4) -> None:
        generator = torch.Generator().manual_seed(0)
        self.module = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.module.eval().requires_grad_(False)
        for parameter in self.module.parameters():
            parameter.normal_(0, 0.3, generator=generator)
        self.trained = dict(self.module.named_parameters())
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.held_out = torch.randn(64, 3, generator=generator)

    def batch(self, keys, step):
        generator = torch.Generator().manual_seed(int(extend(keys, step)[0]) >> 1)
        return torch.randn(16, 3, generator=generator)

    def loss(self, batch):
        return (self.module(batch)[:, 0] - batch.sum(1)).square().mean()

    def validate(self):
        error = self.module(self.held_out)[:, 0] - self.held_out.sum(1)
        return {"loss": float(error.square().mean()), "worst": float(error.abs().max())}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_a_study_runs_over_the_weights_of_a_module_of_mine(tmp_path: Path) -> None:
    """Every metric that its validation reports arrives in the rows."""
    (tmp_path / "my_network.py").write_text(NETWORK, encoding="utf-8")
    try:
        import_plugin(str(tmp_path / "my_network.py"))
        study = Study(
            name="network",
            problem={"name": "network", "hidden": 3},
            budget=60,
            space={"q": [2, 4]},
            fixed={"estimator": "avg", "step": "constant", "eta": 0.02},
        )
        results = study.run(storage_path=tmp_path / "results", tracking_uri="none")
        assert not results.errors
        rows = [result.metrics for result in results]
        assert all(row is not None and row["worst"] > 0 for row in rows)
        run = zotune.load_run(results[0])
        assert run.rows[-1]["loss"] < run.rows[0]["loss"]
        assert run.weights()["0.weight"].shape == (3, 3)
    finally:
        sys.modules.pop("my_network", None)
        sys.path[:] = [place for place in sys.path if place != str(tmp_path)]
