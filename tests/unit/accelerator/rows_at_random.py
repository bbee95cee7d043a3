"""Tables and row images at random: every type, every size of it, and damage that knows where lengths stand."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dm.mysql.binlog.row_events import Rows, RowsKind
from dm.mysql.binlog.table_map import OptionalMetadata, TableMap, WireColumn
from dm.mysql.binlog.value import decimal_size
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.schema.table import Column
from tests.unit.mysql.binlog.test_json_decoder import stored

UTF8 = "utf8mb4"
KINDS: tuple[RowsKind, ...] = ("insert", "update", "delete")
_TELLING = (0, 1, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)


@dataclass(frozen=True, slots=True)
class Kind:
    """One column with a size of its own, and how to make a value that a server could have written."""

    wire: WireType
    column: WireColumn
    value: Callable[[random.Random], bytes]


def _decimal(chance: random.Random, precision: int, scale: int) -> bytes:
    """The packed form, from the digits."""
    whole, digits = precision - scale, "".join(chance.choice("0123456789") for _ in range(precision))
    parts = []
    first = whole % 9
    groups = [digits[:first]] if first else []
    groups += [digits[at : at + 9] for at in range(first, whole, 9)]
    groups += [digits[at : min(at + 9, precision)] for at in range(whole, precision, 9)]
    for group in groups:
        parts.append(int(group).to_bytes((0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[len(group)], "big"))
    raw = bytearray(b"".join(parts))
    assert len(raw) == decimal_size(precision, scale)
    raw[0] |= 0x80
    return bytes(raw) if chance.random() < 0.6 else bytes(byte ^ 0xFF for byte in raw)


def _fraction(chance: random.Random, digits: int) -> bytes:
    size = (digits + 1) // 2
    step = 10 if digits % 2 else 1
    return (chance.randrange(100**size // step) * step).to_bytes(size, "big")


def _datetime2(chance: random.Random, digits: int) -> bytes:
    months = chance.choice((0, chance.randrange(13 * 10000), 13 * 2024 + chance.randrange(13)))
    clock = chance.randrange(24) << 12 | chance.randrange(60) << 6 | chance.randrange(60)
    packed = (months << 5 | chance.randrange(32)) << 17 | clock
    return (0x8000000000 + packed).to_bytes(5, "big") + _fraction(chance, digits)


def _timestamp2(chance: random.Random, digits: int) -> bytes:
    return chance.choice((0, 1, chance.randrange(1 << 32), (1 << 32) - 1)).to_bytes(4, "big") + _fraction(
        chance, digits
    )


def _time2(chance: random.Random, digits: int) -> bytes:
    size = (digits + 1) // 2
    packed = chance.randrange(839) << 12 | chance.randrange(60) << 6 | chance.randrange(60)
    number = packed << size * 8 | int.from_bytes(_fraction(chance, digits), "big")
    return ((0x800000 << size * 8) + (number if chance.random() < 0.6 else -number)).to_bytes(3 + size, "big")


def document(chance: random.Random, depth: int = 0) -> Any:
    """A JSON document."""
    kind = chance.randrange(8 if depth < 4 else 6)
    if kind == 0:
        return chance.choice((None, True, False))
    if kind in (1, 2):
        return chance.choice((0, -1, 1)) * chance.randrange(1 << chance.randrange(1, 63))
    if kind == 3:
        return chance.choice((0.0, -0.0, 1.5, 1e15, 1e-4, 9e-5, 1e300, 123456.789, -0.1, chance.random()))
    if kind in (4, 5):
        return "".join(chance.choice('ab c"\\\n\t\x01\x7fäß€𝄞\ud7ff') for _ in range(chance.choice((0, 1, 5, 130))))
    if kind == 6:
        return [document(chance, depth + 1) for _ in range(chance.randrange(6))]
    return {f"k{'ä' * chance.randrange(3)}{at}": document(chance, depth + 1) for at in range(chance.randrange(6))}


def _bytes(size: int) -> Callable[[random.Random], bytes]:
    return lambda chance: chance.randbytes(size)


def _sized(width: int, most: int) -> Callable[[random.Random], bytes]:
    def made(chance: random.Random) -> bytes:
        size = chance.choice((0, 1, chance.randrange(most + 1), most))
        return size.to_bytes(width, "little") + chance.randbytes(size)

    return made


def _json(chance: random.Random) -> bytes:
    raw = stored(document(chance), chance.random() < 0.3) if chance.random() < 0.95 else b""
    return len(raw).to_bytes(4, "little") + raw


def _mariadb_json(chance: random.Random) -> bytes:
    raw = chance.choice((b"{}", '{"a": "ä"}'.encode(), b"\xff", b""))
    return len(raw).to_bytes(4, "little") + raw


def kinds(chance: random.Random) -> list[Kind]:
    """A column of each type, with sizes at random."""
    precision = chance.randrange(1, 66)
    scale = chance.randrange(min(precision, 38) + 1)
    bits, digits, members = chance.randrange(1, 65), chance.randrange(7), chance.choice((3, 255, 256))
    chars = chance.choice((1, 10, 63, 64))
    found = [
        *(
            Kind(WireType(code), Column("n", base, unsigned=unsigned), _bytes(size))
            for code, base, size in (
                (WireCode.TINY, "tinyint", 1),
                (WireCode.SHORT, "smallint", 2),
                (WireCode.INT24, "mediumint", 3),
                (WireCode.LONG, "int", 4),
                (WireCode.LONGLONG, "bigint", 8),
            )
            for unsigned in (False, True)
        ),
        Kind(WireType(WireCode.FLOAT, 4), Column("n", "float"), _bytes(4)),
        Kind(WireType(WireCode.DOUBLE, 8), Column("n", "double"), _bytes(8)),
        Kind(WireType(WireCode.YEAR), Column("n", "year"), _bytes(1)),
        Kind(
            WireType(WireCode.NEWDECIMAL, precision, scale),
            Column("n", "decimal", precision, scale),
            lambda chance: _decimal(chance, precision, scale),
        ),
        Kind(WireType(WireCode.BIT, bits), Column("n", "bit", bits), _bytes((bits + 7) // 8)),
        Kind(
            WireType(WireCode.DATE),
            Column("n", "date"),
            lambda chance: (chance.randrange(10000) << 9 | chance.randrange(13) << 5 | chance.randrange(32)).to_bytes(
                3, "little"
            ),
        ),
        Kind(
            WireType(WireCode.DATETIME2, digits),
            Column("n", "datetime", decimals=digits),
            lambda chance: _datetime2(chance, digits),
        ),
        Kind(
            WireType(WireCode.TIMESTAMP2, digits),
            Column("n", "timestamp", decimals=digits),
            lambda chance: _timestamp2(chance, digits),
        ),
        Kind(
            WireType(WireCode.TIME2, digits),
            Column("n", "time", decimals=digits),
            lambda chance: _time2(chance, digits),
        ),
        *(
            Kind(WireType(code), Column("n", base, decimals=old), _bytes(size))
            for code, base, sizes in (
                (WireCode.TIMESTAMP, "timestamp", (4, 5, 5, 6, 6, 7, 7)),
                (WireCode.TIME, "time", (3, 4, 4, 5, 5, 5, 6)),
            )
            for old, size in [(chance.randrange(7), 0)]
            for size in [sizes[old]]
        ),
        Kind(
            WireType(WireCode.DATETIME),
            Column("n", "datetime"),
            lambda chance: chance.randrange(10**14).to_bytes(8, "little"),
        ),
        Kind(
            WireType(WireCode.ENUM, 1 if members <= 255 else 2),
            Column("n", "enum", charset=UTF8, members=tuple(map(str, range(members)))),
            _bytes(1 if members <= 255 else 2),
        ),
        *(
            Kind(
                WireType(WireCode.SET, size),
                Column("n", "set", charset=UTF8, members=tuple(map(str, range(count)))),
                _bytes(size),
            )
            for count, size in ((3, 1), (24, 3), (64, 8))
        ),
        Kind(
            WireType(WireCode.STRING, chars * 4),
            Column("n", "char", chars, charset=UTF8),
            _sized(1 if chars * 4 <= 255 else 2, chars * 4),
        ),
        Kind(WireType(WireCode.STRING, chars), Column("n", "binary", chars), _sized(1, chars)),
        Kind(WireType(WireCode.STRING, 16), Column("n", "uuid"), _sized(1, 16)),
        Kind(WireType(WireCode.VARCHAR, 300), Column("n", "varbinary", 300), _sized(2, 300)),
        Kind(WireType(WireCode.VARCHAR, 20), Column("n", "varbinary", 20), _sized(1, 20)),
        *(
            Kind(WireType(WireCode.BLOB, width), Column("n", base), _sized(width, 200))
            for width, base in enumerate(("tinyblob", "blob", "mediumblob", "longblob"), 1)
        ),
        Kind(WireType(WireCode.GEOMETRY, 4), Column("n", "geometry"), _sized(4, 30)),
        Kind(WireType(WireCode.VECTOR, 4), Column("n", "vector", 2), _sized(4, 8)),
        Kind(WireType(WireCode.JSON, 4), Column("n", "json"), _json),
        Kind(WireType(WireCode.BLOB, 4), Column("n", "json"), _mariadb_json),
        Kind(WireType(WireCode.VARCHAR_COMPRESSED, 301), Column("n", "varbinary", 300), lambda chance: b"\3\0\0ab"),
    ]
    chance.shuffle(found)
    return found


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of one table, and the table."""

    table_map: TableMap
    columns: tuple[WireColumn, ...]
    rows: Rows


