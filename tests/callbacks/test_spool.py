"""Records outlive a crash; a cut line is taken off; nobody writes or delivers beside another."""

from __future__ import annotations

from pathlib import Path

import pytest

from zotune.callbacks.spool import (
    RECORDS,
    Spool,
    SpoolError,
    delivering,
    find_spools,
    is_written,
    read_records,
)

ABOUT = {"launch_id": "one"}


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", ABOUT)
    records = [{"kind": "points", "points": [[3, {"loss": 0.1 + 0.2, "n": 1e308}]]}, {"kind": "x"}]
    spool.append(*records)
    assert read_records(tmp_path / "a") == (records, spool.size)
    spool.append({"kind": "more"})
    spool.close()
    assert read_records(tmp_path / "a", spool.size) == ([], spool.size)
    assert find_spools(tmp_path) == [tmp_path / "a"]


@pytest.mark.parametrize("torn", [b'{"kind":"po', b'{"kind":"points"}', b"\x00\x00\x00\n"])
def test_a_line_that_a_crash_cut_short_is_not_there(tmp_path: Path, torn: bytes) -> None:
    spool = Spool(tmp_path, ABOUT)
    spool.append({"kind": "whole"})
    spool.close()
    with (tmp_path / RECORDS).open("ab") as file:
        file.write(torn)
    assert read_records(tmp_path)[0] == [{"kind": "whole"}]
    again = Spool(tmp_path)
    again.append({"kind": "next"})
    again.close()
    assert read_records(tmp_path)[0] == [{"kind": "whole"}, {"kind": "next"}]


def test_a_record_that_no_store_could_hold_is_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path, ABOUT)
    with pytest.raises(ValueError, match="not JSON compliant"):
        spool.append({"kind": "good"}, {"value": float("nan")})
    spool.close()
    assert read_records(tmp_path) == ([], 0)


def test_two_cannot_write_one_spool_and_a_reader_knows_whether_one_does(tmp_path: Path) -> None:
    assert not is_written(tmp_path)
    spool = Spool(tmp_path, ABOUT)
    assert is_written(tmp_path)
    with pytest.raises(SpoolError, match="is written by another process; end that one first"):
        Spool(tmp_path)
    spool.close()
    assert not is_written(tmp_path)


def test_two_cannot_deliver_one_spool(tmp_path: Path) -> None:
    with delivering(tmp_path) as first, delivering(tmp_path) as second:
        assert first
        assert not second
    with delivering(tmp_path) as third:
        assert third
