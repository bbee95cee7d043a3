"""Whether the bytes of a row image are ones that a server could have written.

A row that goes to the target as SQL is judged there: a strict server refuses what does not belong into a column. A row
event is not judged. The server that applies it copies the bytes, as they came from its own kind, and an ENUM's number
without a member, half of a UTF-8 character or a NULL for a column without NULL is stored, or worse. So a damaged event
would go on to the target, and a source that means harm could send what no statement can.

An image is handed on only if each column's bytes are proven here: a length within the type's, numbers within their
range, dates and times that a clock can show, text in its character set, a document that can be read. What isn't proven
is not wrong: it goes as SQL, and the target judges it. That is also the way of types whose bytes only a server can
judge (`proof_of` has none for them).

The compiled parts have the same rules, byte by byte (`dm/accelerator/image_proof.c`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from dm.accelerator.native import shared
from dm.errors import DMError
from dm.mysql.binlog.charset import max_bytes
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.image import Fixed, step_of
from dm.mysql.binlog.json_tree import json_value
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap, WireColumn
from dm.mysql.binlog.wire_type import WireCode, WireType

RawPair = tuple[bytes | None, bytes | None]
"""The images of a change, before and after, as the source wrote them."""


@shared
class TextBytes(IntEnum):
    """What the bytes of a text have to be."""

    ANY_BYTES = 0
    UTF8MB4 = 1
    UTF8MB3 = 2
    ASCII = 3


@shared
class ProofStep(NamedTuple):
    """What has to hold of the bytes of one column, besides what its type says."""

    most: int  # the largest number, or the most bytes
    characters: int  # the most of them; 0: any number
    text: TextBytes
    nullable: bool
    unread: bool = False  # nobody asks for its value
    negative: bool = True  # it may be below zero, if its bytes tell


_ANY_NUMBER: Final = (1 << 64) - 1
_UTF8: Final = {"utf8mb4": TextBytes.UTF8MB4, "utf8mb3": TextBytes.UTF8MB3, "utf8": TextBytes.UTF8MB3}
_INTEGERS: Final = frozenset(
    {WireCode.TINY, WireCode.SHORT, WireCode.INT24, WireCode.LONG, WireCode.LONGLONG, WireCode.YEAR}
)
_PLAIN: Final = _INTEGERS | {
    WireCode.FLOAT,
    WireCode.DOUBLE,
    WireCode.NEWDECIMAL,
    WireCode.DATE,
    WireCode.NEWDATE,
    WireCode.DATETIME2,
    WireCode.TIMESTAMP2,
    WireCode.TIME2,
}
_STRINGS: Final = frozenset({WireCode.STRING, WireCode.VARCHAR})
_FLOATS: Final = {WireCode.FLOAT: "<f", WireCode.DOUBLE: "<d"}
_GROUP_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # of a DECIMAL, for so many digits
_LATEST: Final = 0x7FFFFFFF  # of a TIMESTAMP
_LONGEST: Final = (838, 59, 59)  # TIME


def proof_of(wire: WireType, column: WireColumn, *, nullable: bool) -> ProofStep | None:
    """What has to hold of a column's bytes; None where only a server can judge them."""
    code = wire.code
    if code in _PLAIN:
        return ProofStep(_ANY_NUMBER, 0, TextBytes.ANY_BYTES, nullable, negative=not column.unsigned)
    if code == WireCode.BIT:
        return ProofStep((1 << wire.size) - 1, 0, TextBytes.ANY_BYTES, nullable)
    if code == WireCode.ENUM:
        return ProofStep(len(column.members), 0, TextBytes.ANY_BYTES, nullable)
    if code == WireCode.SET:
        return ProofStep((1 << len(column.members)) - 1, 0, TextBytes.ANY_BYTES, nullable)
    if code == WireCode.JSON:
        return ProofStep(_ANY_NUMBER, 0, TextBytes.ANY_BYTES, nullable)
    if code == WireCode.BLOB and column.wire.document:  # MariaDB's, a LONGTEXT
        return ProofStep(_ANY_NUMBER, 0, TextBytes.UTF8MB4, nullable)
    if code not in _STRINGS and code != WireCode.BLOB:
        return None
    most = wire.size if code in _STRINGS else (1 << 8 * wire.size) - 1
    if column.wire.provable:
        return ProofStep(most, 0, TextBytes.ANY_BYTES, nullable)
    if column.wire.content != "text" or column.charset is None:
        return None
    characters = column.length or 1 if column.wire.counts_characters else 0
    text = _text_bytes(column.charset)
    return None if text is None else ProofStep(most, characters, text, nullable)


def _text_bytes(charset: str) -> TextBytes | None:
    if charset == "ascii":
        return TextBytes.ASCII
    if charset in _UTF8:
        return _UTF8[charset]
    # In a set of single bytes each of them is a character.
    return TextBytes.ANY_BYTES if max_bytes(charset) == 1 else None