def sample(seed: int, *, damage: bool, wanted: Callable[[Kind], bool] = lambda kind: True) -> Sample:
    """The sample of this seed: rows as a server could write them, or with damage done to them."""
    chance = random.Random(seed)
    chosen = [kind for kind in kinds(chance) if wanted(kind)][: chance.choice((1, 2, 8, 9, 17, 40))]
    count = len(chosen)
    table_map = TableMap(
        "s", "t", tuple(kind.wire for kind in chosen), (True,) * count, OptionalMetadata(), "mysql", b""
    )
    every = (1 << count) - 1
    present, after = (every if chance.random() < 0.7 else chance.getrandbits(count) | 1 for _ in range(2))
    kind = chance.choice(KINDS)
    images = [present, after] if kind == "update" else [present]
    data = b"".join(_image(chance, chosen, held) for _ in range(chance.choice((1, 2, 30))) for held in images)
    if damage:
        data = damaged(chance, data)
    width = (count + 7) // 8
    start, end = chance.randrange(5), chance.randrange(5)
    rows = Rows(
        kind,
        1,
        count,
        present.to_bytes(width, "little"),
        (after if kind == "update" else present).to_bytes(width, "little"),
        chance.randbytes(start) + data + chance.randbytes(end),
        start,
        start + len(data),
        0,
        False,
    )
    return Sample(table_map, tuple(kind.column for kind in chosen), rows)


def _image(chance: random.Random, chosen: list[Kind], present: int) -> bytes:
    held = [kind for at, kind in enumerate(chosen) if present >> at & 1]
    nulls = chance.choice((0, chance.getrandbits(len(held))))
    values = (kind.value(chance) for at, kind in enumerate(held) if not nulls >> at & 1)
    return nulls.to_bytes((len(held) + 7) // 8, "little") + b"".join(values)


def damaged(chance: random.Random, data: bytes) -> bytes:
    """The bytes with a few changes, or others altogether."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(100))
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(5)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(changed):
            changed[at] = chance.choice(_TELLING)
        elif kind == 2:
            changed[at:at] = chance.randbytes(chance.choice((1, 2, 8)))
        elif kind == 3:
            del changed[at : at + chance.choice((1, 2, 8, 1 << 20))]
        else:
            changed[at : at + 4] = chance.choice(
                (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4), struct.pack("<H", 4))
            )
    return bytes(changed)
