"""Words of a source, a server or another daemon do nothing to the terminal of who asks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.ident import Ident
from tests.live.cli.newcomer import Newcomer
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.chaos, pytest.mark.live]

# Sets the title, clears the screen, has the terminal answer with text, turns the order of what follows round.
HOSTILE = "\x1b]0;x\x07\x1b[2J\x1b[6n\x9b31m\u202e\u2066\r!"
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def newcomer(park: ServerPark, tmp_path: Path) -> Iterator[Newcomer]:
    one = Newcomer(park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target"), tmp_path)
    with one.daemon:
        yield one
        one.close()


def test_names_comments_and_messages_of_a_source_are_shown_and_not_obeyed(newcomer: Newcomer) -> None:
    table = f"{newcomer.schema}.{Ident(f't{HOSTILE}').sql}"
    daemon = newcomer.daemon
    newcomer.file("source.yaml", newcomer.source_text("here", newcomer.good_source_user()))
    newcomer.file("task.yaml", newcomer.task_text("orders", "here", newcomer.good_target_user()))
    daemon.must("operate-source", "create", "source.yaml")
    daemon.must("start-task", "task.yaml")
    daemon.wait("orders", lambda status: status["here"].get("sync", {}).get("synced") is True, "follows")
    newcomer.target.execute(f"CREATE VIEW {table} AS SELECT 1")  # in the way of the table that comes
    newcomer.upstream.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY COMMENT '{HOSTILE}') COMMENT '{HOSTILE}'")
    daemon.wait("orders", lambda status: status["here"]["stage"] == "Paused", "stops at the hostile statement")
    said = [
        daemon.said("query-status", "orders"),
        daemon.said("query-status", "orders", "--output", "json"),
        daemon.said("check-task", "task.yaml"),
        daemon.said("logs", "orders"),
        daemon.said("binlog-schema", "list", "orders", newcomer.schema, f"t{HOSTILE}"),
        daemon.said("operate-source", "show", f"nobody{HOSTILE}"),
    ]
    everything = "".join(each.out + each.err for each in said)
    assert "\\x1b]0;x\\x07" in everything
    assert "\\u202e" in everything
    for each in said:
        assert _OBEYED.findall(each.out) == [], each.out
        assert _OBEYED.findall(each.err) == [], each.err
