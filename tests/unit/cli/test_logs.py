"""`dmctl logs`: the processes of a task together, in the order of time, also while the files are rotated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dm.cli.log_files import Showing, show
from dm.task.log import backup
from dm.worker.log_lines import LogReader
from tests.unit.worker.home import TestHome, home, until

ALL = Showing(0, as_they_are=False)


def record(second: int, event: str, level: str = "info", **more: str) -> str:
    return json.dumps({"host": "h", "event": event, "level": level, "timestamp": f"10:00:{second:02d}", **more}) + "\n"


def logs(directory: Path, *names: str) -> list[LogReader]:
    return [LogReader(name, directory / f"{name}.log") for name in names]


class Meanwhile:
    """What happens while one waits, step by step; then Ctrl-C."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = iter(steps)

    def __call__(self, _seconds: float) -> None:
        step = next(self._steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()


def test_the_last_lines_of_all_files_in_the_order_of_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(record(1, "one") + record(4, "four", unit="Sync"))
    (tmp_path / "b.log").write_text(record(2, "two", "warning") + "noise\n" + record(5, "five"))
    show(logs(tmp_path, "a", "b", "never-there"), 4, ALL, None)
    assert capsys.readouterr().out == (
        "10:00:02 warning b: two\n10:00:02 b: noise\n10:00:04 info    a: four unit=Sync\n10:00:05 info    b: five\n"
    )


def test_more_lines_than_a_block_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text("".join(record(n % 60, f"line {n}", filler="x" * 1000) for n in range(300)))
    (reader,) = logs(tmp_path, "a")
    assert [line.record["event"] for line in reader.last(200)] == [f"line {n}" for n in range(100, 300)]
    assert list(reader.new()) == []
    reader.close()


def test_a_stack_stands_below_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(record(1, "unit broke", "error", exception="Traceback:\n  here"))
    show(logs(tmp_path, "a"), 10, ALL, None)
    assert capsys.readouterr().out == "10:00:01 error   a: unit broke\n    Traceback:\n      here\n"


def test_only_from_a_level_up_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(record(1, "one") + record(2, "two", "error"))
    show(logs(tmp_path, "a"), 10, Showing(2, as_they_are=True), None)
    assert capsys.readouterr().out == record(2, "two", "error")


def test_what_comes_is_followed_through_rotations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, later = tmp_path / "a.log", tmp_path / "b.log"
    log.write_text(record(1, "before"))

    def append(file: Path, text: str) -> Callable[[], object]:
        def write() -> None:
            with file.open("a") as stream:
                stream.write(text)

        return write

    def rotate() -> None:
        append(log, record(4, "last of the old"))()
        log.replace(backup(log, 1))
        log.write_text(record(5, "first of the new"))

    half = record(3, "in two pieces")
    show(
        logs(tmp_path, "a", "b"),
        0,
        ALL,
        Meanwhile(
            append(log, record(2, "after") + half[:20]), append(log, half[20:]), rotate,
            append(later, record(6, "another process")), append(log, record(7, "the end")),
        ),
    )  # fmt: skip
    told = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert told == ["after", "in two pieces", "last of the old", "first of the new", "another process", "the end"]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("logs") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        running.ok("start-task", running.task("shop"))
        running.ok("start-task", running.task("shop.one"))
        running.ok("start-relay", "-s", "one")
        until(lambda: running.trace("shop") and running.trace("shop.one"))
        yield running


def test_the_logs_of_a_task_of_a_relay_and_of_the_daemon(one: TestHome) -> None:
    def processes(*words: str) -> set[str]:
        return {line.split()[2].rstrip(":") for line in one.said("logs", *words).out.splitlines()}

    until(lambda: "unit starts" in one.said("logs", "-s", "one").out)
    assert processes("shop") == {"sync:shop:one"}, "not those of the task shop.one"
    assert processes("shop.yaml", "--source", "one") == {"sync:shop:one"}
    assert processes("-s", "one") == {"relay:one"}
    assert "unit starts" in one.said("logs", "shop", "-n", "5").out
    assert one.said("logs", "shop", "--level", "error").out == ""
    assert one.said("logs", "shop", "-n", "0").out == ""


def test_logs_of_a_task_that_was_stopped_are_still_there(one: TestHome) -> None:
    one.ok("start-task", one.task("gone"))
    until(lambda: one.trace("gone"))
    one.ok("stop-task", "gone")
    assert "unit starts" in one.said("logs", "gone").out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["nobody"], 1, "there is no task nobody"),
        (["-s", "nobody"], 1, "there is no source nobody"),
        (["shop", "--level", "loud"], 2, "'loud' is not one of debug, info, warn, error"),
    ],
)
def test_what_is_not_there_is_said(one: TestHome, words: list[str], status: int, said: str) -> None:
    done = one.said("logs", *words)
    assert done.status == status
    assert said in done.err
