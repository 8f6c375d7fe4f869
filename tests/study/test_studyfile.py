"""Study files: every mistake at once, each with its line."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import yaml

from zotune.errors import ConfigError, ZotuneError
from zotune.study import Study, load_study
from zotune.study.shape import Shape
from zotune.study.studyfile import StudyError, parse_document, read_value, shipped_studies

GOOD = """\
name: mine
question: Which q?
problem: {name: quadratic, dim: 30}
budget: 300
space:
  estimator: [avg, align]
  q: [1, 10]
fixed: {step: theory}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def mistakes(tmp_path: Path, text: str, *settings: str) -> list[str]:
    with pytest.raises(StudyError) as caught:
        load_study(written(tmp_path, text), settings=settings)
    return [line.replace(f"{tmp_path}/", "") for line in caught.value.problems]


def test_a_good_file_is_the_same_study_as_in_python(tmp_path: Path) -> None:
    read = load_study(written(tmp_path, GOOD))
    made = Study(
        name="mine",
        question="Which q?",
        problem={"name": "quadratic", "dim": 30},
        budget=300,
        space={"estimator": ["avg", "align"], "q": [1, 10]},
        fixed={"step": "theory"},
    )
    assert read == made == Study.from_dict(made.to_dict())
    assert Study(**parse_document(made.to_yaml()).data) == made


def test_a_study_file_names_its_format_and_need_not(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, GOOD))
    assert "format" not in study.to_dict()
    assert study.to_yaml().startswith("format: 3\nname: mine\n")
    for number in (1, 2, 3):
        assert load_study(written(tmp_path, f"format: {number}\n{GOOD}")).size == study.size
    assert mistakes(tmp_path, f"format: two\n{GOOD}") == [
        "mine.yaml:1: format must be a number, got 'two'"
    ]


def test_a_study_file_of_a_later_format_is_refused_in_one_line(tmp_path: Path) -> None:
    assert mistakes(tmp_path, f"format: 4\nsomething: new\n{GOOD}") == [
        "mine.yaml:1: format must be at most 3, got 4; "
        "the file was written for a later zotune, use that one"
    ]


FORMER = {"estimator": "align", "q": 1, "update": "sgd", "step": "theory"}


@pytest.mark.parametrize("number", [1, 2])
def test_a_study_file_of_an_older_format_has_the_defaults_of_then(
    tmp_path: Path, number: int
) -> None:
    short = {"name": "mine", "problem": {"name": "quadratic", "dim": 30}, "budget": 300}
    text = yaml.safe_dump({**short, "format": number, "fixed": {"eta": 2.0, "q": 4}})
    study = load_study(written(tmp_path, text))
    assert (study.count, study.fixed) == ("directions", {**FORMER, "eta": 2.0, "q": 4})
    searched = Study(**short, format=number, space={"estimator": ["avg"], "problem.dim": [3]})
    assert searched.fixed == {key: FORMER[key] for key in ("q", "update", "step")}
    assert Study(**parse_document(searched.to_yaml()).data) == Study(
        **{**searched.to_dict(), "format": 3}
    )
    silent = Study(**short, format=number, space={"problem.seed": [0, 1]})
    assert silent.count == "directions"
    config = silent.configuration(silent.trials[0])
    assert (config.method == "auto") == (number == 2)
    today = Study(**short, fixed={"q": 4})
    config = today.configuration(today.trials[0])
    asked = (config.estimator, config.q, config.update, config.step, config.count)
    assert asked == ("auto", 4, "auto", "auto", "evaluations")


def test_a_step_size_or_a_smoothness_of_a_study_says_which_step_is_meant() -> None:
    short = {"name": "mine", "problem": {"name": "quadratic", "dim": 30}, "budget": 300}
    study = Study(**short, space={"eta": [0.1, 1.0], "L": [None, 2.0]})
    steps = {(p["eta"], p["L"]): study.configuration(p).step for p in study.trials}
    assert steps == {(e, lip): "theory" if lip else "constant" for e, lip in steps}


@pytest.mark.parametrize("name", sorted(shipped_studies()))
def test_studies_that_ship_leave_nothing_of_how_they_descend_to_a_default(name: str) -> None:
    data = parse_document(shipped_studies()[name]).data
    assert {"estimator", "q", "update", "step"} <= {*data["fixed"], *data["space"]}
    assert "count" in data


