"""Rows that need a longer statement than the target takes: the task pauses at them, and goes on with a larger limit."""

from __future__ import annotations

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

LIMIT = 1 << 20
ROWS = {
    "bytes are two digits each": (
        "id INT PRIMARY KEY, b LONGBLOB",
        ("INSERT INTO {t} VALUES (1, REPEAT(x'ff', 600000))",),
    ),
    "quotes are escaped": ("id INT PRIMARY KEY, b LONGTEXT", ("INSERT INTO {t} VALUES (1, REPEAT('''', 600000))",)),
    "a row without a key is written and looked for": (
        "id INT, b LONGTEXT",
        ("INSERT INTO {t} VALUES (1, REPEAT('x', 600000))", "UPDATE {t} SET b = REPEAT('y', 600000)"),
    ),
}


@pytest.fixture
def small(flavor: Flavor, server: ServerFactory) -> ThrowawayServer:
    return server(flavor, max_allowed_packet=LIMIT)


@pytest.mark.parametrize("why", ROWS)
def test_the_task_pauses_at_a_row_that_is_too_long(
    why: str, upstream: ThrowawayServer, small: ThrowawayServer, schema: SchemaFactory
) -> None:
    columns, (*before, last) = ROWS[why]
    name = schema(upstream, small)
    for server in (upstream, small):
        server.execute(f"CREATE TABLE {name}.t ({columns})")
    subtask = subtask_for(upstream, small, name, task=name, row_format="sql")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(*(statement.format(t=f"{name}.t") for statement in before))
        sync.wait_synced()
    end = upstream.query("SHOW MASTER STATUS" if upstream.flavor == "mariadb" else "SHOW BINARY LOG STATUS")[0]
    upstream.execute(last.format(t=f"{name}.t"))
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.code, error.retryable) == (36928, False)
    assert error.place is not None
    assert (error.place["file"], error.place["offset"]) == (end[0], end[1])
    assert f"`{name}`.`t`" in error.message
    assert str(LIMIT) in error.cause
    small.execute(f"SET GLOBAL max_allowed_packet = {8 * LIMIT}")
    with running_sync(subtask) as sync:
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), small, structures=False)
    assert report.identical, str(report)


@pytest.mark.parametrize("why", ["bytes are two digits each", "quotes are escaped"])
def test_as_an_event_a_row_is_no_longer_than_in_the_binlog(
    why: str, upstream: ThrowawayServer, small: ThrowawayServer, schema: SchemaFactory
) -> None:
    columns, (row,) = ROWS[why]
    name = schema(upstream, small)
    for server in (upstream, small):
        server.execute(f"CREATE TABLE {name}.t ({columns})")
    with running_sync(subtask_for(upstream, small, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(row.format(t=f"{name}.t"))
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), small, structures=False)
    assert report.identical, str(report)


def test_rows_are_not_too_long_because_they_share_a_statement(
    upstream: ThrowawayServer, small: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, small)
    for server in (upstream, small):
        # A DELETE of several rows names the values of the first key twice.
        server.execute(f"CREATE TABLE {name}.t (k VARBINARY(2000) PRIMARY KEY, u INT UNIQUE)")
    rows = ", ".join(f"(CONCAT({number}, REPEAT(x'ff', 1900)), {number})" for number in range(1000, 1250))
    with running_sync(subtask_for(upstream, small, name, task=name, workers=1, batch=1000)) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t VALUES {rows}")
        sync.wait_synced()
        assert small.query(f"SELECT COUNT(*) FROM {name}.t") == ((250,),)
        upstream.execute(f"DELETE FROM {name}.t")
        sync.wait_synced()
    assert small.query(f"SELECT COUNT(*) FROM {name}.t") == ((0,),)
