"""Texts: CHAR, VARCHAR and the four TEXTs.

Each travels in the bytes of its column's own character set, and is written after an introducer where that is not
UTF-8. A CHAR loses the spaces at its end, so the text of a CHAR never has any. A column that is too short cuts white
space at the end of a text without an error, even in strict mode.

Which texts are the same to an index its collation tells, which the server is asked (`dm.changes.collation`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dm.mysql.binlog.charset import max_bytes
from dm.mysql.binlog.table_map import WireColumn, WireForm
from dm.mysql.binlog.value import Value
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.dialect import Dialect
from dm.mysql.sql.cursor import Cursor
from dm.mysql.sql.literal import UTF8_CHARSETS, Encoder, Usual, introduced, introducer, utf8_text
from dm.mysql.types.bytes import (
    LARGEST_VARCHAR,
    LONG_SIZES,
    TINY,
    by_sum,
    length_mismatch,
    long_wire,
    settle_long,
    settle_variable,
    sized,
    tiny_prefix,
    width_mismatch,
)
from dm.mysql.types.family import (
    ColumnType,
    Comparison,
    DataType,
    Spelling,
    TypedColumn,
    TypeFamily,
    length_of,
    plainly,
    unlimited,
    with_length,
    written_length,
)
from dm.mysql.types.numbers import in_digits

# Character sets whose characters have the same bytes in the other set.
_PART_OF: Final = frozenset({("ascii", "utf8mb3"), ("ascii", "utf8mb4"), ("utf8mb3", "utf8mb4")})
# Both servers convert a few characters that these sets lack to others: any supplementary one may become a byte of
# TIS-620, and U+6661 becomes U+6659 in CP932. For every other set such a conversion fails.
_CONFUSED: Final = frozenset({"tis620", "cp932"})
_NATIONAL: Final = "utf8mb3"


def texts(name: str, charset: str | None) -> Encoder:
    """The encoder of texts in this character set; None: UTF-8."""
    named = charset or "utf8mb4"
    return utf8_text(name) if named in UTF8_CHARSETS else introduced(name, introducer(named))


def _usual(charset: str | None) -> tuple[Usual, bytes]:
    named = charset or "utf8mb4"
    return (Usual.UTF8, b"") if named in UTF8_CHARSETS else (Usual.DIGITS, introducer(named))


def _exact(name: bytes, encode: Encoder, column: TypedColumn, there: Dialect, indexed: bool) -> Comparison:
    """The same bytes, since `=` follows the collation; the plain comparison finds them by an index."""
    charset = column.charset or "utf8mb4"
    if charset == "binary":
        return plainly(name, encode, column, there, indexed)
    if there.stores_texts_in_utf8 and charset == "latin1":  # which it keeps in UTF-8, and takes for ASCII in CONVERT
        charset = "utf8mb4"
    # A TiDB casts a text to as many bytes as the column has characters, and ends the statement where it has more.
    before, closing = (b"HEX(", b")") if there.casts_cut_texts else (b"CAST(", b" AS BINARY)")
    start = before + name + closing + b"=" + before + b"CONVERT("
    end = b" USING " + charset.encode() + b")" + closing
    plain = name + b"=" if indexed else b""

    def compare(value: Value) -> bytes:
        literal = encode(value)
        condition = start + literal + end
        return plain + literal + b" AND " + condition if plain else condition

    return compare


# Pairs.


def _most(column: TypedColumn) -> int:
    return column.type.most_bytes or 0


def same_characters(before: TypedColumn, after: TypedColumn) -> bool:
    """Whether each character has the same bytes in both columns."""
    return before.charset == after.charset or (before.charset, after.charset) in _PART_OF


def _widens(before: TypedColumn, after: TypedColumn) -> bool:
    if after.type.limits_characters:
        return after.type is before.type and (before.length or 1) <= (after.length or 1)
    if not after.type.is_text or before.type is CHAR:
        return False
    most = before.type.most_bytes
    return ((before.length or 1) * max_bytes(after.charset) if most is None else most) <= _most(after)


def _faithful(source: TypedColumn, target: TypedColumn) -> bool:
    if not target.type.is_text or "binary" in (source.charset, target.charset):
        return source.type is target.type
    if target.type.limits_characters:
        return source.type.limits_characters and (target.length or 1) >= (source.length or 1)
    if source.type.limits_characters:
        return (source.length or 1) * max_bytes(target.charset or "utf8mb4") <= _most(target)
    return source.charset == target.charset and _most(target) >= _most(source)


def _keeps(source: TypedColumn, target: TypedColumn) -> bool:
    if target.type.is_bytes:
        return not target.type.pads_with_zeros
    if not target.type.is_text or not keeps_characters(source.charset, target.charset):
        return False
    return (source.type is CHAR or target.type is not CHAR) and _long_enough(source, target)


def keeps_characters(source: str | None, target: str | None) -> bool:
    """Whether a target's character set has each character of the source's, or refuses it."""
    return source == target or target not in _CONFUSED


def _long_enough(source: TypedColumn, target: TypedColumn) -> bool:
    """Whether each text fits into the other column."""
    if target.type is LONGTEXT:
        return True  # no packet is that long
    in_utf8 = {source.charset, target.charset} <= UTF8_CHARSETS
    as_bytes = source.charset == target.charset or in_utf8
    limited = source.type.limits_characters
    if not limited and not target.type.limits_characters and as_bytes:
        return _most(source) <= _most(target)
    characters = source.length or 1 if limited else _most(source)
    if target.type.limits_characters:
        return characters <= (target.length or 1)
    width = max_bytes(target.charset)
    return characters * (min(width, max_bytes(source.charset)) if as_bytes else width) <= _most(target)


def fits_labels(labels: tuple[str, ...], target: TypedColumn) -> bool:
    """Whether a text column keeps each of these texts, which are sent in UTF-8."""
    charset = target.charset
    if not target.type.is_text or not keeps_characters("utf8mb4", charset):
        return False
    if target.type.limits_characters:
        return all(len(text) <= (target.length or 1) for text in labels)
    width = max_bytes(charset)
    return all(
        (len(text.encode()) if charset in UTF8_CHARSETS else len(text) * width) <= _most(target) for text in labels
    )


# DDL.


def _character(cursor: Cursor, word: str) -> DataType:
    """CHAR and VARCHAR in all spellings; the cursor is after their first word."""
    varying = cursor.accept("VARYING")
    length = length_of(cursor)
    return DataType("varchar", length) if varying else DataType("char", 1 if length is None else length)


def _varchar(cursor: Cursor, word: str) -> DataType:
    return DataType("varchar", length_of(cursor))


def _in_national(read: Spelling) -> Spelling:
    def national(cursor: Cursor, word: str) -> DataType:
        data_type = read(cursor, word)
        data_type.charset = _NATIONAL
        return data_type

    return national


def _nchar(cursor: Cursor, word: str) -> DataType:
    varying = cursor.accept_any("VARCHAR", "VARCHARACTER")
    return _varchar(cursor, word) if varying else _character(cursor, word)


def _national(cursor: Cursor, word: str) -> DataType:
    if cursor.accept_any("VARCHAR", "VARCHARACTER"):
        return _varchar(cursor, word)
    if not cursor.accept_any("CHAR", "CHARACTER"):
        cursor.fail("expected a national character type")
    return _character(cursor, word)


def _long(cursor: Cursor, word: str) -> DataType:
    if cursor.accept("VARBINARY"):
        return DataType("mediumblob")
    if cursor.accept_any("CHAR", "CHARACTER"):
        cursor.expect("VARYING")
    else:
        cursor.accept_any("VARCHAR", "VARCHARACTER")
    return DataType("mediumtext")


def _length_mismatch(wire: WireType, column: WireColumn) -> str | None:
    known = column.length is not None and column.charset is not None
    return length_mismatch(wire, (column.length or 0) * max_bytes(column.charset) if known else None)


def _bound(column: TypedColumn, value: bytes) -> str:
    return f"x'{value.hex()}'" if column.charset == "binary" else f"_{column.charset} x'{value.hex()}'"


def _empty(column: TypedColumn) -> str:
    return "''"


VARCHAR: Final = ColumnType(
    name="varchar",
    is_text=True,
    wire=WireForm(
        (WireCode.VARCHAR, WireCode.VARCHAR_COMPRESSED), _length_mismatch, content="text", counts_characters=True
    ),
    parameters=written_length,
    settled=lambda data_type, width: settle_variable("text", data_type, width),
    binary="varbinary",
    implicit_default=_empty,
    widens=_widens,
    faithful=_faithful,
    keeps=_keeps,
    encodes=texts,
    usual=_usual,
    exact=_exact,
    hashed=in_digits,
    compared="text",
    shown=lambda name: f"CONVERT({name} USING utf8mb4)",
    shown_as_text=True,
    ordered=True,
    bound=_bound,
    operand="text",
    spark="decoded",
)
CHAR: Final = replace(
    VARCHAR,
    name="char",
    pads_with_spaces=True,
    wire=WireForm((WireCode.STRING,), _length_mismatch, content="text", counts_characters=True),
    settled=lambda data_type, width: None,
    binary="binary",
)


def _text(prefix: str, size: int) -> ColumnType:
    codes, width = long_wire(size)
    tiny, name = size == TINY, f"{prefix}text"
    return replace(
        VARCHAR,
        name=name,
        wire=WireForm(codes, lambda wire, column: width_mismatch(width, wire), content="text"),
        parameters=lambda column: "",
        settled=settle_long if not prefix else lambda data_type, width: None,
        renamed=lambda column, before, after: sized("text", size * after // before) if after > before else name,
        binary=f"{prefix}blob",
        most_bytes=size,
        needs_prefix=True,
        whole_prefix=lambda column, part: tiny and tiny_prefix(column, part, max_bytes(column.charset)),
        implicit_default=lambda column: None,
        value_size=(lambda column: (column.length or 1, column.decimals or 0)) if tiny else unlimited,
        hashed=in_digits if tiny else by_sum,
        long=not tiny,
        outside=True,
        large=size > LARGEST_VARCHAR,
    )


TEXTS: Final = tuple(_text(prefix, size) for prefix, size in LONG_SIZES)
LONGTEXT: Final = TEXTS[-1]
FAMILY: Final = TypeFamily(
    (CHAR, VARCHAR, *TEXTS),
    {
        **dict.fromkeys(("CHAR", "CHARACTER"), _character),
        **dict.fromkeys(("VARCHAR", "VARCHARACTER"), _varchar),
        "NCHAR": _in_national(_nchar),
        "NVARCHAR": _in_national(_varchar),
        "NATIONAL": _in_national(_national),
        "LONG": _long,
        "TEXT": with_length,
        **dict.fromkeys(("TINYTEXT", "MEDIUMTEXT", "LONGTEXT"), lambda cursor, word: DataType(word.lower())),
    },
)
