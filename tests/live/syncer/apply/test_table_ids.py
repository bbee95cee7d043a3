"""A source that opens its tables again gives them other ids: nothing is learned again, and what is kept is bounded."""

from __future__ import annotations

import re

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.mysql.binlog.reader import TableMap
from dm.position import Position
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.apply import learned_tables
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.learned_tables import LearnedTables
from dm.syncer.apply.scattered_table import ScatteredTable
from dm.syncer.apply.source_table import SourceTable
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("twin")]

TABLES = 4
TIMES = 3


class Learning:
    """Counts what is learned, and how many tables are known then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.known: list[int] = []
        learn = LearnedTables.learn

        def counted(
            tables: LearnedTables, table_map: TableMap, ticket: Ticket, transaction: SourceTransaction
        ) -> SourceTable | ScatteredTable | None:
            found = learn(tables, table_map, ticket, transaction)
            self.names.append(table_map.table)
            self.known.append(len(tables.known))
            return found

        monkeypatch.setattr(LearnedTables, "learn", counted)


def _follow(upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
    """Write rows to tables that the source opens again each time, and apply them."""
    for server in (upstream, target):
        server.execute(*(f"CREATE TABLE {name}.t{number} (id INT PRIMARY KEY, v INT)" for number in range(TABLES)))
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        for time in range(TIMES):
            upstream.execute("FLUSH TABLES")
            for number in range(TABLES):
                upstream.execute(f"INSERT INTO {name}.t{number} VALUES ({time}, 1)")
        sync.wait_synced()
    assert compare(pair_tables([upstream], [name]), target).identical


def _ids(upstream: ThrowawayServer, name: str, since: Position) -> set[str]:
    events = upstream.query(f"SHOW BINLOG EVENTS IN '{since.file}' FROM {since.offset}")
    found = (re.fullmatch(rf"table_id: (\d+) \({name}\.\w+\).*", str(row[5])) for row in events)
    return {match[1] for match in found if match is not None}


def _here(upstream: ThrowawayServer) -> Position:
    status = "SHOW BINARY LOG STATUS" if upstream.flavor == "mysql" else "SHOW MASTER STATUS"
    file, offset, *_ = upstream.query(status)[0]
    return Position("", str(file), int(str(offset)))


@pytest.mark.ci_flavor("mariadb")
def test_a_table_with_another_id_is_not_learned_again(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, learning, since = schema(upstream, target), Learning(monkeypatch), _here(upstream)
    _follow(upstream, target, name)
    assert len(_ids(upstream, name, since)) == TABLES * TIMES, "the source gave no other ids"
    assert sorted(learning.names) == [f"t{number}" for number in range(TABLES)]


@pytest.mark.ci_flavor("mysql")
def test_what_is_kept_is_bounded_by_its_bytes(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned_tables, "_TABLES_BYTES", 20_000)  # of two tables
    name, learning = schema(upstream, target), Learning(monkeypatch)
    _follow(upstream, target, name)
    assert max(learning.known) == 2
    assert len(learning.names) == TABLES * TIMES
