"""What a server is sent, from its general log: for tests that count statements instead of seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from dm.demo.private_server import PrivateServer


class Sent(NamedTuple):
    """A statement, and the server's number of the session that sent it."""

    session: int
    text: str


@contextmanager
def logged(server: PrivateServer) -> Iterator[list[Sent]]:
    """What the server is sent meanwhile, in its order; there when the block is over.

    What comes in one packet MySQL writes statement by statement, and MariaDB as it is.
    """
    found: list[Sent] = []
    server.execute("SET GLOBAL log_output = 'TABLE'", "TRUNCATE mysql.general_log", "SET GLOBAL general_log = ON")
    try:
        yield found
    finally:
        server.execute("SET GLOBAL general_log = OFF")
    rows = server.query("SELECT thread_id, argument FROM mysql.general_log WHERE command_type IN ('Query', 'Execute')")
    for session, text in rows:
        found.append(Sent(int(session), text.decode(errors="replace") if isinstance(text, bytes) else str(text)))
