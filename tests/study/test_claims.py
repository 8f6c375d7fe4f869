"""Claims in study files: checked before Ray starts, each mistake with its line."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from zotune.cli import main
from zotune.cli.run_command import _introduce, _launch
from zotune.cli.run_request import RunRequest
from zotune.study import Study, load_study, studyfile
from zotune.study.shape import Shape
from zotune.study.studyfile import StudyError, parse_document, shipped_studies

GOOD = """\
name: mine
problem: {name: quadratic, dim: 30}
budget: 300
replicates: 15
space:
  estimator: [avg, align]
  q: [1, 10, 30]
  eta: [0.5, 1, 2]
tuning: {over: eta, replicates: 5, theory: 1}
claims:
  - name: avg-wants-one
    says: Averaging wants one query a step.
    best: {q: 1}
    where: {estimator: avg}
  - name: align-wants-all
    says: Projection wants the full block.
    compare: {lower: {q: largest}, higher: {q: smallest}}
    where: {estimator: align}
count: directions
fixed: {update: sgd, step: theory}
"""


def mistakes(tmp_path: Path, old: str, new: str) -> list[str]:
    assert old in GOOD
    path = tmp_path / "mine.yaml"
    path.write_text(textwrap.dedent(GOOD.replace(old, new)))
    with pytest.raises(StudyError) as caught:
        load_study(path)
    return [line.replace(f"{tmp_path}/", "") for line in caught.value.problems]


def good(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    return path


def test_claims_are_kept_with_the_study(tmp_path: Path) -> None:
    study = load_study(good(tmp_path))
    assert [claim.kind for claim in study.claims] == ["best", "compare"]
    assert Study(**parse_document(study.to_yaml()).data) == study


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("best: {q: 1}", "best: {q: 2}", "11: claim avg-wants-one: q 2 is not in the space"),
        (
            "where: {estimator: align}",
            "where: {estimator: alin}",
            "15: claim align-wants-all: estimator 'alin' is not in the space (did you mean "
            "'align'?); it has avg, align",
        ),
        (
            "where: {estimator: align}",
            "where: {estimatr: align}",
            "15: claim align-wants-all: 'estimatr' is not searched (did you mean 'estimator'?)",
        ),
        ("{q: 1}\n", "{eta: 1}\n", "11: claim avg-wants-one: 'eta' is not searched"),
        (
            "    where: {estimator: avg}\n",
            "",
            "11: claim avg-wants-one: best fits 2 configurations; say which estimator",
        ),
        (
            "    best: {q: 1}\n",
            "",
            "11: claim avg-wants-one: a claim has exactly one of compare, best, not_falling, "
            "not_rising, over; got none",
        ),
        (
            "best: {q: 1}",
            "best: {q: 1}\n    besst: {q: 1}",
            "14: claim avg-wants-one: 'besst' is not a key of a claim (did you mean 'best'?)",
        ),
        (
            "lower: {q",
            "lowest: {q",
            "17: claim align-wants-all: 'lowest' is not a key of compare (did you mean 'lower'?)",
        ),
        ("best: {q: 1}", "over: q", "11: claim avg-wants-one: a claim over a setting needs within"),
        (
            "name: align-wants-all",
            "name: avg-wants-one",
            "15: two claims are named avg-wants-one; rename one",
        ),
        ("    says: Av", "    said: Av", "11: claim avg-wants-one: says is missing; a claim needs"),
        (
            "over: eta",
            "over: et",
            "9: tuning is over a searched setting, and 'et' is not in space (did you mean 'eta'?)",
        ),
        ("replicates: 5", "replicates: 15", "9: 15 replicates tune and none of 15 is left"),
        ("replicates: 15", "replicates: 15\nscheduler: asha", "11: claims compare runs at the end"),
        ("over: eta,", "ove: eta,", "9: 'ove' is not a key of tuning (did you mean 'over'?)"),
        (
            "tuning: {over: eta, replicates: 5, theory: 1}\n",
            "",
            "10: claim avg-wants-one: best fits 3 configurations; say which eta",
        ),
        (
            "theory: 1",
            "theory: 3",
            "9: theory 3 is not among the values of eta, 0.5, 1, 2; add it, or leave theory out",
        ),
        ("theory: 1", "theory: {avg: 1}", "9: theory says nothing of estimator align"),
        (
            "over: eta, replicates: 5, theory: 1",
            "over: estimator, replicates: 5, theory: 1",
            "9: tuning chooses among numbers, and estimator has 'avg'",
        ),
        (
            "replicates: 15",
            "replicates: 11",
            "11: claim avg-wants-one: 6 judging replicates cannot decide it: corrected for 2 "
            "claims, the smallest possible p is 0.062, above 0.05; say replicates: 12, of which 5 "
            "tune, or state fewer claims",
        ),
        ("claims:\n", "claims: 3\nseeed:\n", "10: claims must be a valid list, got 3"),
    ],
)
def test_a_claim_that_nothing_can_decide_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    found = mistakes(tmp_path, old, new)
    assert any(f"mine.yaml:{message}" in line for line in found), found


ACROSS = (
    GOOD.replace("replicates: 15", "replicates: 1")
    .replace("space:\n", "space:\n  problem.seed: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n")
    .replace("best: {q: 1}", "best: {q: 1}\n    across: problem.seed")
    .replace("where: {estimator: align}", "where: {estimator: align}\n    across: problem.seed")
)


def test_a_claim_across_instances_needs_no_replicates(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(ACROSS)
    assert [claim.across for claim in load_study(path).claims] == ["problem.seed"] * 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "across: problem.seed\n",
            "across: problem.sed\n",
            "12: claim avg-wants-one: across must be an option of the problem that space lists "
            "with several values, got 'problem.sed' (did you mean 'problem.seed'?)",
        ),
        ("across: problem.seed\n", "across: q\n", "12: claim avg-wants-one: across must be an opt"),
        (
            "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]",
            "[0, 1, 2, 3, 4]",
            "12: claim avg-wants-one: 5 instances tune and none of 5 is left to judge",
        ),
        (
            "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]",
            "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
            "12: claim avg-wants-one: 6 judging instances cannot decide it: corrected for 2 "
            "claims, the smallest possible p is 0.062, above 0.05; give problem.seed 12 values, of "
            "which 5 tune, or state fewer claims",
        ),
        (
            "best: {q: 1}\n",
            "best: {q: 1}\n    measure: medium\n",
            "15: claim avg-wants-one: measure 'medium' is not known (did you mean 'median'?)",
        ),
    ],
)
def test_instances_that_cannot_judge_are_refused_with_their_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in ACROSS
    path = tmp_path / "mine.yaml"
    path.write_text(ACROSS.replace(old, new, 1))
    with pytest.raises(StudyError) as caught:
        load_study(path)
    found = [line.replace(f"{tmp_path}/", "") for line in caught.value.problems]
    assert any(f"mine.yaml:{message}" in line for line in found), found


def test_claims_that_a_changed_study_does_not_decide_are_left_out(tmp_path: Path) -> None:
    path = good(tmp_path)
    names = [c.name for c in load_study(path, settings=["space.estimator=[avg]"]).claims]
    assert names == ["avg-wants-one"]
    assert [c.name for c in load_study(path, settings=["budget=20"]).claims] == [
        "avg-wants-one",
        "align-wants-all",
    ]
    assert load_study(path, settings=["scheduler=asha"]).claims == []
    with pytest.raises(StudyError, match="claims"):
        load_study(path, settings=["claims=[{name: a, says: b, best: {q: 77}}]"])


@pytest.mark.parametrize(
    ("settings", "validated"),
    [
        ([], 1),
        (["budget=200", "difference=central", "space.q=[1,10]"], 1),
        (["space.estimator=[avg]"], 2),  # a claim is lost: is it the file's mistake?
    ],
)
def test_a_study_is_read_and_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str], validated: int
) -> None:
    path = good(tmp_path)
    counts: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapper)

    counted(studyfile, "parse_document")
    counted(Shape, "__init__")
    with _launch(RunRequest(str(path), settings=settings, storage=tmp_path / "results")) as launch:
        _introduce(launch, Console(file=StringIO()))
        assert launch.study.size > 0
    assert counts == {"parse_document": 1, "__init__": validated}


@pytest.mark.parametrize("name", sorted(shipped_studies()))
def test_a_study_s_claims_are_few_enough_for_its_replicates(name: str) -> None:
    """Ten replicates give no p below 2/1024, which Holm multiplies by the number of claims.

    Across instances of the problem, these are what is counted.
    """
    study = parse_document(shipped_studies()[name]).data
    claims = study.get("claims", [])
    across = {claim.get("across") for claim in claims} - {None}
    units = [len(study["space"][key]) for key in across] or [study.get("replicates", 1)]
    judging = min(units) - study.get("tuning", {}).get("replicates", 0)
    assert len(claims) * 2 / 2**judging <= 0.05


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_a_run_ends_with_its_verdicts_for_people_and_for_machines(tmp_path: Path) -> None:
    path = good(tmp_path)
    words = ["run", str(path), "--storage", str(tmp_path / "out"), "--tracking-uri", "none"]
    small = ["--set", "space.q=[1,30]", "--set", "space.eta=[1,2]", "--set", "problem.condition=3"]
    told = CliRunner().invoke(main, [*words, *small, "--json"])
    assert told.exit_code == 0, told.output
    verdicts = json.loads(told.stdout)["verdicts"]
    assert [(v["name"], v["step"], v["pairs"]) for v in verdicts] == [
        ("avg-wants-one", "theory", 10),
        ("avg-wants-one", "tuned", 10),
        ("align-wants-all", "theory", 10),
        ("align-wants-all", "tuned", 10),
    ]
    assert verdicts[2]["verdict"] == "holds", verdicts[2]
    shown = CliRunner().invoke(main, [*words, *small, "--set", "space.estimator=[avg]"])
    assert "not judged: align-wants-all; this space does not decide it" in shown.output
    assert "Averaging wants" in shown.output


@pytest.mark.slow
@pytest.mark.usefixtures("shared_ray")
def test_claims_are_not_judged_where_a_trial_has_failed(tmp_path: Path) -> None:
    """With q = 1 gone, the smallest q would be another one, and its verdict about it."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\nproblem: {name: quadratic, dim: 12}\nbudget: 24\nreplicates: 6\n"
        "space: {mu: [1.0e-6, 1.0e-300], q: [1, 12]}\n"
        "claims: [{name: a, says: Blocks help., not_rising: q, where: {mu: 1.0e-6}}]\n"
    )
    words = ["run", str(path), "--storage", str(tmp_path / "out"), "--tracking-uri", "none"]
    told = CliRunner().invoke(main, [*words, "--json"])
    assert told.exit_code == 1, told.output
    found = json.loads(told.stdout)
    assert found["verdicts"] == []
    why = "The study's claims are not judged: 2 of 4 trials have not spent their budget."
    assert found["not_judged"] == why
