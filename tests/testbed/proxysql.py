"""A stand-in for ProxySQL, which Debian does not have: its admin port, and a port for applications.

ProxySQL's admin interface is an SQLite database that speaks the MySQL protocol, and so is this one. A person changes
`mysql_servers`; `LOAD MYSQL SERVERS TO RUNTIME` copies it to `runtime_mysql_servers`, `SAVE MYSQL SERVERS TO DISK` to
`disk.mysql_servers` (ProxySQL's documentation, "Admin Commands" and "Multi-layer configuration system"). Applications
are led to the server that is ONLINE at runtime. Without one nobody listens, where ProxySQL lets them wait.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sqlite3
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from tests.testbed.proxy import FaultProxy

_HOST: Final = "127.0.0.1"
# Long passwords, protocol 4.1, secure login, plugins, transactions, a schema at login. No TLS.
_CAPABILITIES: Final = 0x0001 | 0x0200 | 0x8000 | 0x0008_0000 | 0x2000 | 0x0008
_UTF8: Final = 33
_AUTOCOMMIT: Final = b"\x02\x00"
_OK: Final = b"\x00\x00\x00" + _AUTOCOMMIT + b"\x00\x00"
_EOF: Final = b"\xfe\x00\x00" + _AUTOCOMMIT
_TABLE: Final = """
CREATE TABLE {} (hostgroup_id INT NOT NULL, hostname VARCHAR NOT NULL, port INT NOT NULL DEFAULT 3306,
    status VARCHAR CHECK (UPPER(status) IN ('ONLINE', 'SHUNNED', 'OFFLINE_SOFT', 'OFFLINE_HARD')) DEFAULT 'ONLINE',
    max_connections INT NOT NULL DEFAULT 1000, PRIMARY KEY (hostgroup_id, hostname, port))"""


class ProxySql:
    """One ProxySQL whose applications use one hostgroup; a context."""

    def __init__(self, user: str, password: str, hostgroup: int) -> None:
        self._user, self._password, self._hostgroup = user, password, hostgroup
        self._listener = socket.create_server((_HOST, 0))
        self.admin_port: int = self._listener.getsockname()[1]
        self.applications = FaultProxy(_HOST, 0)
        self._thread = threading.Thread(target=self._accept, name="proxysql-admin", daemon=True)
        self._lock = threading.Lock()
        self._tables = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._tables.execute("ATTACH ':memory:' AS disk")
        for table in ("mysql_servers", "runtime_mysql_servers", "disk.mysql_servers"):
            self._tables.execute(_TABLE.format(table))
        self.statements: list[str] = []

    def __enter__(self) -> Self:
        self.applications.start()  # for a port that stays
        self.applications.refuse()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.applications.close()
        self._tables.close()

    def query(self, statement: str) -> tuple[list[str], list[tuple[object, ...]]]:
        """Names and rows that the admin port answers with; raises sqlite3.Error."""
        words = " ".join(statement.upper().split())
        with self._lock:
            self.statements.append(words)
            if words in ("LOAD MYSQL SERVERS TO RUNTIME", "SAVE MYSQL SERVERS TO DISK"):
                table = "runtime_mysql_servers" if words.startswith("LOAD") else "disk.mysql_servers"
                self._tables.executescript(f"DELETE FROM {table}; INSERT INTO {table} SELECT * FROM mysql_servers")
                if words.startswith("LOAD"):
                    self._lead()
                return [], []
            if words.startswith(("SELECT @@", "SELECT $$", "SET ")):  # of clients when they log in
                return (["value"], [("ProxySQL Admin Module",)]) if words.startswith("SELECT") else ([], [])
            cursor = self._tables.execute(statement)
            return [name for name, *_ in cursor.description or ()], cursor.fetchall()

    def _lead(self) -> None:
        """As the runtime says: what is no longer ONLINE loses its connections."""
        found = self._tables.execute(
            "SELECT hostname, port FROM runtime_mysql_servers WHERE status = 'ONLINE' AND hostgroup_id = ?",
            (self._hostgroup,),
        ).fetchone()
        if found is None:
            self.applications.refuse()
            self.applications.cut()
            return
        self.applications.lead_to(*found)
        self.applications.heal()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            with client, suppress(OSError, EOFError):  # it hangs up
                client.settimeout(30)
                self._serve(_Session(client))

    def _serve(self, session: _Session) -> None:
        if not session.logs_in(self._user, self._password):
            session.send(_error(1045, "28000", "ProxySQL Error: Access denied for user"))
            return
        session.send(_OK)
        while (command := session.take())[0] != 1:  # COM_QUIT
            if command[0] != 3:  # COM_QUERY; else COM_INIT_DB, COM_PING
                session.send(_OK)
                continue
            try:
                names, rows = self.query(command[1:].decode())
            except sqlite3.Error as error:
                session.send(_error(1045, "28000", f"ProxySQL Admin Error: {error}"))
                continue
            session.answer(names, rows)


class _Session:
    """Packets to and from one client (MySQL's documentation, "Client/Server Protocol")."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._number = 0

    def logs_in(self, user: str, password: str) -> bool:
        salt = os.urandom(20).translate(bytes(each % 94 + 33 for each in range(256)))
        low, high = struct.pack("<H", _CAPABILITIES & 0xFFFF), struct.pack("<H", _CAPABILITIES >> 16)
        self.send(
            b"\x0a8.0.11\0" + struct.pack("<I", 1) + salt[:8] + b"\0" + low + bytes([_UTF8]) + _AUTOCOMMIT + high
            + b"\x15" + bytes(10) + salt[8:] + b"\0mysql_native_password\0"
        )  # fmt: skip
        name = self.take()[32:].partition(b"\0")[0]
        self.send(b"\xfemysql_native_password\0" + salt + b"\0")  # whichever method the client has begun with
        once = hashlib.sha1(password.encode()).digest()
        twice = hashlib.sha1(salt + hashlib.sha1(once).digest()).digest()
        return name.decode() == user and self.take() == bytes(a ^ b for a, b in zip(once, twice, strict=True))

    def answer(self, names: list[str], rows: list[tuple[object, ...]]) -> None:
        """A result set in text, or an OK."""
        if not names:
            self.send(_OK)
            return
        self.send(bytes([len(names)]))
        for name in names:
            texts = b"".join(map(_text, ("def", "", "", "", name, "")))
            self.send(texts + b"\x0c" + struct.pack("<HIBHB", _UTF8, 1024, 253, 0, 0) + b"\0\0")
        self.send(_EOF)
        for row in rows:
            self.send(b"".join(map(_text, row)))
        self.send(_EOF)

    def send(self, payload: bytes) -> None:
        self._client.sendall(struct.pack("<I", len(payload) | self._number << 24) + payload)
        self._number = (self._number + 1) & 0xFF

    def take(self) -> bytes:
        head = self._exactly(4)
        self._number = (head[3] + 1) & 0xFF
        return self._exactly(int.from_bytes(head[:3], "little"))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._client.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data


def _text(value: object) -> bytes:
    encoded = str(value).encode()
    assert len(encoded) < 251  # longer ones have another length
    return bytes([len(encoded)]) + encoded


def _error(number: int, state: str, message: str) -> bytes:
    return b"\xff" + struct.pack("<H", number) + b"#" + state.encode() + message.encode()
