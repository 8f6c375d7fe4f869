"""How the documents say that zotune is installed: from a clone, or from a package index.

They name an index only when a release is on one; ``make release TAG=yes INDEX=yes`` changes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Lines:
    """The lines of one page, before and after a release is on an index."""

    page: str
    from_a_clone: str
    from_an_index: str


README = Lines(
    "README.md",
    """\
```
git clone <address of this repository> zotune && cd zotune
make study && . .venv/bin/activate    # sets up a .venv and makes the picture above
zotune run smoke                      # a study of seconds
zotune ui smoke                       # its curves, in MLflow
```

`make study` takes minutes, most of them to set up. No release is on a package index yet: for an environment of your own, type
`pip install .` in the clone, or install the wheel that `make wheel` leaves in `dist/`. zotune needs Python 3.11 and is tested on Linux;
`zotune doctor` says what your machine can do. Everything else is in the documentation (`make docs`, or the folder [docs](docs/index.md)).
""",
    """\
```
pip install zotune
zotune run smoke          # a study of seconds
zotune ui smoke           # its curves, in MLflow
```

In a clone of the repository, `make study` sets up a `.venv` and makes the picture above, in under two minutes. zotune needs
Python 3.11 and is tested on Linux; `zotune doctor` says what your machine can do. Everything else is in the documentation
(`make docs`, or the folder [docs](docs/index.md)).
""",
)
GETTING_STARTED = Lines(
    "docs/getting-started.md",
    """\
```bash
git clone <address of the repository> zotune && cd zotune
python3.11 -m venv .venv && . .venv/bin/activate
pip install .
zotune doctor          # what this machine can do, and what to change
```

No release is on a package index yet. `make study` sets up a `.venv`, too, and runs a study; `make wheel` leaves a wheel in `dist/`, for
`pip install dist/zotune-*.whl` on other machines.
""",
    """\
```bash
pip install zotune
zotune doctor          # what this machine can do, and what to change
```
""",
)
ALL = (README, GETTING_STARTED)


def from_an_index(root: Path) -> dict[Path, str]:
    """The pages that still install from a clone, with the lines that install from an index."""
    found = {}
    for lines in ALL:
        path = root / lines.page
        text = path.read_text(encoding="utf-8")
        if lines.from_a_clone in text:
            found[path] = text.replace(lines.from_a_clone, lines.from_an_index)
    return found


def unknown(root: Path) -> list[str]:
    """Pages that have neither form of the lines, so that a release cannot change them."""
    texts = {lines: (root / lines.page).read_text(encoding="utf-8") for lines in ALL}
    return [
        f"{lines.page} installs in other words than tools/installing.py has: change them there"
        for lines, text in texts.items()
        if lines.from_a_clone not in text and lines.from_an_index not in text
    ]
