"""Files that are replaced as a whole, one or many, are made durable before they get their names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dm.atomic_file import write_together


def test_files_written_together_are_synced_each_and_their_directory_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    (tmp_path / "7").write_bytes(b"old")
    contents = {str(number): b"%d" % number for number in range(100)}
    write_together(tmp_path, contents)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == contents
    assert len(synced) == 101
    assert synced[-1] == str(tmp_path)


def test_one_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "3").mkdir()
    with pytest.raises(OSError):
        write_together(tmp_path, {str(number): b"" for number in range(5)})
