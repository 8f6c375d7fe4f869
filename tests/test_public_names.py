"""Names, signatures, settings and commands that users rely on change only on purpose."""

from __future__ import annotations

from tests.public_names import RECORDED, documented, public_names


def test_public_names_are_as_recorded() -> None:
    before, now = set(RECORDED.read_text().splitlines()), set(public_names())
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
