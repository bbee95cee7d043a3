"""Whoever answers at the target's address may lie in every packet: one error comes of it, and its size is bounded.

The lies are told by a proxy in front of a real server, in each of the answers that a session of the target reads. What
the source's sessions make of them is in `tests/live/upstream/test_hostile_server.py`.
"""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Callable, Iterable, Iterator

import pytest

from dm.changes.computing import SourceSettings
from dm.config.endpoint import Endpoint
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream import connection, session_lock, source_session_settings, target_schema
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.checkpoint import read_position_of
from dm.progress.made_tables import own_deferrals
from dm.progress.shards.group import ShardTables, create_shard_tables
from dm.progress.shards.members import expect_sources
from dm.progress.tables import SubtaskKey, create_tables, existing_tables
from dm.session import login
from dm.syncer.apply.target_sessions import Variables, take_row_events
from dm.task.forgotten import stored_tasks
from tests.testbed.hostile import HostileProxy, Packet
from tests.testbed.sync import endpoint_of

pytestmark = pytest.mark.live

MIB = 1 << 20
OK = b"\x00\x00\x00\x02\x00\x00\x00"
ROW_OF_ONE = b"\x01\x31"
COLUMN = b"\x03def" + b"\0" * 5 + b"\x0c\x2d\x00\x00\x04\x00\x00\xfd\x00\x00\x00\x00\x00"
DECIMAL = COLUMN[:-6] + b"\xf6" + COLUMN[-5:]
EOF_PACKET = b"\xfe\x00\x00\x02\x00"

Lie = Callable[[], Iterable[bytes]]

LIES: dict[str, Lie] = {
    "a request for a file": lambda: (b"\xfb/etc/hostname",),
    "2^62 columns": lambda: itertools.chain((b"\xfe" + struct.pack("<Q", 1 << 62),), itertools.repeat(COLUMN)),
    "rows without end": lambda: itertools.chain((b"\x01", COLUMN, EOF_PACKET), itertools.repeat(row(MIB))),
    "an empty packet": lambda: (b"",),
    "no column at all": lambda: (b"\x00",),
    "columns of nothing": lambda: (b"\x02", b"", b""),
    "a column cut short": lambda: (b"\x01", COLUMN[:9]),
    "a row of nonsense": lambda: (b"\x01", COLUMN, EOF_PACKET, b"\xfd\xff\xff\xff"),
    "a number that is none": lambda: (b"\x01", DECIMAL, EOF_PACKET, b"\x03abc", EOF_PACKET),
    "bytes that are no text": lambda: (b"\x01", COLUMN, EOF_PACKET, b"\x02\xff\xfe", EOF_PACKET),
    "an error without words": lambda: (b"\xff\x00\x00",),
    "an error of a byte": lambda: (b"\xff",),
    "an error of 1 MiB": lambda: (b"\xff\x51\x04#HY000" + b"x" * MIB,),
    "an answer without a row": lambda: (b"\x01", COLUMN, EOF_PACKET, EOF_PACKET),
    "a row where there are none": lambda: (b"\x01", COLUMN, EOF_PACKET, ROW_OF_ONE, EOF_PACKET),
    "well, and nothing more": lambda: (OK,),
    "a packet of an authentication": lambda: (b"\xfemysql_clear_password\0",),
}
# What a server could say as well, where only its sense is wrong.
PLAUSIBLE = {"an answer without a row", "a row where there are none", "well, and nothing more"}
# After which the server has nothing more to say, and the client waits.
SILENT = {"no column at all", "a packet of an authentication"}
IN_CI = ("2^62 columns", "rows without end", "a number that is none", "an error of 1 MiB", "an answer without a row")


def through(server: ThrowawayServer, proxy: HostileProxy) -> Endpoint:
    return endpoint_of(server).model_copy(update={"port": proxy.port})


def row(size: int) -> bytes:
    return b"\xfd" + struct.pack("<I", size)[:3] + bytes(size)


def chosen() -> list[object]:
    return [lie if lie in IN_CI else pytest.param(lie, marks=pytest.mark.chaos) for lie in LIES]


