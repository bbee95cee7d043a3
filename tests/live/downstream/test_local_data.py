"""LOAD DATA LOCAL gives a server the bytes that are meant for it, and never a file."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from pydantic import SecretStr

from dm.config.endpoint import Endpoint
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.hostile import HostileProxy, Packet

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

REQUEST = b"\xfb/etc/hostname"


def endpoint(server: ThrowawayServer, port: int) -> Endpoint:
    return Endpoint(host=server.host, port=port, user=server.user, password=SecretStr(server.password))


@pytest.mark.parametrize("statement", [b"SELECT VERSION()", b"SET SESSION", b"SELECT 7"])
def test_a_server_that_asks_for_a_file_gets_nothing(mysql: ThrowawayServer, statement: bytes) -> None:
    def lie(packet: Packet) -> Iterable[bytes]:
        return (REQUEST,) if packet.answers(statement) and packet.number == 0 else (packet.payload,)

    with HostileProxy(mysql.host, mysql.port, lie) as proxy:
        with pytest.raises(DMError) as raised:
            TargetConnection(endpoint(mysql, proxy.port), read_timeout=5, local_data=True).query("SELECT 7")
        assert raised.value.name == "server-answer-garbled"
        assert proxy.uploaded == b""


def test_whatever_file_is_named_the_bytes_of_the_statement_are_sent(mysql: ThrowawayServer) -> None:
    def lie(packet: Packet) -> Iterable[bytes]:
        return (REQUEST,) if packet.answers(b"LOAD DATA") and packet.number == 0 else (packet.payload,)

    with HostileProxy(mysql.host, mysql.port, lie) as proxy:
        connection = TargetConnection(endpoint(mysql, proxy.port), read_timeout=1, local_data=True)
        with pytest.raises(DMError) as raised:
            connection.send_data(b"LOAD DATA LOCAL INFILE 'part' INTO TABLE mysql.t", [b"1\n", b"2\n"])
        assert raised.value.name == "connection-lost"
        assert proxy.uploaded == b"1\n2\n"


def test_all_counts_are_the_servers(mysql: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mysql)
    mysql.execute(
        f"CREATE TABLE `{name}`.t (id INT PRIMARY KEY, v INT)", f"INSERT INTO `{name}`.t VALUES (1, 1), (2, 2)"
    )
    mysql.execute("SET GLOBAL local_infile = ON")
    try:
        with TargetConnection(endpoint(mysql, mysql.port), local_data=True) as connection:
            ignored = connection.send_data(
                f"LOAD DATA LOCAL INFILE 'p' INTO TABLE `{name}`.t".encode(), [b"1\t7\n5\tx\n"]
            )
            replaced = connection.send_data(
                f"LOAD DATA LOCAL INFILE 'p' REPLACE INTO TABLE `{name}`.t".encode(), [b"1\t7\n", b"2\t2\n3\t3\n"]
            )
            found = connection.query(f"SELECT id, v FROM `{name}`.t ORDER BY id")
        assert (ignored.records, ignored.skipped, ignored.warnings) == (2, 1, 2)
        assert (replaced.records, replaced.deleted, replaced.skipped, replaced.warnings) == (3, 1, 0, 0)
        assert found == [(1, 7), (2, 2), (3, 3), (5, 0)]
    finally:
        mysql.execute("SET GLOBAL local_infile = OFF")
