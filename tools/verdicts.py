"""Judge experiments of the paper without Ray: the same runs, in this process, one after another.

    python -m tools.verdicts strongly-convex-tuned --instances 8 --records FOLDER

prints the table of verdicts as the documents have it. ``--write FILE`` puts it there, between
``<!-- verdicts: NAME -->`` and ``<!-- end -->``, where NAME is that of the study. A run is a
function of its configuration: the numbers are those of ``zotune reproduce``, which draws figures
as well. Every run is kept in FOLDER, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import zotune
from zotune.claims import FAILS, Finals, Verdict, judge, refinement
from zotune.reproduction.pages import HEADINGS, word
from zotune.reproduction.plan import EXPERIMENTS
from zotune.results.checkpoints import from_run
from zotune.results.verdicts import finals_of
from zotune.study import Study

START, END = "<!-- verdicts: {} -->", "<!-- end -->"


def main() -> None:
    """Run what is missing, judge, and print or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("experiment", choices=[one.study for one in EXPERIMENTS])
    parser.add_argument("--size", default="small", choices=["small", "full"])
    parser.add_argument("--instances", type=int, default=0)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    [experiment] = [one for one in EXPERIMENTS if one.study == given.experiment]
    study = experiment.at(given.size, given.instances)
    finals = [*ended(study, given.records / f"{study.name}.jsonl")]
    verdicts = judge(study.claims, finals, study.tuning)
    text = "\n".join([f"{_size(study, len(finals))}", "", *table(verdicts)])
    print(text)
    for verdict in verdicts:
        print(f"{verdict.verdict} at the {verdict.step} step: {verdict.says} {verdict.why}")
    if given.write:
        replace_between(given.write, study.name, text)


def ended(study: Study, file: Path) -> Iterator[Finals]:
    """How every trial of a study ended, those by which its grid is refined included."""
    known = dict(_kept(file)) if file.is_file() else {}
    points, finals = list(study.trials), list[Finals]()
    while points:
        for point in points:
            key = json.dumps(point, sort_keys=True)
            if key not in known:
                known[key] = _run(study, point)
                _keep(file, key, known[key])
            finals.append(known[key])
        tuning = study.tuning if study.refines else None
        points = refinement([_at_point(one, study) for one in finals], tuning, study.claims)
        print(f"{study.name}: {len(finals)} trials, {len(points)} more", flush=True)
    return iter(finals)


def _run(study: Study, point: Mapping[str, Any]) -> Finals:
    config = study.configuration(point).model_dump(exclude_none=True)
    run = zotune.minimize(config.pop("problem"), on_report=lambda row: None, **config)
    return finals_of(from_run(run))


def _at_point(finals: Finals, study: Study) -> Finals:
    """The same with the settings of the space alone, as points of further trials need them."""
    from dataclasses import replace

    from zotune.core.settings import setting

    keys = study.space
    return replace(finals, config={key: setting(finals.config, key) for key in keys})


def _kept(file: Path) -> Iterator[tuple[str, Finals]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        yield record.pop("key"), Finals(**record)


def _keep(file: Path, key: str, finals: Finals) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"key": key, **vars(finals)}, default=str) + "\n")


def _size(study: Study, trials: int) -> str:
    further = trials - study.size
    return f"(`{study.name}`, {study.size} trials, and {further} by which the grid was refined)"


def table(verdicts: list[Verdict]) -> list[str]:
    """The table of verdicts as the documents have it."""
    steps = [step for step in HEADINGS if any(v.step == step for v in verdicts)]
    lines = ["| claim | " + " | ".join(HEADINGS[step] for step in steps) + " |"]
    lines.append("|---" * (len(steps) + 1) + "|")
    for name in dict.fromkeys(verdict.name for verdict in verdicts):
        mine = {verdict.step: verdict for verdict in verdicts if verdict.name == name}
        says = next(iter(mine.values())).says
        cells = [re.sub(f"^{FAILS}", f"**{FAILS}**", word(mine.get(step))) for step in steps]
        lines.append(f"| {says} | " + " | ".join(cells) + " |")
    return lines


def replace_between(file: Path, name: str, text: str) -> None:
    """Write a text between the marks of a name in a file."""
    whole = file.read_text(encoding="utf-8")
    before, mark, rest = whole.partition(START.format(name) + "\n")
    if not mark:
        raise SystemExit(f"{file} must have a line {START.format(name)!r}, and has none; add it")
    _, _, after = rest.partition(END)
    file.write_text(f"{before}{START.format(name)}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
