"""Workers' reports lie in a directory that a person has named; a link that was planted there is not followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.dumper.chunk_reader import read_report, report, report_file


def test_a_report_is_read_back(tmp_path: Path) -> None:
    for rows in (1, 10):
        report(tmp_path, "s.t.000.parquet", rows, 100)
    assert read_report(tmp_path, "s.t.000.parquet") == (10, 100)


def test_a_report_writes_to_no_other_file(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    report_file(tmp_path, "s.t.000.parquet").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        report(tmp_path, "s.t.000.parquet", 1, 100)
    assert victim.read_text() == "untouched"
