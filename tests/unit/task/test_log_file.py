"""Logs are rotated by the process that writes them; levels and sizes can be changed while it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dm.task.log import backup
from dm.task.message import KeepLog, decode_command, encode
from tests.unit.worker.home import ROOT

_CODE = """
import os, sys
from pathlib import Path
import structlog
from dm.task.log import configure, keep
from dm.task.log import LogSettings

path, level, size, backups, lines = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
configure(host="h")
held = structlog.get_logger().bind(unit="Sync")
keep(path, LogSettings(level, size, backups))
for number in range(lines):
    held.info("line", number=number)
    held.debug("detail", number=number)
    os.write(1 + number % 2, b"noise of a library\\n")
held.error("the end")
"""


def run(path: Path, *arguments: object, stderr: Path | None = None) -> None:
    with (stderr or path).open("ab") as log:
        words = [sys.executable, "-c", _CODE, str(path), *map(str, arguments)]
        subprocess.run(words, stdout=log, stderr=log, cwd=ROOT, check=True)


def records(path: Path) -> list[str]:
    return [
        f"{record['event']} {record.get('number', '')}".strip()
        for line in path.read_text().splitlines()
        if line.startswith("{")
        for record in [json.loads(line)]
    ]


def test_a_full_log_gets_a_number_and_no_line_is_lost(tmp_path: Path) -> None:
    log = tmp_path / "sync.log"
    run(log, "info", 1000, 100, 40)
    files = [log, *(backup(log, number) for number in range(1, len(list(tmp_path.iterdir()))))]
    assert len(files) > 3
    assert all(file.stat().st_size < 1400 for file in files)
    assert [one for file in reversed(files) for one in records(file)] == [f"line {n}" for n in range(40)] + ["the end"]
    noise = sum(file.read_text().count("noise of a library") for file in files)
    assert noise == 40, "what a library prints goes to the same files"


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "sync.log"
    run(log, "info", 1000, 2, 40)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["sync.log", "sync.log.1", "sync.log.2"]
    assert records(backup(log, 1))[-1] not in records(backup(log, 2))
    assert records(log)[-1] == "the end"


def test_without_backups_a_full_log_goes(tmp_path: Path) -> None:
    run(tmp_path / "sync.log", "info", 1000, 0, 40)
    assert [file.name for file in tmp_path.iterdir()] == ["sync.log"]
    assert records(tmp_path / "sync.log")[-1] == "the end"


def test_what_is_no_file_of_ours_is_not_rotated(tmp_path: Path) -> None:
    terminal, log = tmp_path / "terminal", tmp_path / "sync.log"
    log.write_text("of an earlier start, whose stderr it was\n")
    run(log, "info", 100, 5, 10, stderr=terminal)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["sync.log", "terminal"]
    assert len(records(terminal)) == 11


def test_a_level_holds_for_loggers_that_are_there_already(tmp_path: Path) -> None:
    for level, seen in (("debug", ["line 0", "detail 0", "the end"]), ("warn", ["the end"]), ("error", ["the end"])):
        log = tmp_path / f"{level}.log"
        run(log, level, 1 << 20, 1, 1)
        assert records(log) == seen


def test_the_settings_travel_to_the_processes() -> None:
    told = KeepLog("/home/me/.dm/log/relay.one.log", "debug", 1 << 20, 3)
    assert decode_command(encode(told)) == told


_FAILURES = """
import sys
from pathlib import Path
import structlog
from dm.errors import DMError
from dm.task.log import configure, keep
from dm.task.log import LogSettings

configure(host="h")
keep(Path(sys.argv[1]), LogSettings(sys.argv[2]))
failures = {"connection-failed": dict(role="source", address="a:1", user="u"), "usage": dict(problem="p", hint="h")}
for name, details in failures.items():
    try:
        raise DMError(name, **details)
    except DMError as error:
        structlog.get_logger().warning(name, error=error, exc_info=error)
"""


@pytest.mark.parametrize(("level", "stacks"), [("info", ["usage"]), ("debug", ["connection-failed", "usage"])])
def test_what_heals_by_itself_has_no_stack(tmp_path: Path, level: str, stacks: list[str]) -> None:
    log = tmp_path / "sync.log"
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-c", _FAILURES, str(log), level], stderr=file, cwd=ROOT, check=True)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [record["event"] for record in told] == ["connection-failed", "usage"]
    assert all("Message: " in record["error"] for record in told)
    assert [record["event"] for record in told if "Traceback" in record.get("exception", "")] == stacks