@pytest.mark.parametrize("name", sorted(shipped_studies()))
def test_a_study_written_with_all_its_settings_is_the_same_study(name: str) -> None:
    study = Study.of(Shape(**parse_document(shipped_studies()[name]).data))
    whole = parse_document(study.to_yaml(complete=True)).data
    assert whole.keys() >= Shape.model_fields.keys() - {"claims", "tuning"}
    assert Study.of(Shape(**whole)) == study


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = """\
        name: my study
        problem: {name: quadratik}
        bugdet: 100
        budget: many
        count: direction
        space:
          estimator: [avg, alin]
          q: {randint: [5, 1]}
          eta: 2
          replicates: [1, 2]
          stepp: [theory]
        fixed: {mu: -1, directions: gausian}
        search: {algorithm: gird, trial: 3}
        stop: {plateau: 0}
        """
    assert mistakes(tmp_path, text) == [
        "mine.yaml:1: name must be letters, digits, '-', '_' and '.', for a folder; got 'my study'",
        "mine.yaml:2: problem 'quadratik' is not known (did you mean 'quadratic'?); "
        "known: language-model, logistic, quadratic, rosenbrock, simulator, stochastic-logistic",
        "mine.yaml:3: 'bugdet' is not a key of a study (did you mean 'budget'?); keys: "
        "format, name, question, problem, budget, total, count, replicates, replicates_as, seed, "
        "space, fixed, search, scheduler, within, resources, stop, report_every, points, claims, "
        "tuning",
        "mine.yaml:4: budget must be a number, got 'many'",
        "mine.yaml:5: count 'direction' is not known (did you mean 'directions'?); "
        "known: directions, evaluations",
        "mine.yaml:7: estimator 'alin' is not known (did you mean 'align'?); "
        "known: align, align-diag, align-memory, auto, avg",
        "mine.yaml:8: randint of q must be [low, high], two whole numbers, got [5, 1]",
        "mine.yaml:9: eta must be a list (a grid) or one of {choice: …}, {uniform: …}, "
        "{loguniform: …}, {randint: …}, {lograndint: …} in space, got 2; "
        "a single value belongs under fixed",
        "mine.yaml:10: replicates holds for the whole study; it belongs at the top of the file",
        "mine.yaml:11: 'stepp' is not a setting (did you mean 'step'?); settings: method, "
        "estimator, q, directions, difference, mu, update, step, eta, bounds, scale, L, workers, "
        "block_bytes, schedule, warmup, clip, momentum, embedding_rows, memory, keep_best, curve, "
        "diagnostics",
        "mine.yaml:12: mu must be greater than 0, got -1",
        "mine.yaml:12: directions 'gausian' is not known (did you mean 'gaussian'?); "
        "known: coordinate, gaussian, orthogonal, rademacher, sphere",
        "mine.yaml:13: search.algorithm 'gird' is not known (did you mean 'grid'?); "
        "known: grid, optuna, race, random",
        "mine.yaml:13: 'trial' is not a key of search (did you mean 'trials'?); "
        "keys: algorithm, trials, auto",
        "mine.yaml:14: stop.plateau must be greater than or equal to 1, got 0",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "name: mine\n",
            "",
            "mine.yaml:1: name is missing; a study needs name, problem and budget",
        ),
        ("dim: 30", "dims: 30", "mine.yaml:3: problem 'quadratic' has no option 'dims'"),
        ("dim: 30", "dim: 0", "mine.yaml:3: problem.dim must be a whole number of at least 1"),
        ("dim: 30", "dtype: float16", "mine.yaml:3: dtype 'float16' is not known"),
        (
            "budget: 300",
            "budget: 300\nq: 3",
            "mine.yaml:5: 'q' is a setting of a trial; it belongs",
        ),
        ("budget: 300", "budget: true", "mine.yaml:4: budget must be a number, got True"),
        ("q: [1, 10]", "q: []", "mine.yaml:7: the list of q must have at least one value, got []"),
        ("q: [1, 10]", "q: [1, 1]", "mine.yaml:7: the list of q has 1 twice; keep one"),
        ("q: [1, 10]", "q: [1, ten]", "mine.yaml:7: q must be a number from 1 on"),
        ("q: [1, 10]", "q: {gauss: [1, 2]}", "mine.yaml:7: 'gauss' is not a distribution"),
        ("q: [1, 10]", "q: {choice: 3}", "mine.yaml:7: choice of q must be a list, got 3"),
        ("{step: theory}", "{q: 3}", "mine.yaml:7: q is both searched and fixed; keep one"),
        ("{step: theory}", "{step: constant}", "mine.yaml:8: step 'constant' needs a step size"),
        ("{step: theory}", "{replicate: 3}", "mine.yaml:8: replicate is numbered by the study"),
        ("{step: theory}", "[theory]", "mine.yaml:8: fixed must be a mapping, got ['theory']"),
        ("q: [1, 10]", "directions: {uniform: [0, 1]}", "mine.yaml:7: directions is a name"),
        ("q: [1, 10]", "problem.size: [1]", "mine.yaml:7: 'problem.size' is not a setting"),
        ("q: [1, 10]", "problem.dim: [0]", "mine.yaml:7: problem.dim must be a whole number of"),
        (
            "budget: 300",
            "budget: 300\nscheduler: asha\nwithin: [qq]",
            "mine.yaml:6: within names searched settings, and 'qq' is not in space (did you mean",
        ),
    ],
)
def test_a_mistake_says_its_line_and_what_was_wanted(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    (line,) = mistakes(tmp_path, GOOD.replace(old, new))
    assert line.startswith(message)


def test_text_that_is_no_study_is_refused_in_one_line(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "name: [a\n") == [
        "mine.yaml:2: this is not YAML: expected ',' or ']', but got '<stream end>'"
    ]
    assert mistakes(tmp_path, "") == [
        "mine.yaml: a study is a mapping with name, problem, budget, …, got nothing"
    ]
    assert mistakes(tmp_path, "- 1\n") == [
        "mine.yaml: a study is a mapping with name, problem, budget, …, got list"
    ]
    assert mistakes(tmp_path, GOOD + "budget: 3\n") == [
        "mine.yaml:9: budget stands twice; keep one"
    ]


def test_names_and_files_that_do_not_exist() -> None:
    with pytest.raises(StudyError, match=r"study 'strong-convex' is not known \(did you mean 'str"):
        load_study("strong-convex")
    with pytest.raises(StudyError, match=r"no study file at missing\.yaml"):
        load_study("missing.yaml")


def test_a_mistake_in_python_is_one_line_without_a_place() -> None:
    with pytest.raises(StudyError, match=r"^budget is missing; a study needs name, problem") as e:
        Study(name="mine", problem="quadratic")
    assert isinstance(e.value, ConfigError)
    assert isinstance(e.value, ZotuneError)


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "+1e-3", "1.0e-3", ".001", "0.001", "1e-03"])
def test_numbers_are_read_as_everybody_means_them(text: str) -> None:
    assert read_value(text) == 0.001


