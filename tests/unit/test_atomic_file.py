"""Files that are replaced as a whole, one or many, are made durable before they get their names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dm.atomic_file import create_new, write_atomically, write_together


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


def test_a_link_that_was_there_first_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    for name in ("new", f".file.{os.getpid()}.tmp", ".file.tmp"):
        (tmp_path / name).symlink_to(victim)
    with pytest.raises(FileExistsError):
        create_new(tmp_path / "new")
    for durable in (False, True):
        write_atomically(tmp_path / "file", b"ours", durable=durable)
    assert (tmp_path / "file").read_bytes() == b"ours"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert victim.read_text() == "untouched"


def test_a_temporary_name_is_another_one_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    real = os.open

    def opened(path: Path, flags: int, mode: int = 0o777) -> int:
        names.append(Path(path).name)
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", opened)
    for _ in range(3):
        write_atomically(tmp_path / "file", b"", durable=False)
    assert len(set(names)) == 3
