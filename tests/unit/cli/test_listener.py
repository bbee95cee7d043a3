"""Who may be at the other end of `dmctl --addr`; the kernel's tables are written by the test."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path

import pytest

from dm.cli import listener
from dm.cli.listener import demand_trusted_listener
from dm.errors import DMError

STRANGER = 65533
US = os.geteuid()


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening, closing(socket.socket()) as one:
        one.connect(listening.getsockname())
        yield one


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(listener, "_TABLES", (tmp_path / "tcp", tmp_path / "tcp6"))
    (tmp_path / "tcp").write_text("  sl  local_address rem_address   st\n")
    return tmp_path


def place(address: str, port: int) -> str:
    """As proc(5) has it: words in the byte order of the machine."""
    raw = ip_address(address).packed
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(raw) // 4}I", raw)) + f":{port:04X}"


def row(table: Path, local: tuple[str, int], remote: tuple[str, int], state: str, uid: int, inode: int = 7) -> None:
    head = "  sl  local_address rem_address   st\n"
    text = table.read_text() if table.exists() else head
    table.write_text(f"{text}   0: {place(*local)} {place(*remote)} {state} 0:0 00:0 0 {uid} 0 {inode} 1 0\n")


def listens(table: Path, address: str, port: int, uid: int) -> None:
    nobody = ("::" if ":" in address else "0.0.0.0", 0)
    row(table, (address, port), nobody, "0A", uid)


def test_the_kernel_says_that_a_listener_of_this_user_may_be_told(connection: socket.socket) -> None:
    demand_trusted_listener(connection, {})


@pytest.mark.parametrize("uid", [US, 0])
def test_this_user_and_root_may_be_told(connection: socket.socket, tables: Path, uid: int) -> None:
    port = connection.getpeername()[1]
    listens(tables / "tcp", "127.0.0.1", port, uid)
    listens(tables / "tcp", "127.0.0.1", 1, STRANGER)
    demand_trusted_listener(connection, {})


@pytest.mark.parametrize(
    ("file", "address"),
    [("tcp", "127.0.0.1"), ("tcp", "0.0.0.0"), ("tcp6", "::"), ("tcp6", "::ffff:127.0.0.1")],
)
def test_a_stranger_may_not(connection: socket.socket, tables: Path, file: str, address: str) -> None:
    listens(tables / file, address, connection.getpeername()[1], STRANGER)
    with pytest.raises(DMError, match=f"the user with the number {STRANGER} listens at.*nothing was sent"):
        demand_trusted_listener(connection, {})


def test_a_stranger_who_took_the_connection_and_listens_no_more_may_not(
    connection: socket.socket, tables: Path
) -> None:
    ours, theirs = connection.getsockname(), connection.getpeername()
    with pytest.raises(DMError, match=r"nobody any more listens at"):
        demand_trusted_listener(connection, {})
    listens(tables / "tcp", "127.0.0.1", theirs[1], US)
    row(tables / "tcp", theirs, ours, "01", STRANGER, inode=0)  # waits to be accepted: it has no owner yet
    demand_trusted_listener(connection, {})
    row(tables / "tcp", theirs, ours, "01", STRANGER)
    with pytest.raises(DMError, match=r"nothing was sent"):
        demand_trusted_listener(connection, {})


def test_another_listener_of_a_stranger_keeps_nobody_away(connection: socket.socket, tables: Path) -> None:
    port = connection.getpeername()[1]
    listens(tables / "tcp6", "::", port, STRANGER)
    listens(tables / "tcp6", "::1", port, STRANGER)
    listens(tables / "tcp", "127.0.0.2", port, STRANGER)
    listens(tables / "tcp", "0.0.0.0", port, US)
    demand_trusted_listener(connection, {})
    listens(tables / "tcp", "0.0.0.0", port, STRANGER)
    listens(tables / "tcp", "127.0.0.1", port, US)
    demand_trusted_listener(connection, {})


def test_the_user_who_is_named_may_be_told(connection: socket.socket, tables: Path) -> None:
    other = next(user for user in pwd.getpwall() if user.pw_uid not in (0, US))
    listens(tables / "tcp", "127.0.0.1", connection.getpeername()[1], other.pw_uid)
    with pytest.raises(DMError, match=f"user {other.pw_name}") as refused:
        demand_trusted_listener(connection, {})
    assert "DM_ADDR_USER" in refused.value.report()["Workaround"]
    demand_trusted_listener(connection, {"DM_ADDR_USER": other.pw_name})
    with pytest.raises(DMError, match=r"no user of this machine"):
        demand_trusted_listener(connection, {"DM_ADDR_USER": "nobody-of-this-name"})


class Elsewhere(socket.socket):
    def getsockname(self) -> tuple[str, int]:
        return ("192.0.2.1", 40000)

    def getpeername(self) -> tuple[str, int]:
        return ("192.0.2.2", 8261)


def test_another_machine_is_refused() -> None:
    with Elsewhere() as one, pytest.raises(DMError, match=r"192\.0\.2\.2:8261 is another machine"):
        demand_trusted_listener(one, {})
