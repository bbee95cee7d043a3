"""`dmctl reload-table` and `dmctl update-task`, with scripted units: what is asked of a target, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.home import TestHome, home, until

FAILED, BAD_USAGE = 1, 2


def listed(daemon: TestHome, *tables: str, more: str = "") -> str:
    """A task with a list of tables."""
    file = daemon.task("t")
    text = (daemon.directory / file).read_text() + "    block-allow-list: b\n"
    wanted = ", ".join(f"{{db-name: s, tbl-name: {table}}}" for table in tables)
    return daemon.file(file, text + f"block-allow-list: {{b: {{do-tables: [{wanted}]}}}}\n{more}")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[TestHome]:
    with home(tmp_path / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source("one"))
        running.ok("start-task", listed(running, "first"))
        until(lambda: running.stage() == ("Running", "Sync"))
        yield running


def asked(daemon: TestHome) -> list[str]:
    """What was asked of the target."""
    file = daemon.directory / "asked"
    return file.read_text().splitlines() if file.exists() else []


def refused(daemon: TestHome, code: str, *words: str) -> None:
    said = daemon.said(*words)
    assert (said.status, f"Error {code}" in said.err) == (FAILED, True), said.err


def begun(daemon: TestHome) -> int:
    """How often the stream has begun."""
    return daemon.trace("t").count("Sync one")


def test_a_table_is_loaded_again(daemon: TestHome) -> None:
    before = begun(daemon)
    said = daemon.said("reload-table", "t", "s", "first")
    assert said.out.splitlines()[0] == "`s`.`first` of source one: `there`.`first` is loaded again", said.err
    until(lambda: begun(daemon) > before)  # the stream looks what is asked of it
    daemon.ok("reload-table", "t", "s", "first", "--source", "one", "--recreate")
    assert asked(daemon) == ["reload s.first None False", "reload s.first one True"]
    refused(daemon, "46922", "reload-table", "t", "--cancel")
    (daemon.directory / "servers.json").write_text('{"joining": true}')
    assert daemon.said("reload-table", "t", "--cancel").out.strip() == "`a`.`t`: goes on with the rows that it has"
    assert daemon.said("reload-table", "t", "s").status == BAD_USAGE
    assert daemon.said("reload-table", "t", "s", "first", "--cancel").status == BAD_USAGE


def test_what_does_not_follow_or_is_validated_is_left_alone(daemon: TestHome) -> None:
    daemon.script("load", Dump="run")
    daemon.tried("start-task", daemon.task("load", "full"))
    until(lambda: daemon.stage("load")[1] == "Dump")
    refused(daemon, "46924", "reload-table", "load", "s", "first")
    daemon.ok("stop-task", "load")
    daemon.ok("validation", "start", "t")
    refused(daemon, "46927", "reload-table", "t", "s", "first")
    refused(daemon, "46927", "update-task", listed(daemon, "first", "second"), "--yes")
    assert asked(daemon) == []


def test_a_longer_list_is_told_asked_for_and_taken_back(daemon: TestHome) -> None:
    longer = listed(daemon, "first", "second")
    said = daemon.dmctl("update-task", longer, stdin="n\n")
    assert (said.status, asked(daemon)) == (FAILED, [])
    assert "are loaded beside the others, and join: `s`.`second`" in said.err
    assert "do it?" in said.err
    before = begun(daemon)
    daemon.ok("update-task", longer, "--yes")
    assert asked(daemon) == ["add s.second"]
    until(lambda: begun(daemon) > before)
    assert daemon.ok("update-task", longer)["changes"] is False
    refused(daemon, "46922", "update-task", "t", "--cancel")
    (daemon.directory / "servers.json").write_text('{"joining": true}')
    assert "the list of before holds again" in daemon.said("update-task", "t", "--cancel").out
    assert asked(daemon)[1:] == ["cancel one"]
    (daemon.directory / "servers.json").unlink()
    assert daemon.ok("update-task", longer)["tables"] == {"one": ["`s`.`second`"]}


def test_what_the_prechecks_warn_of_is_told_when_a_file_is_taken(daemon: TestHome) -> None:
    (daemon.directory / "servers.json").write_text('{"warned_check": "block_allow_list"}')
    try:
        said = daemon.said("update-task", listed(daemon, "first", "second"), "--yes")
    finally:
        (daemon.directory / "servers.json").unlink()
    assert "warning: block_allow_list of task t: no schema bnk is seen at one" in said.err, str(said)
    assert said.out == "follow it with `dmctl query-status t`\n"


def test_what_a_running_task_can_not_get_is_named(daemon: TestHome) -> None:
    said = daemon.said("update-task", listed(daemon, "first", "second", more="timezone: '+01:00'\n"), "--yes")
    assert (said.status, "Error 46925" in said.err, "`timezone`" in said.err) == (FAILED, True, True), said.err
    assert asked(daemon) == []


def test_the_same_words_at_another_place_change_nothing(daemon: TestHome) -> None:
    daemon.ok("stop-task", "t")
    text = (daemon.directory / listed(daemon, "first")).read_text()
    text = text.replace("  port: 4000\n", "  port: 4000\n  session: {sql_mode: ANSI}\n")
    text = text.replace("    block-allow-list: b\n", "    block-allow-list: b\n    expression-filters: [f]\n")
    text += "expression-filter: {f: {schema: s, table: first, insert-value-expr: a > 1}}\n"
    daemon.ok("start-task", daemon.file("t.yaml", text))
    until(lambda: daemon.stage() == ("Running", "Sync"))
    assert daemon.ok("update-task", daemon.file("other.yaml", f"# one more line\n{text}"))["keys"] == []
