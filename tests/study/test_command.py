"""``zotune run``: bad input is refused before anything starts, and every end says what it is."""

from __future__ import annotations

import threading
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

import zotune
from tests.instrument import plain_study
from zotune.cli import main, run_command
from zotune.cli.run_command import _conclude, _drawn, _say_next
from zotune.cli.run_request import RunRequest
from zotune.cli.summary import Summary
from zotune.study.launch import Launch

STUDY = plain_study(
    name="mine",
    problem={"name": "quadratic", "dim": 4},
    budget=16,
    space={"q": [1, 2, 4]},
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tracking-uri", "foo://x"], "tracking URI 'foo://x' is of no kind that MLflow knows"),
        (["--address", "host.invalid:1"], "no Ray cluster answers at host.invalid:1"),
        (["--set", "resources.cpu=99999"], "a trial wants 99999 CPU, and the largest machine has"),
        (["--set", "resources.gpu=99"], "a trial wants 99 GPU, and the largest machine has"),
    ],
)
def test_what_cannot_be_is_refused_before_a_launch_is_made(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    (tmp_path / "mine.yaml").write_text(STUDY.to_yaml())
    options = ["--tracking-uri", "none", "--storage", str(tmp_path / "out"), *words]
    done = CliRunner().invoke(main, ["run", str(tmp_path / "mine.yaml"), *options])
    assert done.exit_code == 2, done.output
    (line,) = done.output.splitlines()
    assert line.startswith(f"zotune: {said}")
    assert not (tmp_path / "out").exists()


class Results(list[Any]):
    """Tune's results, as far as a summary looks at them."""

    @property
    def errors(self) -> list[Any]:
        return [one.error for one in self if one.error is not None]


def result(error: Exception | None = None, **row: Any) -> SimpleNamespace:
    return SimpleNamespace(
        error=error, metrics=row, config={}, path="1_00000_avg_q1", checkpoint=None
    )


def concluded(
    tmp_path: Path, *results: Any, interrupted: bool = False, study: zotune.Study = STUDY
) -> list[str]:
    out = StringIO()
    launch = Launch(study, tmp_path, "now", notes={"tracking_uri": f"sqlite:///{tmp_path}/m.db"})
    outcome: Any = SimpleNamespace(
        launch=launch, results=Results(results), interrupted=interrupted, seconds=16.0
    )
    summary, request = Summary.of(outcome), RunRequest("mine", report=False)
    console = Console(file=out, width=200)
    _conclude(summary, console)
    _say_next(summary, _drawn(summary, request), request, console)
    return out.getvalue().splitlines()


@pytest.fixture(autouse=True)
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zotune.callbacks.session.page_of_launch", lambda folder: "/#/page")


def test_after_ctrl_c_it_is_told_how_many_trials_of_how_many_finished(tmp_path: Path) -> None:
    begun = result(done=False)
    ended = result(done=True, status="exhausted", loss=0.5, start_loss=1.0, spent=16)
    lines = concluded(tmp_path, ended, begun, interrupted=True)
    assert "1 of 3 trials finished in 16 s" in lines
    assert "0 of 3 trials finished in 16 s" in concluded(tmp_path, begun, interrupted=True)
    assert not any(line.startswith("next:") for line in lines)
    assert "1 trial in 16 s" in concluded(tmp_path, ended)


def test_where_no_trial_ended_below_its_start_smaller_steps_are_what_is_next(
    tmp_path: Path,
) -> None:
    above = result(done=True, status="exhausted", loss=2.0, start_loss=1.0, spent=16)
    below = result(done=True, status="exhausted", loss=0.5, start_loss=1.0, spent=16)
    study = plain_study(
        name="mine",
        problem={"name": "quadratic", "dim": 4},
        budget=16,
        space={"q": [1], "eta": [10, 100]},
    )
    (told,) = following(concluded(tmp_path, above, above, study=study))
    assert told == (
        "next: zotune run mine --set 'space.eta=[0.1,1]'  "
        "# every trial ended above its start: smaller steps"
    )
    assert "smaller" not in following(concluded(tmp_path, above, below, study=study))[0]
    assert "smaller" not in following(concluded(tmp_path, above))[0]  # no step to make smaller


def following(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("next:")]


def test_where_every_trial_failed_there_is_no_report_and_no_next_step(tmp_path: Path) -> None:
    lines = concluded(tmp_path, *[result(ValueError("no")) for _ in range(3)])
    assert lines[-1] == "report: none, because no trial finished"
    assert not any(line.startswith("next:") for line in lines)


def test_places_below_this_folder_are_told_as_they_can_be_typed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path.parent)
    lines = concluded(tmp_path, result(done=True))
    (folder,) = (line for line in lines if line.startswith("records: "))
    assert folder.startswith(f"records: {tmp_path.name}/")
    assert any(line.endswith(f"(in MLflow, {tmp_path.name}/m.db)") for line in lines)
    monkeypatch.chdir("/")
    assert any(str(tmp_path).lstrip("/") in line for line in concluded(tmp_path))


def test_imports_that_a_signal_has_left_locked_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    monkeypatch.setattr(run_command, "LONGEST_IMPORT", 0.1)
    monkeypatch.setattr(run_command, "_import_for_report", never.wait)

    def interrupted(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command, "run_launch", interrupted)
    launch = Launch(STUDY, tmp_path, "now", notes={"tracking_uri": "none"})
    with pytest.raises(KeyboardInterrupt):
        run_command._run(launch, RunRequest("mine"), Console(file=StringIO()))
    never.set()
