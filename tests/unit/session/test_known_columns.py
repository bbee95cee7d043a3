"""Columns of an answer that came before are known by their bytes; whatever differs is read as it comes."""

from __future__ import annotations

import io
from typing import Any

import pymysql
import pytest
from pymysql.protocol import FieldDescriptorPacket

from dm.session.login import ServerConnection

EOF = b"\xfe\0\0\2\0"


def column(name: bytes) -> bytes:
    texts = b"".join(bytes([len(text)]) + text for text in (b"def", b"s", b"t", b"t", name, name))
    return texts + b"\x0c\x2d\0\xff\0\0\0\xfd\0\0\0\0\0"


def packets(*bodies: bytes, first: int = 1) -> bytes:
    return b"".join(
        len(body).to_bytes(3, "little") + bytes([(first + at) % 256]) + body for at, body in enumerate(bodies)
    )


def answer(*names: bytes, first: int = 1) -> bytes:
    """Without rows."""
    return packets(bytes([len(names)]), *map(column, names), EOF, EOF, first=first)


class Replayed(ServerConnection):
    """A connection whose server has said all that it will say."""

    def __init__(self, said: bytes, room: int = 8192) -> None:
        connection: Any = self
        self.known_columns = {}
        connection._rfile = io.BufferedReader(io.BytesIO(said), room)
        connection._sock = connection._rfile
        connection._read_timeout = connection._current_timeout = None
        connection._result = None
        connection.encoding, connection.use_unicode, connection.decoders = "utf8", True, {}

    def names(self, first: int = 1) -> list[str]:
        """The columns of the next answer."""
        connection: Any = self
        connection._next_seq_id = first
        connection._read_query_result()
        assert connection._result.rows == ()
        return [each[0] for each in connection._result.description]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns that are taken apart."""
    found = list[str]()
    original = FieldDescriptorPacket.__init__

    def noted(self: Any, *given: Any) -> None:
        original(self, *given)
        found.append(self.name)

    monkeypatch.setattr(FieldDescriptorPacket, "__init__", noted)
    return found


def test_columns_are_taken_apart_once(parsed: list[str]) -> None:
    """An answer to one of several statements begins with another number."""
    connection = Replayed(answer(b"a", b"b") + answer(b"a", b"b", first=254) + answer(b"a", b"c") + answer(b"a", b"b"))
    assert [connection.names(first) for first in (1, 254, 1, 1)] == [["a", "b"], ["a", "b"], ["a", "c"], ["a", "b"]]
    assert parsed == ["a", "b", "a", "c"]


def test_what_has_not_arrived_as_a_whole_is_read_packet_by_packet(parsed: list[str]) -> None:
    connection = Replayed(answer(b"a", b"b") * 2, room=40)
    assert [connection.names(), connection.names()] == [["a", "b"]] * 2
    assert parsed == ["a", "b"] * 2


def test_a_packet_out_of_turn_is_an_error_as_ever() -> None:
    wrong = packets(b"\x01") + packets(column(b"a"), EOF, EOF, first=3)
    connection = Replayed(answer(b"a") + wrong)
    assert connection.names() == ["a"]
    with pytest.raises(pymysql.err.InternalError, match="sequence number"):
        connection.names()


def test_columns_that_are_known_count_as_read() -> None:
    connection = Replayed(answer(b"a") * 2)
    connection.names()
    connection.answer_left = 100
    with pytest.raises(pymysql.err.Error):
        connection.names()


def test_texts_that_one_question_leaves_undecoded_are_decoded_for_the_next() -> None:
    connection: Any = Replayed(answer(b"a") * 3)
    read = []
    for decoded in (False, True, False):
        connection.use_unicode = decoded
        connection.names()
        ((encoding, _),) = connection._result.converters
        read.append(encoding)
    assert read == [None, "utf8", None]
