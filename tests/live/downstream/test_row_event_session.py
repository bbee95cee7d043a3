"""What forbids row events is looked at in each session, and what they do to the session itself."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.statements import StatementResult
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.row_events import RowEvents, binlog_statement
from dm.mysql.binlog.table_map import OptionalMetadata, TableMap
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.syncer.apply.target_sessions import Variables, take_row_events
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live

FORBIDDING = {
    "mysql": ("SET SESSION rbr_exec_mode = 'IDEMPOTENT'", "SET SESSION rbr_exec_mode = 'STRICT'"),
    "mariadb": ("SET GLOBAL slave_exec_mode = 'IDEMPOTENT'", "SET GLOBAL slave_exec_mode = 'STRICT'"),
}


def test_each_session_is_asked(target: ThrowawayServer) -> None:
    variables = Variables()
    forbid, allow = FORBIDDING[target.flavor]
    name = forbid.split()[2]
    with ExitStack() as stack:
        first, second = (stack.enter_context(TargetConnection(endpoint_of(target))) for _ in range(2))
        assert take_row_events(first, variables) == ""
        second.execute(forbid)
        try:
            assert take_row_events(second, variables) == f"{name} is IDEMPOTENT at the target"
        finally:
            second.execute(allow)
        assert take_row_events(second, variables) == ""


def test_the_first_session_and_those_after_it_find_the_same(target: ThrowawayServer) -> None:
    variables = Variables()
    with TargetConnection(endpoint_of(target)) as connection:
        first = variables.of(connection)
        assert first
        assert variables.of(connection) == first


def event(events: RowEvents, *numbers: int) -> list[bytes]:
    """Rows of one INT."""
    return events.pieces("insert", [b"\0" + number.to_bytes(4, "little") for number in numbers], foreign_keys=False)


@pytest.mark.parametrize("several", [True, False])
def test_the_sessions_time_goes_on_after_row_events(
    target: ThrowawayServer, schema: SchemaFactory, several: bool
) -> None:
    name = schema(target)
    target.execute(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY)",
        f"CREATE TABLE {name}.o (id INT PRIMARY KEY, made DATETIME DEFAULT CURRENT_TIMESTAMP)",
    )
    content = b"\1\0" + bytes([len(name)]) + name.encode() + b"\0\1t\0" + b"\1\3\0\0"
    wire = (WireType(WireCode.LONG),)
    table_map = TableMap(name, "t", wire, (False,), OptionalMetadata(), target.flavor, content)
    events = RowEvents(table_map, TableName(name, "t"))
    with TargetConnection(endpoint_of(target), several=several) as connection:
        assert take_row_events(connection, Variables()) == ""
        begin, two = b"START TRANSACTION", binlog_statement([*event(events, 1), *event(events, 2)])
        outcomes: list[StatementResult] = []
        connection.run_all([begin, two, f"INSERT INTO {name}.o (id) VALUES (1), (2)".encode()], outcomes)
        assert [outcome.affected for outcome in outcomes] == [0, 0, 2]
        connection.commit()
        connection.execute(binlog_statement([*event(events, 3), *event(events, 4)]))
        connection.execute(f"INSERT INTO {name}.o (id) VALUES (3)")
        with pytest.raises(DMError):
            connection.run_all([begin, binlog_statement([*event(events, 5), *event(events, 5)])], [])
        connection.rollback()
        connection.run_all([begin, f"INSERT INTO {name}.o (id) VALUES (4)".encode(), b"COMMIT"], [])
        assert connection.query(f"SELECT COUNT(*) FROM {name}.t") == [(4,)]
    assert target.query(f"SELECT COUNT(*) FROM {name}.o WHERE made > NOW() - INTERVAL 1 DAY") == ((4,),)
