"""What an unfinished comparison leaves, and what the next one makes of it."""

from pathlib import Path

import pytest

from dm.errors import DMError
from dm.position import Position
from dm.tools.diff.done_chunks import Beginning, DoneChunks, EqualChunk
from dm.tools.errands import DiffRequest


def opened(directory: Path, asked: str, *, resume: bool, at: int = 5) -> DoneChunks:
    """A comparison that begins at this second."""
    place = Position("uuid", "binlog.000001", 100 * at)
    return DoneChunks(directory, asked, Beginning(at, {"one": place, "two": None}), resume=resume)


def unfinished(directory: Path, asked: str, *chunks: str) -> None:
    """A comparison that was ended."""
    done = opened(directory, asked, resume=False)
    for chunk in chunks:
        done.add(chunk, EqualChunk(1, 2, "sum"))
    done.close(over=False)


def test_a_run_that_is_not_over_can_be_gone_on_with(tmp_path: Path) -> None:
    directory = tmp_path / "deep"
    unfinished(directory, "all", "a", "b")
    (path,) = directory.iterdir()
    path.write_text(path.read_text() + '["c", 5')  # where a process was killed
    again = opened(directory, "all", resume=True)
    assert [again.known(chunk) for chunk in ("a", "b", "c")] == [(1, 2, "sum"), (1, 2, "sum"), None]
    again.add("d", EqualChunk(5, 6, "sum"))
    again.close(over=False)
    third = opened(directory, "all", resume=True)
    assert [third.known(chunk) for chunk in ("a", "b", "d")] == [(1, 2, "sum"), (1, 2, "sum"), (5, 6, "sum")]
    third.close(over=True)
    assert not list(directory.iterdir())


def test_nothing_is_gone_on_with_unasked(tmp_path: Path) -> None:
    unfinished(tmp_path, "all", "a")
    anew = opened(tmp_path, "all", resume=False)
    assert anew.known("a") is None
    anew.close(over=False)
    assert not list(tmp_path.iterdir())


def test_what_goes_on_has_begun_where_its_oldest_chunk_was_compared(tmp_path: Path) -> None:
    first = opened(tmp_path, "all", resume=False, at=3)
    first.add("a", EqualChunk(1, 1, "sum"))
    first.close(over=False)
    second = opened(tmp_path, "all", resume=True, at=7)
    assert second.beginning == Beginning(3, {"one": Position("uuid", "binlog.000001", 300), "two": None})
    second.close(over=False)
    third = opened(tmp_path, "all", resume=True, at=9)
    assert third.beginning.at == 3
    third.close(over=False)
    anew = opened(tmp_path, "all", resume=False, at=11)
    assert anew.beginning.at == 11
    anew.close(over=True)


def test_a_file_of_an_older_release_is_not_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "all-1234").write_text('["a", 1, 2]\n')
    again = opened(tmp_path, "all", resume=True)
    assert again.known("a") is None
    assert again.beginning.at == 5
    again.close(over=True)


def test_two_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    first, second = (opened(tmp_path, "all", resume=False) for _ in range(2))
    first.add("a", EqualChunk(1, 1, "sum"))
    second.add("b", EqualChunk(2, 2, "sum"))
    third = opened(tmp_path, "all", resume=True)
    assert (third.known("a"), third.known("b")) == (None, None), "they still run"
    third.close(over=True)
    second.close(over=True)
    first.add("c", EqualChunk(3, 3, "sum"))
    first.close(over=False)
    again = opened(tmp_path, "all", resume=True)
    assert [again.known(chunk) for chunk in ("a", "b", "c")] == [(1, 1, "sum"), None, (3, 3, "sum")]
    again.close(over=True)


def test_what_was_asked_otherwise_stays(tmp_path: Path) -> None:
    unfinished(tmp_path, "all", "a")
    other = opened(tmp_path, "one", resume=True)
    assert other.known("a") is None
    other.close(over=True)
    again = opened(tmp_path, "all", resume=True)
    assert again.known("a") == (1, 2, "sum")
    again.close(over=True)


def test_old_files_go_and_running_ones_stay(tmp_path: Path) -> None:
    running = opened(tmp_path, "first", resume=False)
    running.add("a", EqualChunk(1, 2, "sum"))
    for number in range(30):
        unfinished(tmp_path, f"asked{number}", "a")
    names = {path.name.partition("-")[0] for path in tmp_path.iterdir()}
    assert {"first", "asked29"} <= names
    assert "asked0" not in names
    assert len(names) < 30
    running.close(over=False)


def test_the_same_is_asked_by_the_same_rows_and_chunks() -> None:
    asked = DiffRequest(tables=("s.a", "s.b"), where="id < 5").asked
    assert DiffRequest(tables=("s.b", "s.a"), where="id < 5", threads=9, resume=True, fix_sql="/fix").asked == asked
    others = (
        DiffRequest(tables=("s.a",), where="id < 5"),
        DiffRequest(tables=("s.a", "s.b"), where="id < 6"),
        DiffRequest(tables=("s.a", "s.b"), where="id < 5", rows=10),
        DiffRequest(tables=("s.a", "s.b"), where="id < 5", ignore_columns=("c",)),
        DiffRequest(tables=("s.a", "s.b"), where="id < 5", snapshots=("now",)),
    )
    assert len({asked, *(each.asked for each in others)}) == 6


def test_a_place_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DMError) as caught:
        opened(tmp_path / "file" / "done", "all", resume=False)
    assert caught.value.name == "diff-progress-unwritable"
