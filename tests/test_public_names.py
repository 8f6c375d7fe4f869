"""Names, signatures, settings and commands that users rely on change only on purpose."""

from __future__ import annotations

import subprocess
import sys

from tests.public_names import RECORDED, ROOT, documented


def test_public_names_are_as_recorded() -> None:
    """In a process of its own: Ray changes the signatures of trainables that it has run."""
    code = "from tests.public_names import public_names; print(*public_names(), sep='\\n')"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    before, now = set(RECORDED.read_text().splitlines()), set(told.stdout.splitlines())
    lost, new = sorted(before - now), sorted(now - before)
    assert (lost, new) == ([], []), (
        "public names have changed: `make names` records them; see Deprecations in CONTRIBUTING.md"
    )


def test_the_record_covers_what_the_documents_use() -> None:
    assert {"zotune.minimize", "zotune.objectives.register", "zotune.callbacks.FailFast"} <= (
        documented()
    )
    recorded = RECORDED.read_text()
    for name in ("zotune.Minimizer.ask(", "setting budget\n", "command zotune run ", "zotune.Run."):
        assert name in recorded