def instead(statement: bytes, lie: str) -> Callable[[Packet], Iterable[bytes]]:
    """The lie for the answer to what begins with this statement, the truth for all others."""

    def rewrite(packet: Packet) -> Iterable[bytes]:
        if packet.command.startswith(b"\x03" + statement):
            return LIES[lie]() if packet.number == 0 else ()
        return (packet.payload,)

    return rewrite


def bounded(error: DMError, proxy: HostileProxy, lie: str) -> None:
    """What the lie has come to is said in few words, and by the error that is meant for it."""
    assert len(str(error)) < 10_000
    assert proxy.sent < 32 * MIB
    assert proxy.uploaded == b""
    if lie in SILENT:
        assert error.name == "connection-lost"
    elif not lie.startswith("an error"):
        assert error.name == "server-answer-garbled"


@pytest.fixture(autouse=True)
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "ANSWER_BYTES", 3 * MIB)  # the lies without end end sooner


@pytest.mark.parametrize("lie", chosen())
@pytest.mark.parametrize("statement", [b"SELECT VERSION()", b"SET SESSION"])
def test_a_lie_while_a_session_begins_is_an_error(mysql: ThrowawayServer, statement: bytes, lie: str) -> None:
    well = statement == b"SET SESSION" and lie in PLAUSIBLE  # of what gives no rows only the end is read
    with HostileProxy(mysql.host, mysql.port, instead(statement, lie)) as proxy:
        if well:
            TargetConnection(through(mysql, proxy), read_timeout=2).close()
            return
        with pytest.raises(DMError) as raised:
            TargetConnection(through(mysql, proxy), read_timeout=2).close()
        bounded(raised.value, proxy, lie)


@pytest.mark.parametrize("lie", chosen())
def test_a_lie_in_an_answer_is_an_error(mysql: ThrowawayServer, lie: str) -> None:
    with HostileProxy(mysql.host, mysql.port, instead(b"SELECT 7", lie)) as proxy:
        session = TargetConnection(through(mysql, proxy), read_timeout=2)
        try:
            if lie in PLAUSIBLE:
                found = session.query("SELECT 7")
                if lie != "a row where there are none":
                    with pytest.raises(DMError, match="does not answer as"):
                        found[0]
                return
            with pytest.raises(DMError) as raised:
                session.query("SELECT 7")
            bounded(raised.value, proxy, lie)
            # In the middle of an answer: what came next would have no meaning.
            assert not session.alive or lie.startswith("an error")
        finally:
            session.close()


@pytest.mark.parametrize("lie", chosen())
def test_a_lie_after_commit_leaves_its_outcome_open(mysql: ThrowawayServer, lie: str) -> None:
    with HostileProxy(mysql.host, mysql.port, instead(b"COMMIT", lie)) as proxy:
        session = TargetConnection(through(mysql, proxy), read_timeout=2)
        session.begin()
        if lie in PLAUSIBLE:
            session.commit()
            session.close()
            return
        with pytest.raises(DMError) as raised:
            session.commit()
        session.close()
        assert raised.value.name == "commit-outcome-unknown" or lie.startswith("an error")
        assert len(str(raised.value)) < 10_000
        assert proxy.sent < 32 * MIB


