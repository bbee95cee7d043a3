"""A server is followed after a GTID set only where nothing without a GTID can be passed over."""

from __future__ import annotations

from contextlib import closing

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.header import EventType
from dm.position import Position
from dm.sourcelog.upstream.connection import connect, identity_for
from dm.sourcelog.upstream.facts import binlog_end, read_facts
from dm.sourcelog.upstream.locate import resume_after
from dm.sourcelog.upstream.remote_source import RemoteEventSource
from tests.live.relay.relaying import endpoint_of, flush_logs, read_to
from tests.testbed.fixtures import ServerFactory
from tests.testbed.purge import purge_binlogs

pytestmark = pytest.mark.live


def continued(server: ThrowawayServer, gtid_set: str) -> str:
    endpoint = endpoint_of(server)
    with closing(connect(endpoint)) as connection:
        facts = read_facts(connection)
    return resume_after(facts, endpoint, identity_for("t", "s"), GtidSet.parse(gtid_set, server.flavor)).file


def test_transactions_without_gtids_after_a_set_are_found(server: ServerFactory) -> None:
    source = server("mysql")
    source.execute("CREATE DATABASE x", "CREATE TABLE x.t (id INT PRIMARY KEY)", "INSERT INTO x.t VALUES (1)")
    [[uuid]] = source.query("SELECT @@server_uuid")
    assert continued(source, f"{uuid}:1-2") == "binlog.000001"
    flush_logs(source)
    flush_logs(source)
    assert continued(source, f"{uuid}:1-3") == "binlog.000001", "the last file that shows what precedes the rest"
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):  # each begins a file
        source.execute(f"SET GLOBAL gtid_mode = {mode}")
    source.execute("INSERT INTO x.t VALUES (2)")
    for mode in ("ON_PERMISSIVE", "ON"):
        source.execute(f"SET GLOBAL gtid_mode = {mode}")
    with pytest.raises(DMError, match="it has transactions without GTIDs") as raised:
        continued(source, f"{uuid}:1-3")
    assert raised.value.name == "gtids-tell-nothing"
    source.execute("INSERT INTO x.t VALUES (3)", "INSERT INTO x.t VALUES (4)")
    with pytest.raises(DMError, match="it has transactions without GTIDs"):
        continued(source, f"{uuid}:1-3")
    assert continued(source, f"{uuid}:1-4") == source.query("SHOW BINARY LOGS")[-1][0]
    flush_logs(source)
    purge_binlogs(source)
    with pytest.raises(DMError, match="its binlog begins with") as raised:
        continued(source, f"{uuid}:1-5")
    assert raised.value.name == "gtids-tell-nothing"


def rows_sent(server: ThrowawayServer) -> int:
    """How many events of written rows the server's first file has, as it sends them."""
    [(file, *_), *_] = server.query("SHOW BINARY LOGS")
    with closing(connect(endpoint_of(server))) as connection:
        end = binlog_end(connection)
    source = RemoteEventSource(endpoint_of(server), identity_for("t", "s"), heartbeat_seconds=5)
    events = read_to(source, Position(end.server_uuid, file, 4), (end.file, end.offset))
    return sum(event[3] == EventType.WRITE_ROWS for event in events)


def test_a_server_that_does_not_send_transactions_without_gtids_says_so_and_sends_them_where_it_may(
    server: ServerFactory,
) -> None:
    source = server("mysql")
    source.execute("CREATE DATABASE x", "CREATE TABLE x.t (id INT PRIMARY KEY)", "INSERT INTO x.t VALUES (1)")
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):
        source.execute(f"SET GLOBAL gtid_mode = {mode}")
    source.execute("INSERT INTO x.t VALUES (2)")
    for mode in ("ON_PERMISSIVE", "ON"):
        source.execute(f"SET GLOBAL gtid_mode = {mode}")
    source.execute("INSERT INTO x.t VALUES (3)")
    with pytest.raises(DMError) as raised:
        rows_sent(source)
    assert raised.value.name == "anonymous-not-sent"
    assert "ON_PERMISSIVE" in raised.value.workaround
    source.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE")
    assert rows_sent(source) == 3


def test_a_server_that_does_not_send_transactions_with_gtids_says_so_and_sends_them_where_it_may(
    server: ServerFactory,
) -> None:
    source = server("mysql")
    source.execute("CREATE DATABASE x", "CREATE TABLE x.t (id INT PRIMARY KEY)", "INSERT INTO x.t VALUES (1)")
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"):
        source.execute(f"SET GLOBAL gtid_mode = {mode}")
    source.execute("INSERT INTO x.t VALUES (2)")
    with pytest.raises(DMError) as raised:
        rows_sent(source)
    assert raised.value.name == "gtids-not-sent", "nothing is purged"
    assert "OFF_PERMISSIVE" in raised.value.workaround
    source.execute("SET GLOBAL gtid_mode = OFF_PERMISSIVE")
    assert rows_sent(source) == 2
