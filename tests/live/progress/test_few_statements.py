"""What is stored of many tables, or at each start, takes few statements."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.position import Position
from dm.progress.compared import RECENT, ComparedRecord, read_compared, store_compared
from dm.progress.opposite_sources import note_source
from dm.progress.tables import SubtaskKey
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


@pytest.fixture
def key(target: ThrowawayServer) -> Iterator[SubtaskKey]:
    name = f"few_{secrets.token_hex(3)}"
    yield SubtaskKey(name, "t", "one")
    target.execute(f"DROP DATABASE IF EXISTS {name}")


def records(number: int, part: str = "") -> list[ComparedRecord]:
    return [
        ComparedRecord(TableName("s", f"t{at:03}"), "equal", at, at, 1, "d", 1, 2, part, "", "basis")
        for at in range(number)
    ]


def test_the_records_of_many_tables_are_stored_together(target: ThrowawayServer, key: SubtaskKey) -> None:
    place = Position("server", "binlog.000001", 4)
    with closing(TargetConnection(endpoint_of(target))) as session:

        def sent() -> int:
            names = "'Com_replace', 'Com_delete'"
            return sum(int(n) for _, n in session.query(f"SHOW SESSION STATUS WHERE Variable_name IN ({names})"))

        store_compared(session, key, records(250, RECENT), place)
        assert {row["partly"] == "" for row in read_compared(session, key)} == {True}
        before = sent()
        store_compared(session, key, records(240), place)
        assert sent() - before == 6
        left = [(row["table"], row["sourceRows"]) for row in read_compared(session, key)]
    assert left == [(f"s.t{at:03}", at) for at in range(250)], "the others' recent rows stay"


def test_a_source_that_is_noted_costs_no_statement_in_the_target_s_binlog(
    target: ThrowawayServer, key: SubtaskKey
) -> None:
    with closing(TargetConnection(endpoint_of(target))) as session, closing(connect(endpoint_of(target))) as looking:
        note_source(session, key, "server")
        at = binlog_end(looking)
        note_source(session, key, "server")
        assert binlog_end(looking) == at
        note_source(session, key, "another")
        assert binlog_end(looking) != at
    noted = target.query(f"SELECT server_uuid FROM {key.sources.sql} ORDER BY 1")
    assert noted == (("another",), ("server",))
