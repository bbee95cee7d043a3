"""Statements that go together are on the wire as one text is, however they are written there."""

from __future__ import annotations

import io
from typing import Any

import pytest
from pymysql.connections import MAX_PACKET_LEN

from dm.session.login import _LONG, ServerConnection

OK = b"\0\0\0\2\0\0\0"


class Written(ServerConnection):
    """A connection that keeps what is written; the server says OK to each of some statements."""

    def __init__(self, statements: int, number: int) -> None:
        connection: Any = self
        answers = [OK[:-4] + bytes([8 if left else 0, 0, 0, 0]) for left in reversed(range(statements))]
        said = b"".join(
            len(each).to_bytes(3, "little") + bytes([number + at]) + each for at, each in enumerate(answers)
        )
        self.known_columns = {}
        self.host, self.port = "here", 1
        self.pieces: list[bytes] = []
        connection._sock = connection._rfile = io.BufferedReader(io.BytesIO(said))
        connection._read_timeout = connection._current_timeout = connection._result = None
        connection.encoding, connection.use_unicode, connection.decoders = "utf8", True, {}

    def _write_bytes(self, data: bytes) -> None:
        self.pieces.append(data)

    def results(self) -> int:
        """How many answers there are."""
        connection: Any = self
        count = 1
        while connection._result.has_next:
            connection.next_result()
            count += 1
        return count


@pytest.mark.parametrize("last", [1, _LONG - 1, _LONG, _LONG + 1, (1 << 24) - 20, (1 << 24) - 2, 1 << 24])
@pytest.mark.parametrize("others", [(), (b"START TRANSACTION", b"UPDATE t SET a = 1")])
def test_the_bytes_are_those_of_one_text(last: int, others: tuple[bytes, ...]) -> None:
    statements = [*others, b"x" * last]
    number = 1 + (1 + len(b";".join(statements))) // MAX_PACKET_LEN  # of the first answer's packet
    usual: Any = Written(len(statements), number)
    usual.query(b";".join(statements))
    together = Written(len(statements), number)
    together.query_together(statements)
    assert b"".join(together.pieces) == b"".join(usual.pieces)
    assert together.results() == usual.results() == len(statements)
    if _LONG <= last < 1 << 20:
        assert together.pieces[1] is statements[-1]