def test_names_that_begin_like_numbers_stay_names() -> None:
    assert read_value("[1e, e3, 1e-3x, 20e]") == ["1e", "e3", "1e-3x", "20e"]


def test_set_changes_the_file_s_own_paths(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    study = load_study(
        path,
        settings=[
            "budget=1e3",
            "space.q=[1, 2]",
            "problem.dim=7",
            "search.algorithm=grid",
            "difference=central",
        ],
    )
    assert (study.budget, study.space["q"], study.problem["dim"]) == (1000, [1, 2], 7)
    assert study.fixed == {"step": "theory", "difference": "central"}


def test_set_moves_a_setting_between_space_and_fixed(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    assert list(load_study(path, settings=["q=3"]).space) == ["estimator"]
    assert load_study(path, settings=["q=3"]).fixed["q"] == 3
    moved = load_study(path, settings=["space.step=[theory]"])
    assert "step" not in moved.fixed
    nested = load_study(path, settings=["space.problem.seed=[0, 1]"])
    assert nested.space["problem.seed"] == [0, 1]
    named = load_study(path, settings=["problem=rosenbrock", "problem.dim=9"])
    assert named.problem == {"name": "rosenbrock", "dim": 9}


@pytest.mark.parametrize("key", ["diagnostics", "keep_best"])
def test_a_setting_that_is_true_or_false_can_be_fixed(tmp_path: Path, key: str) -> None:
    assert load_study(written(tmp_path, GOOD), settings=[f"{key}=true"]).fixed[key] is True


@pytest.mark.parametrize("key", ["estimator", "q", "eta", "budget", "memory", "bounds"])
def test_true_is_neither_a_number_nor_a_name(tmp_path: Path, key: str) -> None:
    (line,) = mistakes(tmp_path, GOOD, f"{key}=true")
    assert line.startswith(f"--set {key}=true: {key} must be ")
    assert "got True" in line


def test_mistakes_in_set_name_what_was_typed(tmp_path: Path) -> None:
    assert mistakes(tmp_path, GOOD, "budget=-3") == [
        "--set budget=-3: budget must be greater than or equal to 1, got -3"
    ]
    (line,) = mistakes(tmp_path, GOOD, "bugdet=3")
    assert line.startswith("--set bugdet=3: 'bugdet' is not a setting (did you mean 'budget'?)")
    assert mistakes(tmp_path, GOOD, "space.q=[1", "budget") == [
        "--set space.q=[1: the value is not YAML; quote it for the shell, such as 'space.q=[1,10]'",
        "--set budget: write it as path=value, such as space.q=[1,10] or budget=500",
    ]


def test_studies_that_ship_are_named_like_their_files() -> None:
    shipped = shipped_studies()
    assert {"strongly-convex", "convex", "nonconvex", "stochastic", "smoke"} <= set(shipped)
    for name, text in shipped.items():
        assert parse_document(text, name).data["name"] == name


@pytest.mark.parametrize("word", ["*layers*", "*layers.27.*", "*", "**", "*layers", "&a"])
def test_a_pattern_needs_no_quotes_in_set(tmp_path: Path, word: str) -> None:
    path = written(tmp_path, GOOD)
    assert load_study(path, settings=[f"question={word}"]).question == word
    assert read_value(f"[{word}x, 1]") == [f"{word}x", 1]
