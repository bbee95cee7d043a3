"""What an unfinished comparison leaves, and what the next one makes of it."""

from pathlib import Path

import pytest

from dm.diff.done_chunks import DoneChunks
from dm.errors import DMError


def test_a_run_that_is_not_over_can_be_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "done"
    done = DoneChunks(path, resume=False)
    done.add("a", 1, 2)
    done.add("b", 3, 4)
    done.close(over=False)
    path.write_text(path.read_text() + '["c", 5')  # where a process was killed
    again = DoneChunks(path, resume=True)
    assert [again.known(chunk) for chunk in ("a", "b", "c")] == [(1, 2), (3, 4), None]
    again.close(over=True)
    assert not path.exists()


def test_nothing_is_gone_on_with_unasked(tmp_path: Path) -> None:
    path = tmp_path / "done"
    done = DoneChunks(path, resume=False)
    done.add("a", 1, 2)
    done.close(over=False)
    anew = DoneChunks(path, resume=False)
    assert anew.known("a") is None
    anew.close(over=False)
    assert path.read_text() == ""


def test_a_place_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DMError) as caught:
        DoneChunks(tmp_path / "file" / "done", resume=False)
    assert caught.value.name == "diff-progress-unwritable"
