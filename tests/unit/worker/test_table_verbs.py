"""`dmctl table`: what is asked of the target, and how it is told; the unit and the target are scripted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.verbs.tables import table_of
from tests.unit.worker.home import TestHome, home, until


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[TestHome]:
    with home(tmp_path / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source("one"))
        running.ok("start-task", running.task("t"))
        until(lambda: running.stage() == ("Running", "Sync"))
        yield running


def test_a_table_is_put_aside_comes_back_and_is_given_up(daemon: TestHome) -> None:
    begun = daemon.trace("t").count("Sync one")
    assert daemon.said("table", "list", "t").out.strip() == "t: all tables are in its stream"
    said = daemon.said("table", "hold", "t", "a.t").out.splitlines()
    assert said[0] == "`a`.`t` of source one: put aside; the others go on"
    until(lambda: daemon.trace("t").count("Sync one") > begun)  # the stream looks what is asked of it
    daemon.ok("table", "release", "t", "a.t", "--source", "one")
    daemon.ok("table", "drop", "t", "`a`.`t.1`")
    assert (daemon.directory / "asked").read_text().splitlines() == [
        "hold a.t None",
        "release a.t one",
        "drop a.t.1 None",
    ]
    (daemon.directory / "servers.json").write_text('{"aside": true}')
    lines = daemon.said("table", "list", "t").out.splitlines()
    assert lines[0] == "`a`.`t` of source one: aside, since then, behind by 150 bytes of bin.000001"
    assert lines[1].startswith("  36921: UPDATE on a.t found no row")
    assert lines[-1] == "  once it is mended: `dmctl table release t a.t`"
    assert daemon.said("validation", "start", "t").status == 1, "its rows would look missing"


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("a.t", TableName("a", "t")),
        ("`a`.t", TableName("a", "t")),
        ("`a.b`.`c``d`", TableName("a.b", "c`d")),
        ("`a`.`.`", TableName("a", ".")),
        ("Ä.表", TableName("Ä", "表")),
    ],
)
def test_a_table_is_named_by_schema_and_name(text: str, table: TableName) -> None:
    assert table_of(text) == table
    assert table_of(table.sql) == table


@pytest.mark.parametrize("text", ["", "a", "a.", ".t", "a.b.c", "`a", "`a`b.c", "`a`", "``.t", "a.`t", "a.t."])
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(DMError) as raised:
        table_of(text)
    assert raised.value.name == "usage"