def test_a_port_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a session that may wait for its statements without end."""
    monkeypatch.setattr(connection, "LOGIN_TIMEOUT", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = Endpoint(host="127.0.0.1", port=silent.getsockname()[1])
        with pytest.raises(DMError) as raised:
            TargetConnection(at, read_timeout=None)
    assert raised.value.name == "connection-failed"


# -- Answers that a server could give, of a shape that the question does not have


def shaped(columns: int, value: bytes) -> list[bytes]:
    """One row in which each column has this text, or NULL."""
    cell = b"\xfb" if value == b"NULL" else bytes([len(value)]) + value
    return [bytes([columns]), *[COLUMN] * columns, EOF_PACKET, cell * columns, EOF_PACKET]


SHAPES = {
    "one column": shaped(1, b"x"),
    "a NULL": shaped(1, b"NULL"),
    "many columns": shaped(15, b"x"),
    "many NULLs": shaped(15, b"NULL"),
    "two columns": shaped(2, b"NULL"),
    "no rows": [b"\x01", COLUMN, EOF_PACKET, EOF_PACKET],
}
TABLE = TableName("lies", "t")
KEY = SubtaskKey("lies", "task", "source-1")
ZONED = SourceSettings("Europe/Berlin", ((0, 3600), (7, 7200)))
Reader = Callable[[TargetConnection], object]
READERS: dict[str, Reader] = {
    "row events": lambda by: take_row_events(by, Variables()),
    "settings": TargetConnection.settings,
    "zone of filters": source_session_settings.filter_zone,
    "zone of a task": lambda by: source_session_settings.local_time(by, "Europe/Berlin"),
    "settings of the source": lambda by: source_session_settings.applications_settings(by, ZONED, "Europe/Berlin"),
    "zone of the source": lambda by: source_session_settings.computing_at(
        by, ZONED, SubtaskConfig.model_construct(application_zone="", timezone="")
    ),
    "structure": lambda by: target_schema.read_schema(by, TABLE),
    "schema": lambda by: target_schema.schema_defaults(by, "lies"),
    "table": lambda by: target_schema.TargetSchemas(lambda: by, foreign_key_checks=True).get(TABLE),
    "foreign keys": target_schema.ForeignKeys,
    "lock": lambda by: session_lock.take(by, "lies"),
    "holders": lambda by: session_lock.holders(by, ["lies", "others"]),
    "sessions": lambda by: session_lock.runs_statement(by, 1),
    "place": lambda by: read_position_of(by, KEY),
    "deferrals": lambda by: own_deferrals(by, KEY),
    "sources": lambda by: expect_sources(by, KEY, ["source-1"]),
    "stored tasks": lambda by: stored_tasks(by, "lies"),
    "progress tables": lambda by: existing_tables(by, KEY),
}
TAKES_ANY = {"sources"}  # texts, of which it reads the first


@pytest.fixture(scope="module")
def with_tables(mysql: ThrowawayServer) -> Iterator[ThrowawayServer]:
    with TargetConnection(endpoint_of(mysql)) as session:
        create_tables(session, KEY)
        create_shard_tables(session, KEY)
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE.sql} (a INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES t (a))"
        )
        session.execute(f"INSERT IGNORE INTO {ShardTables.of(KEY).source.sql} (id) VALUES ('source-1')")
        session.commit()
        yield mysql
        session.execute("DROP DATABASE lies")


class Liar:
    """Gives the question with this number, counted from `arm`, an answer of another shape."""

    def __init__(self) -> None:
        self.lie: list[bytes] = []
        self.asked, self.at, self._ends = 0, -1, 0

    def arm(self, lie: list[bytes], at: int) -> None:
        """The number is at most so large that a question has it."""
        self.lie, self.asked, self.at = lie, 0, at

    def rewrite(self, packet: Packet) -> Iterable[bytes]:
        if packet.command[:6].upper() not in (b"\x03SELEC", b"\x03SHOW "):
            return (packet.payload,)
        if packet.number == 0:
            self.asked += 1
            self._ends = 0
        if self.asked - 1 != self.at:
            return (packet.payload,)
        self._ends += packet.payload[:1] == b"\xfe" and len(packet.payload) < 9
        # With the last packet of the true answer: then the client's next command comes after it.
        return self.lie if self._ends == 2 or packet.payload[:1] == b"\xff" else ()


@pytest.mark.parametrize("reader", READERS)
def test_an_answer_of_another_shape_is_read_or_refused_by_name(with_tables: ThrowawayServer, reader: str) -> None:
    """Each question's answer in turn; nothing but an error of ours comes of it."""
    refused: list[DMError] = []
    liar = Liar()
    with (
        HostileProxy(with_tables.host, with_tables.port, liar.rewrite) as proxy,
        TargetConnection(through(with_tables, proxy), read_timeout=2) as session,
    ):
        for at in itertools.count():
            for lie in SHAPES.values():
                liar.arm(lie, at)
                try:
                    READERS[reader](session)
                except DMError as error:
                    refused.append(error)
                asked, liar.at = liar.asked, -1
                session.rollback()
            if asked <= at:
                break
    garbled = [error for error in refused if error.name == "server-answer-garbled"]
    assert garbled or any(error.name == "checkpoint-damaged" for error in refused) or reader in TAKES_ANY
    assert all(" from the answer to S" in str(error) for error in garbled)
