"""Who listens at a local port: asked before anything is sent there.

Every user of a machine can listen on a port that is free, so also on the one where a daemon listened a moment ago. What
`dmctl --addr` sends there are the token, and files that may hold passwords. So it sends them only where the listener is
of a user that can have them anyway: this one, root, or the one that DM_ADDR_USER names.

The kernel says it: proc(5), /proc/net/tcp and tcp6, whose column `uid` is the owner of a socket. It is asked when the
connection is there, of the listener and of the socket at the other end; a connection that nobody has accepted yet has
no owner of its own (inode 0). Of several listeners at a port the kernel takes the one at the address itself, then one
at all addresses, of the connection's own family first: no stranger can keep a daemon's clients away by another one.

A daemon without TLS listens on loopback addresses alone, and a tunnel to another machine begins at one. So there is
nothing to ask of other addresses: they are refused. One with TLS shows a certificate instead (dm/worker/exchange.py).
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from dm.errors import DMError

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN: Final = "0A"  # TCP_LISTEN

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class _SocketRow(NamedTuple):
    """One socket."""

    local: tuple[Address, int]
    remote: tuple[Address, int]
    listens: bool
    uid: int
    accepted: bool


def demand_trusted_listener(connection: socket.socket, environment: Mapping[str, str]) -> None:
    """Raise DMError unless the other end is this machine's, and of a user who may have what is sent."""
    here, there = _end(connection.getsockname()), _end(connection.getpeername())
    address = "{}:{}".format(*connection.getpeername()[:2])
    if not there[0].is_loopback:
        raise DMError("address-not-local", address=address)
    rows = [row for table in _TABLES for row in _rows(table)]
    listeners = _listeners([row for row in rows if row.listens and row.local[1] == there[1]], there[0])
    other_end = {row.uid for row in rows if row.accepted and (row.local, row.remote) == (there, here)}
    strangers = (listeners | other_end) - _trusted(environment)
    if strangers or not listeners:
        who = " and ".join(map(_name, sorted(strangers))) or "nobody any more"
        raise DMError("listener-not-trusted", address=address, who=who)


def _trusted(environment: Mapping[str, str]) -> set[int]:
    trusted = {0, os.geteuid()}
    named = environment.get("DM_ADDR_USER")
    if named:
        try:
            trusted.add(pwd.getpwnam(named).pw_uid)
        except KeyError:
            problem = f"DM_ADDR_USER names {named}, which is no user of this machine"
            raise DMError("usage", problem=problem, hint="name the user that dm-worker runs as") from None
    return trusted


def _listeners(rows: list[_SocketRow], address: Address) -> set[int]:
    """The owners of those that a connection to this address comes to."""
    wildcards = [row for row in rows if row.local[0].is_unspecified]
    for found in (
        [row for row in rows if row.local[0] == address],
        [row for row in wildcards if row.local[0].version == address.version],
        wildcards,
    ):
        if found:
            return {row.uid for row in found}
    return set()


def _rows(table: Path) -> Iterator[_SocketRow]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except FileNotFoundError:  # a kernel without IPv6
        return
    for line in lines:
        fields = line.split()
        yield _SocketRow(_place(fields[1]), _place(fields[2]), fields[3] == _LISTEN, int(fields[7]), fields[9] != "0")


def _place(text: str) -> tuple[Address, int]:
    """`0100007F:2045`: the address as 32-bit words in the machine's byte order."""
    words, _, port = text.partition(":")
    raw = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    return _plain(ipaddress.ip_address(raw)), int(port, 16)


def _end(name: tuple[str, int]) -> tuple[Address, int]:
    return _plain(ipaddress.ip_address(name[0])), name[1]


def _plain(address: Address) -> Address:
    """IPv4 in IPv6 as what it is."""
    return getattr(address, "ipv4_mapped", None) or address


def _name(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with the number {uid}"
