"""What a server says of itself, and how its refusals read."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import closing

import pytest
from pydantic import SecretStr

from dm.config.endpoint import Endpoint
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.sourcelog.upstream.connection import connect, fetch, identity_for
from dm.sourcelog.upstream.dump_stream import DumpStream
from dm.sourcelog.upstream.facts import binlog_end, list_tables, read_facts, read_structure
from dm.sourcelog.upstream.locate import locate
from tests.live.relay.relaying import HEARTBEAT, binlogs, end_of, endpoint_of
from tests.testbed.fixtures import SchemaFactory, ServerFactory

pytestmark = pytest.mark.live
CANARY = "canary-5f2c"


def test_facts_of_a_server(upstream: ThrowawayServer, flavor: Flavor) -> None:
    connection = connect(endpoint_of(upstream))
    facts = read_facts(connection)
    assert facts.flavor == flavor
    assert facts.version == (90700 if flavor == "mysql" else 101100) + facts.version % 100
    assert facts.server_id == upstream.server_id
    assert facts.log_bin
    assert facts.binlog_format == "ROW"
    assert facts.server_uuid == (
        upstream.query("SELECT @@server_uuid")[0][0] if flavor == "mysql" else f"0-{upstream.server_id}"
    )
    assert fetch(connection, "SELECT @@time_zone, @@character_set_connection") == (("+00:00", "utf8mb4"),)
    connection.close()


def test_what_a_timestamp_is_by_default_is_a_fact(upstream: ThrowawayServer) -> None:
    ((before,),) = upstream.query("SELECT @@GLOBAL.explicit_defaults_for_timestamp")
    for explicit in (False, True):
        upstream.execute(f"SET GLOBAL explicit_defaults_for_timestamp = {int(explicit)}")
        with closing(connect(endpoint_of(upstream))) as connection:
            assert read_facts(connection).explicit_timestamps is explicit
    upstream.execute(f"SET GLOBAL explicit_defaults_for_timestamp = {before}")


def test_the_end_has_the_gtid_set_of_its_offset(server: ServerFactory, flavor: Flavor) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT)", "INSERT INTO x.a VALUES (1)")
    connection = connect(endpoint_of(source))
    end = binlog_end(connection)
    assert (end.file, end.offset) == end_of(source)
    variable = "gtid_binlog_pos" if flavor == "mariadb" else "gtid_executed"
    assert end.gtid_set == GtidSet.parse(str(source.query(f"SELECT @@global.{variable}")[0][0]), flavor)
    source.execute("FLUSH BINARY LOGS", "INSERT INTO x.a VALUES (2)")
    found = locate(read_facts(connection), endpoint_of(source), identity_for("t", "s"), end.gtid_set)
    assert found.file in {name for name, _ in binlogs(source)}
    connection.close()


def test_tables_and_structures(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream)
    upstream.execute(f"CREATE TABLE {name}.`odd ``name` (id INT PRIMARY KEY)", f"CREATE VIEW {name}.v AS SELECT 1")
    connection = connect(endpoint_of(upstream))
    tables = [table for table in list_tables(connection) if table.schema == name]
    assert tables == [TableName(name, "odd `name")]
    assert read_structure(connection, tables[0]).startswith("CREATE TABLE `odd ``name`")
    connection.close()


def test_a_wrong_password_is_refused_and_never_shown(upstream: ThrowawayServer) -> None:
    endpoint = Endpoint(host=upstream.host, port=upstream.port, user="nobody", password=SecretStr(CANARY))
    with pytest.raises(DMError) as raised:
        connect(endpoint)
    assert raised.value.name == "access-denied"
    assert not raised.value.retryable
    assert "nobody" in raised.value.message
    assert CANARY not in str(raised.value) + repr(endpoint)


def test_a_server_that_is_not_there_is_worth_another_try() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(DMError) as raised:
        connect(Endpoint(host="127.0.0.1", port=port))
    assert raised.value.name == "connection-failed"
    assert raised.value.retryable


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack("<I", 2) + b"\x09x"])
def test_something_that_is_no_mysql_server_is_one_clear_error(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            client.sendall(greeting)
            client.close()

        server = threading.Thread(target=answer)
        server.start()
        with pytest.raises(DMError):
            connect(Endpoint(host="127.0.0.1", port=listener.getsockname()[1]))
        server.join()


def test_a_missing_privilege_is_named(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream)
    upstream.create_user(name, CANARY, f"SELECT ON {name}.*")
    endpoint = Endpoint(host=upstream.host, port=upstream.port, user=name, password=SecretStr(CANARY))
    stream = DumpStream(endpoint, identity_for("t", "s"), (binlogs(upstream)[0][0], 4), heartbeat_seconds=HEARTBEAT)
    with pytest.raises(DMError) as raised, stream:
        list(stream.batches())
    assert raised.value.name == "replication-denied"
    needed = f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{name}'@'%'"
    assert f"`{needed}`" in raised.value.workaround
    assert CANARY not in str(raised.value)
