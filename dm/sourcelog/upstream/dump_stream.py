"""The stream of binlog events that a source sends to a replica.

mysql-replication knows the protocol, and its registration packet is used here. Its reader is not: it hides a lost
connection and restarts at the position it was first given, in the middle of a transaction or days ago, and it drops
events that it does not know. Here a lost connection is an error of this stream, and only the owner, which knows the
last complete transaction, opens the next one. Events leave as raw bytes, exactly as in the source's file.

Before it requests the dump, the session sets user variables that both servers read:
  heartbeat period    an idle source sends a heartbeat event, so silence longer than a few periods means it is gone
  checksum            the algorithm of the source's files, so that it sends the bytes unchanged
  replica uuid        MySQL ends the dump of our own predecessor, if its connection still hangs
  slave capability 4  MariaDB sends GTID events as they are instead of replacing them by dummies
Sources: MySQL `sql/rpl_binlog_sender.cc`, MariaDB `sql/sql_repl.cc`, MariaDB "COM_BINLOG_DUMP", "Replica Registration".
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any, cast

import pymysql
from pymysql.constants import COMMAND
from pymysqlreplication.binlogstream import ReportSlave

from dm.config.endpoint import Endpoint
from dm.errors import DMError, grant
from dm.gtid import GtidSet, binary_form
from dm.mysql.dialect import Flavor, dialect, flavor_of
from dm.session.login import LONGEST_WORDS, UNSOUND
from dm.sourcelog.upstream.connection import (
    PROMPT_SECONDS,
    Connection,
    ReplicaIdentity,
    connect,
    fetch,
    grantee,
    limited,
    server_error,
)
from dm.sourcelog.upstream.facts import binlog_files, purged_gtids, read_facts
from dm.sourcelog.upstream.packet_reader import PacketReader, StreamEndedError

DumpStart = tuple[str, int] | GtidSet

_THROUGH_GTID = 0x04  # MySQL: the set in the packet decides the start
_SEND_ANNOTATE = 0x02  # MariaDB: annotate-rows events are part of the file, so we want them
LARGEST_OFFSET = 0xFFFFFFFF  # COM_BINLOG_DUMP carries 32 bits

# A server's error for bytes that are no event: a length beyond any limit, or beyond the file's end.
_LAST_EVENT = re.compile(r"last event read from '[^']*' at (\d+)")
_NONSENSE = ("max_allowed_packet", "bogus data", "truncated", "corrupted")

HEARTBEAT_SECONDS = 3.0
# An honest server answers at once, whatever the heartbeat is, but it may have to search the place first.
FIRST_WORD_SECONDS = 10.0


def silence_limit(heartbeat_seconds: float) -> float:
    """How long a source may be silent before it counts as dead: one heartbeat may come late, two may not.

    A little less than two periods, so that a loss is noticed within two: the read's clock starts with the read.
    """
    return 1.9 * heartbeat_seconds


class DumpStream:
    """One dump connection; used by one thread, closed from any."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity: ReplicaIdentity,
        start: DumpStart,
        *,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        role: str = "upstream",
    ) -> None:
        self._endpoint = endpoint
        self._identity = identity
        self._start = start
        self._heartbeat = heartbeat_seconds
        self._role = role
        self._connection: Connection | None = None
        self._reader: PacketReader | None = None
        self._breaker: socket.socket | None = None
        self._lock = threading.Lock()
        self._closed = False

    def open(self) -> None:
        """Connect, register and request the dump."""
        connection = connect(self._endpoint, role=self._role, read_timeout=PROMPT_SECONDS)
        raw = cast(Any, connection)  # the stubs leave out what a replica needs: the socket and raw packets
        with self._lock:
            self._connection = connection
            # A second descriptor of the socket: shutting it down wakes a blocked read, TLS or not, and can't race
            # with it.
            self._breaker = socket.socket(fileno=os.dup(raw._sock.fileno()))
        flavor = flavor_of(raw.get_server_info())
        self._introduce(connection, flavor)
        self._register(raw)
        self._command(raw, self._dump_command(flavor))
        silence = silence_limit(self._heartbeat)
        self._reader = PacketReader(raw._sock, silence, first_timeout=max(silence, FIRST_WORD_SECONDS))
        if self._closed:
            self.close()

    def _introduce(self, connection: Connection, flavor: Flavor) -> None:
        period = int(self._heartbeat * 1_000_000_000)
        uuid = self._identity.uuid
        statements: list[tuple[str, tuple[object, ...]]] = [
            ("SET @master_heartbeat_period = %s, @source_heartbeat_period = %s", (period, period)),
            ("SET @master_binlog_checksum = @@global.binlog_checksum", ()),
            ("SET @source_binlog_checksum = @@global.binlog_checksum", ()),
            ("SET @slave_uuid = %s, @replica_uuid = %s", (uuid, uuid)),
        ]
        if dialect(flavor).asks_capability:
            statements.append(("SET @mariadb_slave_capability = 4", ()))
            if isinstance(self._start, GtidSet):
                statements.append(("SET @slave_connect_state = %s", (str(self._start),)))
                statements.append(("SET @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0", ()))
        for sql, args in statements:
            fetch(connection, sql, args, role=self._role)

    def _register(self, raw: Any) -> None:
        self._command(raw, ReportSlave("").encoded(self._identity.server_id))
        try:
            with limited(raw):
                answer = raw._read_packet()
            if not answer.is_ok_packet():
                raise DMError(
                    "server-answer-garbled", address=self._endpoint.address, what="no word on the registration"
                )
        except UNSOUND as error:
            host, port, user = self._endpoint.host, self._endpoint.port, self._endpoint.user
            meant = server_error(error, role=self._role, host=host, port=port, user=user, statement="register")
            if meant.name in ("access-denied", "privilege-missing"):
                statement = grant(("REPLICATION SLAVE", "REPLICATION CLIENT"), "*.*", grantee(raw).account)
                where = f"{host}:{port}"
                raise DMError(
                    "replication-denied", user=user, address=where, grant=statement, cause=meant.cause
                ) from error
            raise meant from error

    def _command(self, raw: Any, packet: bytes) -> None:
        try:
            raw._write_bytes(packet)
        except (pymysql.err.Error, OSError) as error:
            raise self._lost(error) from error
        raw._next_seq_id = 1

    def _dump_command(self, flavor: Flavor) -> bytes:
        server_id = self._identity.server_id
        if isinstance(self._start, GtidSet) and not dialect(flavor).gtids_have_domains:
            data = binary_form(self._start)
            body = (
                struct.pack("<BHIIQI", COMMAND.COM_BINLOG_DUMP_GTID, _THROUGH_GTID, server_id, 0, 4, len(data)) + data
            )
        else:
            file, offset = ("", 4) if isinstance(self._start, GtidSet) else self._start
            flags = _SEND_ANNOTATE if dialect(flavor).asks_capability else 0
            # The protocol has no room for a larger offset: the file is read from its start, and the owner skips.
            asked = offset if offset <= LARGEST_OFFSET else 4
            body = struct.pack("<BIHI", COMMAND.COM_BINLOG_DUMP, asked, flags, server_id) + file.encode()
        return struct.pack("<I", len(body)) + body  # 3 bytes length, packet number 0

    @property
    def packets(self) -> PacketReader:
        """What arrived and is not cut yet."""
        if self._reader is None:
            raise DMError("internal-error", what="a dump stream was read before it was opened")
        return self._reader

    def receive(self) -> bool:
        """Wait until `packets` has something; False when the stream was closed. Raises DMError."""
        reader = self.packets
        if reader.verdict is not None:
            raise self._refusal(reader.verdict)
        try:
            reader.fill()
        except StreamEndedError as error:
            if self._closed:
                return False
            raise self._lost(error) from error
        return True

    def batches(self) -> Iterator[list[bytes]]:
        """Events in pieces as they arrive; an empty piece when no more has arrived yet."""
        reader = self.packets
        while True:
            if reader.verdict is None and not reader.ready():
                yield []
            if not self.receive():
                return
            events = list(reader.events())
            if events:
                yield events

    def close(self) -> None:
        """End the dump; a read in another thread ends at once. Safe to call twice and from any thread."""
        with self._lock:
            self._closed = True
            if self._breaker is not None:
                with contextlib.suppress(OSError):  # the peer closed first
                    self._breaker.shutdown(socket.SHUT_RDWR)
                self._breaker.close()
                self._breaker = None

    def __enter__(self) -> DumpStream:
        try:
            self.open()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self.close()
        if self._connection is not None:
            cast(Any, self._connection)._force_close()

    @property
    def wanted(self) -> str:
        """Where the dump was requested to start, for people."""
        if isinstance(self._start, GtidSet):
            return f"GTID set {str(self._start)!r}"
        return f"({self._start[0]}, {self._start[1]})"

    def _lost(self, error: BaseException) -> DMError:
        return DMError(
            "connection-lost",
            role=self._role,
            address=f"{self._endpoint.host}:{self._endpoint.port}",
            cause=str(error),
        )

    def _refusal(self, verdict: bytes) -> DMError:
        if verdict[:1] != b"\xff" or len(verdict) < 3:
            return self._lost(StreamEndedError("the server ended the dump"))
        number = struct.unpack_from("<H", verdict, 1)[0]
        words = verdict[9 if verdict[3:4] == b"#" else 3 :].decode("utf-8", "replace")[:LONGEST_WORDS]
        lowered = words.lower()
        if "same server_uuid" in lowered or "same server_id" in lowered:  # MySQL sends 1236, MariaDB 4052
            return DMError("replica-id-taken", server_id=self._identity.server_id, cause=words)
        if number != 1236:  # ER_SOURCE_FATAL_ERROR_READING_BINLOG
            known = server_error(
                OSError(number, words),
                role=self._role,
                host=self._endpoint.host,
                port=self._endpoint.port,
                user=self._endpoint.user,
            )
            if known.name != "connection-lost" or number in {1053, 1317, 1927}:
                return known
            return DMError("dump-refused", wanted=self.wanted, number=number, cause=words)
        if "more gtids than" in lowered or "not in the master's binlog" in lowered or "diverge" in lowered:
            return DMError("source-gtid-diverged", missing=self.wanted, ours=self._start, cause=words)
        if "impossible position" in lowered or "> file size" in lowered:
            return DMError("source-reset", what=f"it ends before {self.wanted}", cause=words)
        if self._begins_inside(lowered):
            return DMError("source-reset", what=f"no event begins at {self.wanted}", cause=words)
        if "cannot replicate anonymous" in lowered:
            return DMError("anonymous-not-sent", wanted=self.wanted, cause=words)
        if "cannot replicate gtid-transaction" in lowered:
            return DMError("gtids-not-sent", wanted=self.wanted, cause=words)
        if any(text in lowered for text in ("could not find", "purged", "cannot replicate")):
            return self._purged(words)
        return DMError("dump-refused", wanted=self.wanted, number=number, cause=words)

    def _begins_inside(self, words: str) -> bool:
        """Whether the requested place is invalid for the server: its file has other bytes there than before.

        The refusal names the last event that was read: one before that place, or the invalid bytes there.
        """
        if isinstance(self._start, GtidSet) or not any(sign in words for sign in _NONSENSE):
            return False
        last = _LAST_EVENT.search(words)
        return last is not None and int(last[1]) <= self._start[1]

    def _purged(self, words: str) -> DMError:
        available, missing = "an unknown range", "unknown"
        try:
            connection = connect(self._endpoint, role=self._role, read_timeout=PROMPT_SECONDS)
        except DMError as error:
            words = f"{words} (asking what it has failed: {error.message})"
        else:
            try:
                files = binlog_files(connection)
                available = f"{files[0][0]} to {files[-1][0]} of {files[-1][1]} bytes" if files else "no binlog"
                if isinstance(self._start, GtidSet):
                    missing = str(purged_gtids(connection, read_facts(connection)) - self._start) or "unknown"
                else:
                    missing = f"from {self.wanted} to {files[0][0]}" if files else self.wanted
            finally:
                connection.close()
        details = {"wanted": self.wanted, "available": available, "missing": missing, "ours": self._start}
        return DMError("source-binlog-purged", cause=words, **details)
