"""The timeline: bounded by age and size, across restarts, whatever a crash or damage has left."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from dm.worker.history.timeline import KEPT_SECONDS, Happening, Timeline
from tests.testbed.fake_clock import FakeClock

MOST = 1 << 20


def timeline(directory: Path, clock: FakeClock, most: int = MOST) -> Timeline:
    return Timeline(directory / "timeline.jsonl", clock, most)


def texts(one: Timeline, most: int = 1000) -> list[str]:
    return [each.text for each in reversed(one.newest(most))]


def test_what_happened_is_there_after_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    first = timeline(tmp_path, clock)
    first.add("error", "Sync rests: <b>\n\u00fc", task="t", source="one", code=44006)
    first.add("verb", "resume-task", who="anna", task="t")
    again = timeline(tmp_path, clock)
    assert again.newest(10) == [
        Happening(1000.0, "verb", "resume-task", task="t", who="anna"),
        Happening(1000.0, "error", "Sync rests: <b>\n\u00fc", task="t", source="one", code=44006),
    ]
    assert [each.who for each in again.newest(10, lambda one: bool(one.who))] == ["anna"]
    assert (tmp_path / "timeline.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_week_is_kept(tmp_path: Path) -> None:
    clock = FakeClock()
    one = timeline(tmp_path, clock)
    one.add("start", "old")
    clock.now += KEPT_SECONDS - 1
    one.add("start", "young")
    assert texts(one) == ["old", "young"]
    clock.now += 2
    assert texts(one) == ["young"]
    assert "old" in (tmp_path / "timeline.jsonl").read_text()
    assert texts(timeline(tmp_path, clock)) == ["young"]
    assert "old" not in (tmp_path / "timeline.jsonl").read_text()


def test_the_size_is_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    one = timeline(tmp_path, FakeClock(), 4000)
    for number in range(500):
        one.add("start", f"number {number}")
        assert (tmp_path / "timeline.jsonl").stat().st_size <= 4000
    kept = texts(one)
    assert kept == [f"number {number}" for number in range(500 - len(kept), 500)]
    assert len(kept) > 20
    assert len(timeline(tmp_path, FakeClock(), 4000).newest(1)) == 1


def test_a_line_that_a_power_cut_has_ended_is_dropped_alone(tmp_path: Path) -> None:
    timeline(tmp_path, FakeClock()).add("start", "whole")
    with (tmp_path / "timeline.jsonl").open("a") as file:
        file.write('{"at": 1000, "kind": "start", "te')
    again = timeline(tmp_path, FakeClock())
    again.add("end", "later")
    assert texts(again) == ["whole", "later"]
    assert [path.name for path in tmp_path.iterdir()] == ["timeline.jsonl"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"format": 1}\nnonsense\n', "line 2 is damaged"),
        ('{"format": 1}\n{"at": "x", "kind": "a", "text": "b"}\n', "line 2 is damaged"),
        ('{"format": 1}\n[]\n', "line 2 is damaged"),
        ('{"format": 1}\n{"at": 1, "kind": "a", "text": "b", "code": []}\n', "line 2 is damaged"),
        ("\x00\x00\x00\n", "its first line is damaged"),
        ('{"format": 2}\n', "it has the format 2, and this version writes 1"),
    ],
)
def test_a_damaged_file_is_put_aside_with_a_word(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "timeline.jsonl").write_text(content)
    one = timeline(tmp_path, FakeClock())
    said = one.newest(10)
    assert [each.kind for each in said] == ["history"]
    assert problem in said[0].text
    assert "40960" in said[0].text or "can't be read" in said[0].text
    assert (tmp_path / "timeline.jsonl.unreadable").read_text() == content
    assert texts(timeline(tmp_path, FakeClock())) == [said[0].text]


def test_a_disk_without_room_stops_nothing(tmp_path: Path) -> None:
    one = timeline(tmp_path, FakeClock())
    (tmp_path / "timeline.jsonl").unlink()
    (tmp_path / "timeline.jsonl").symlink_to(tmp_path / "elsewhere")
    one.add("start", "lost")
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "timeline.jsonl").unlink()
    one.add("start", "written")
    assert "written" in (tmp_path / "timeline.jsonl").read_text()


def test_a_line_for_which_there_is_half_the_room_damages_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    one = timeline(tmp_path, clock)
    for _ in range(2000):  # what pytest captures stays below the limit
        one.add("verb", "before")
    size = (tmp_path / "timeline.jsonl").stat().st_size
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, most))
    try:
        one.add("verb", "lost")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    one.add("verb", "after")
    assert texts(timeline(tmp_path, clock), 2) == ["before", "after"]


def test_a_long_text_is_cut(tmp_path: Path) -> None:
    one = timeline(tmp_path, FakeClock())
    one.add("ddl", "x" * 100_000)
    assert len(one.newest(1)[0].text) == 500
    for line in (tmp_path / "timeline.jsonl").read_text().splitlines():
        assert json.loads(line)
