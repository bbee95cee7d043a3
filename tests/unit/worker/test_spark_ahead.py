"""Spark's session is started while the checks of a task run, and leaves nothing behind where they fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dm.cli.client import Client
from tests.unit.worker.home import TestHome, until


def answers(one: TestHome, **said: object) -> None:
    (one.directory / "servers.json").write_text(json.dumps(said))


def ahead(one: TestHome) -> list[str]:
    """The process of the session, and how it ended."""
    file = one.directory / "ahead"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("mode", ["full", "all", "dump"])
def test_the_session_is_started_before_the_checks_end_and_the_dump_takes_it(one: TestHome, mode: str) -> None:
    answers(one, slow_check=True)
    one.script("t", Dump="run")
    one.ok("start-task", one.task(mode=mode))
    until(lambda: one.trace("t") == ["Dump one"])
    until(lambda: ahead(one) == [str(one.pid_of("t")), "taken"])


def test_a_refused_task_leaves_no_process_and_no_directory(one: TestHome) -> None:
    answers(one, slow_check=True, failing_check="binlog_format")
    refused = one.said("start-task", one.task(mode="full"))
    assert refused.status != 0
    assert ahead(one)[1:] == ["stopped"]
    assert not Path(f"/proc/{ahead(one)[0]}/cwd").exists()
    assert not (one.directory / "work" / "t").exists()
    answers(one)
    one.ok("start-task", one.task(mode="full"))
    until(lambda: one.stage() == ("Finished", "Load"))


def test_files_of_the_task_that_were_there_stay(one: TestHome) -> None:
    answers(one, slow_check=True, failing_check="binlog_format")
    one.script("t", Dump="run")
    assert one.said("start-task", one.task(mode="full")).status != 0
    assert [path.name for path in (one.directory / "work" / "t").iterdir()] == ["script.json"]


@pytest.mark.parametrize(
    ("mode", "more", "first"),
    [("incremental", "", "Sync"), ("all", "", "Sync"), ("full", "spark: {master: 'spark://nowhere:7077'}\n", "Dump")],
    ids=["no-load", "loaded-already", "cluster"],
)
def test_no_session_where_none_is_needed_or_others_have_a_say(one: TestHome, mode: str, more: str, first: str) -> None:
    answers(one, first_unit={"t": first})
    file = one.task(mode=mode)
    one.file(file, (one.directory / file).read_text() + more)
    one.script("t", Dump="run")
    one.ok("start-task", file)
    until(lambda: one.trace("t") == [f"{first} one"])
    one.ok("stop-task", "t")
    assert Client(None, {"DM_HOME": str(one.directory)}, print).running()
    assert ahead(one) == []
