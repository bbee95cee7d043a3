"""What an unfinished comparison leaves, and what the next one makes of it."""

from pathlib import Path

import pytest

from dm.errors import DMError
from dm.tools.diff.done_chunks import DoneChunks
from dm.tools.diff.options import DiffOptions


def unfinished(directory: Path, asked: str, *chunks: str) -> None:
    """A comparison that was ended."""
    done = DoneChunks(directory, asked, resume=False)
    for chunk in chunks:
        done.add(chunk, 1, 2)
    done.close(over=False)


def test_a_run_that_is_not_over_can_be_gone_on_with(tmp_path: Path) -> None:
    directory = tmp_path / "deep"
    unfinished(directory, "all", "a", "b")
    (path,) = directory.iterdir()
    path.write_text(path.read_text() + '["c", 5')  # where a process was killed
    again = DoneChunks(directory, "all", resume=True)
    assert [again.known(chunk) for chunk in ("a", "b", "c")] == [(1, 2), (1, 2), None]
    again.add("d", 5, 6)
    again.close(over=False)
    third = DoneChunks(directory, "all", resume=True)
    assert [third.known(chunk) for chunk in ("a", "b", "d")] == [(1, 2), (1, 2), (5, 6)]
    third.close(over=True)
    assert not list(directory.iterdir())


def test_nothing_is_gone_on_with_unasked(tmp_path: Path) -> None:
    unfinished(tmp_path, "all", "a")
    anew = DoneChunks(tmp_path, "all", resume=False)
    assert anew.known("a") is None
    anew.close(over=False)
    assert not list(tmp_path.iterdir())


def test_two_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    first, second = (DoneChunks(tmp_path, "all", resume=False) for _ in range(2))
    first.add("a", 1, 1)
    second.add("b", 2, 2)
    third = DoneChunks(tmp_path, "all", resume=True)
    assert (third.known("a"), third.known("b")) == (None, None), "they still run"
    third.close(over=True)
    second.close(over=True)
    first.add("c", 3, 3)
    first.close(over=False)
    again = DoneChunks(tmp_path, "all", resume=True)
    assert [again.known(chunk) for chunk in ("a", "b", "c")] == [(1, 1), None, (3, 3)]
    again.close(over=True)


def test_what_was_asked_otherwise_stays(tmp_path: Path) -> None:
    unfinished(tmp_path, "all", "a")
    other = DoneChunks(tmp_path, "one", resume=True)
    assert other.known("a") is None
    other.close(over=True)
    again = DoneChunks(tmp_path, "all", resume=True)
    assert again.known("a") == (1, 2)
    again.close(over=True)


def test_old_files_go_and_running_ones_stay(tmp_path: Path) -> None:
    running = DoneChunks(tmp_path, "first", resume=False)
    running.add("a", 1, 2)
    for number in range(30):
        unfinished(tmp_path, f"asked{number}", "a")
    names = {path.name.partition("-")[0] for path in tmp_path.iterdir()}
    assert {"first", "asked29"} <= names
    assert "asked0" not in names
    assert len(names) < 30
    running.close(over=False)


def test_the_same_is_asked_by_the_same_rows_and_chunks() -> None:
    asked = DiffOptions(tables=("s.a", "s.b"), where="id < 5").asked
    assert DiffOptions(tables=("s.b", "s.a"), where="id < 5", threads=9, resume=True, fix_sql="/fix").asked == asked
    others = (
        DiffOptions(tables=("s.a",), where="id < 5"),
        DiffOptions(tables=("s.a", "s.b"), where="id < 6"),
        DiffOptions(tables=("s.a", "s.b"), where="id < 5", rows=10),
        DiffOptions(tables=("s.a", "s.b"), where="id < 5", ignore_columns=("c",)),
        DiffOptions(tables=("s.a", "s.b"), where="id < 5", snapshots=("now",)),
    )
    assert len({asked, *(each.asked for each in others)}) == 6


def test_a_place_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DMError) as caught:
        DoneChunks(tmp_path / "file" / "done", "all", resume=False)
    assert caught.value.name == "diff-progress-unwritable"