class ImageProof:
    """Cuts the images out of a table's rows events, where all their bytes are proven: the reference."""

    def __init__(self, table_map: TableMap, columns: Sequence[WireColumn], proofs: Sequence[ProofStep]) -> None:
        self._columns = [
            _ProvenColumn(wire, column, proof)
            for wire, column, proof in zip(table_map.columns, columns, proofs, strict=True)
        ]
        self._width = (len(self._columns) + 7) // 8

    def images(self, rows: Rows) -> list[RawPair] | None:
        """The images of each change; None where one is not proven, or does not hold all columns."""
        if rows.partial or not rows.whole or rows.column_count != len(self._columns):
            return None
        cursor = ByteCursor(rows.data, rows.start, rows.end)
        found: list[RawPair] = []
        try:
            while cursor.left:
                before = None if rows.kind == "insert" else self._image(cursor)
                after = None if rows.kind == "delete" else self._image(cursor)
                found.append((before, after))
        except Malformed:
            return None
        return found

    def _image(self, cursor: ByteCursor) -> bytes:
        start = cursor.at
        nulls = int.from_bytes(cursor.take(self._width), "little")
        for at, column in enumerate(self._columns):
            if nulls >> at & 1:
                if not column.nullable:
                    raise Malformed("NULL in a column without")
            elif not column.proven(column.take(cursor)):
                raise Malformed("bytes that no server writes")
        return cursor.data[start : cursor.at]


class _ProvenColumn:
    """One column: where its bytes end, and what they may be."""

    def __init__(self, wire: WireType, column: WireColumn, proof: ProofStep) -> None:
        self.nullable = proof.nullable
        step = step_of(wire, column)
        self._size, self._width = (step.layout.size, 0) if isinstance(step, Fixed) else (0, step.width)
        self.proven: Callable[[bytes], bool] = _check(wire, proof)

    def take(self, cursor: ByteCursor) -> bytes:
        """The bytes of the value."""
        return cursor.take(cursor.uint(self._width)) if self._width else cursor.take(self._size)


def _check(wire: WireType, proof: ProofStep) -> Callable[[bytes], bool]:
    code = wire.code
    if code in _INTEGERS:
        return lambda raw: True
    if code in _FLOATS:
        return lambda raw: _float_proven(raw, _FLOATS[WireCode(code)], proof)
    if code in (WireCode.ENUM, WireCode.SET):
        return lambda raw: int.from_bytes(raw, "little") <= proof.most
    if code == WireCode.BIT:
        return lambda raw: int.from_bytes(raw, "big") <= proof.most
    if code == WireCode.NEWDECIMAL:
        return lambda raw: (proof.negative or raw[0] >= 0x80) and _decimal_proven(raw, wire.size, wire.scale)
    if code in (WireCode.DATE, WireCode.NEWDATE):
        return _date_proven
    if code == WireCode.DATETIME2:
        return lambda raw: _datetime_proven(raw, wire.size)
    if code == WireCode.TIMESTAMP2:
        return lambda raw: _timestamp_proven(raw, wire.size)
    if code == WireCode.TIME2:
        return lambda raw: _time_proven(raw, wire.size)
    if code == WireCode.JSON:
        return _json_proven
    return lambda raw: _text_proven(raw, proof)


def _float_proven(raw: bytes, form: str, proof: ProofStep) -> bool:
    value = struct.unpack(form, raw)[0]
    return math.isfinite(value) and (proof.negative or value >= 0)


def _decimal_proven(raw: bytes, precision: int, scale: int) -> bool:
    positive = raw[0] & 0x80
    raw = bytes([raw[0] ^ 0x80]) + raw[1:]
    if not positive:
        raw = bytes(byte ^ 0xFF for byte in raw)
    whole = precision - scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    at = 0
    for digits in groups:
        size = _GROUP_BYTES[digits]
        if digits and int.from_bytes(raw[at : at + size], "big") >= 10**digits:
            return False
        at += size
    return True


def _date_proven(raw: bytes) -> bool:
    number = int.from_bytes(raw, "little")
    return number >> 9 <= 9999 and number >> 5 & 15 <= 12


def _fraction_proven(raw: bytes, digits: int) -> bool:
    value = int.from_bytes(raw, "big")
    return value < 100 ** len(raw) and (digits % 2 == 0 or value % 10 == 0)


def _clock_proven(clock: int, hours: int) -> bool:
    return clock >> 12 <= hours and clock >> 6 & 63 < 60 and clock & 63 < 60


def _datetime_proven(raw: bytes, digits: int) -> bool:
    packed = int.from_bytes(raw[:5], "big") - 0x8000000000
    return 0 <= packed >> 22 < 13 * 10000 and _clock_proven(packed & 0x1FFFF, 23) and _fraction_proven(raw[5:], digits)


def _timestamp_proven(raw: bytes, digits: int) -> bool:
    seconds, fraction = int.from_bytes(raw[:4], "big"), raw[4:]
    return seconds <= _LATEST and (seconds > 0 or not any(fraction)) and _fraction_proven(fraction, digits)


def _time_proven(raw: bytes, digits: int) -> bool:
    size = len(raw) - 3
    number = abs(int.from_bytes(raw, "big") - (0x800000 << size * 8))
    clock, fraction = number >> size * 8, (number & (1 << size * 8) - 1).to_bytes(size, "big")
    parts = clock >> 12, clock >> 6 & 63, clock & 63
    if parts == _LONGEST and any(fraction):
        return False
    return _clock_proven(clock, 838) and _fraction_proven(fraction, digits)


def _json_proven(raw: bytes) -> bool:
    try:
        json_value(raw)
    except (DMError, Malformed, ValueError, IndexError, OverflowError, struct.error):
        return False
    return True


def _text_proven(raw: bytes, proof: ProofStep) -> bool:
    if len(raw) > proof.most:
        return False
    if proof.text is TextBytes.ANY_BYTES:
        return True
    try:
        text = raw.decode("ascii" if proof.text is TextBytes.ASCII else "utf-8")
    except UnicodeDecodeError:
        return False
    if proof.text is TextBytes.UTF8MB3 and max(text, default="") > "\uffff":
        return False
    return not proof.characters or len(text) <= proof.characters
