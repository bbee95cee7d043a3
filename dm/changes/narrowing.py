"""Whether a target column holds each value of the source's, or may silently store another value.

A strict server refuses what is out of range, too long or not of the type. But without an error it rounds fractions,
pads bytes, and cuts white space (line ends and tabs, too) at the end of a text that is too long. It also reads text and
numbers its own way in another kind of type: 2 in an ENUM is its second member, 5 in a YEAR is 2005. It refuses NULL in
a column without NULL, except in two kinds of columns, which store the next number or the present time. So a column may
change values unless it is listed here. This is another question than `faithful` asks of keys, where equal values must
stay equal. The servers' behaviour was measured, each type into each (tests/live/changes/test_narrowing.py), and all of
Unicode into each character set.

Some pairs that would change few values or none are left out on purpose:

- TIMESTAMP and DATETIME: the one is a moment, the other a clock reading in an unknown time zone.
- FLOAT, DOUBLE, BIT, YEAR and INET6 as text, and DECIMAL fractions as DOUBLE: the same value, but written differently.
- Integers of more than six digits as FLOAT, which has room for some, but a server prints no more digits of it.
- Bytes as text (and labels that are bytes), shapes as either, text as numbers or dates: the result is another text.
- Text as MySQL's JSON, also of a MariaDB column with the check `json_valid`. What comes out is another text, and need
  not be equal as a document either: a number of many digits becomes a DOUBLE without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.charset import bytes_per_character
from dm.mysql.schema.show import type_text
from dm.mysql.schema.table import Column
from dm.type_family import BYTES, CHARACTERS, FLOATS, GEOMETRIES, INTEGERS, LONG_TEXT_BYTES, MEMBERED, TEMPORAL, TEXTS

_SHORT_INTEGERS: Final = frozenset({"tinyint", "smallint", "year"})
_FLOAT_DIGITS: Final = 6  # of a FLOAT, of which a server prints no more
_FLOAT_BITS: Final = 16  # fewer than six digits have
_DOUBLE_DIGITS: Final = 15
_DOUBLE_BITS: Final = 53
_LONGEST_BIT: Final = 64
_UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
# Both servers convert a few characters that these sets lack to others: any supplementary one may become a byte of
# TIS-620, and U+6661 becomes U+6659 in CP932. For every other set such a conversion fails.
_CONFUSED: Final = frozenset({"tis620", "cp932"})


def keeps_values(source: Column, target: Column) -> bool:
    """Whether a strict target stores every value but NULL that it accepts from the source unchanged."""
    of, to = source.base, target.base
    if of in INTEGERS or of == "year":
        return _keeps_integer(source, target)
    if of == "bit":
        return _keeps_bits(source.length or 1, target)
    if of == "decimal":
        return _keeps_decimal(source, target)
    if of in FLOATS:
        # A column with decimals rounds a value with none, or with another number of them.
        return (to == of and target.decimals == source.decimals) or (to in (of, "double") and target.decimals is None)
    if of in TEMPORAL:
        return _keeps_time(source, target)
    if of in TEXTS:
        return _keeps_text(source, target)
    if of in MEMBERED:
        return to == of or (source.charset != "binary" and to in TEXTS and _keeps_labels(source, target))
    if of == "json":  # sent as text, which never ends in white space
        return to == of or (to in TEXTS and _keeps_characters("utf8mb4", target.charset))
    if of in BYTES:
        return (to in BYTES and to != "binary") or (of == to and source.length == target.length)
    if of in GEOMETRIES:
        return to in GEOMETRIES
    return to == of or (of in ("uuid", "inet4") and to in TEXTS)


def refuse_narrower(
    source: TableName, target: TableName, columns: Iterable[tuple[Column, Column]], *, null_is_now: bool
) -> None:
    """Raise DMError `columns-narrower` if one of these target columns may change values of the source's.

    `null_is_now`: NULL in a TIMESTAMP without NULL is the present moment there.
    """
    found = [
        (to.name, f"{_described(of)} into {_described(to)}{null}")
        for of, to in columns
        if to.generated is None and ((null := _of_null(of, to, null_is_now)) or not keeps_values(of, to))
    ]
    if found:
        raise DMError(
            "columns-narrower",
            source=source,
            target=target,
            columns=", ".join(f"{name} ({types})" for name, types in found),
            target_sql=target.sql,
            first=Ident(found[0][0]).sql,
        )


def _of_null(source: Column, target: Column, null_is_now: bool) -> str:
    """What the target makes of the source's NULL without an error, for a person; empty if it refuses."""
    if source.nullable and target.auto_increment:
        return " AUTO_INCREMENT: NULL becomes the next number"
    if source.nullable and not target.nullable and target.base == "timestamp" and null_is_now:
        return " NOT NULL: NULL becomes the present moment"
    return ""


def _described(column: Column) -> str:
    charset = f" character set {column.charset}" if column.charset else ""
    return type_text(column) + charset


def _printed(target: Column) -> bool:
    """Whether the column takes the text of a number or a time unchanged."""
    return target.base in TEXTS or (target.base in BYTES and target.base != "binary")


def _keeps_integer(source: Column, target: Column) -> bool:
    of, to = source.base, target.base
    if to == of or to in INTEGERS or to == "decimal":
        return True
    if to == "double":
        return of != "bigint"
    if to == "float":
        return of in _SHORT_INTEGERS
    if to == "bit":
        # -1 has all bits set.
        return source.unsigned or of == "year" or (target.length or 1) < _LONGEST_BIT
    # Both servers cut a number in UTF-32 after 16 digits, without an error.
    return of != "year" and _printed(target) and (of != "bigint" or target.charset != "utf32")


def _keeps_bits(length: int, target: Column) -> bool:
    to = target.base
    if to == "double":
        return length <= _DOUBLE_BITS
    if to == "float":
        return length <= _FLOAT_BITS
    return to in INTEGERS or to in ("bit", "decimal")


def _keeps_decimal(source: Column, target: Column) -> bool:
    to = target.base
    if to == "decimal":
        return (target.decimals or 0) >= (source.decimals or 0)
    if _printed(target):
        return True
    digits = source.length or 10
    if source.decimals:
        return False
    return (
        to in INTEGERS or (to == "double" and digits <= _DOUBLE_DIGITS) or (to == "float" and digits <= _FLOAT_DIGITS)
    )


def _keeps_time(source: Column, target: Column) -> bool:
    of, to = source.base, target.base
    if of == to or (of, to) == ("date", "datetime"):
        return (target.decimals or 0) >= (source.decimals or 0)
    return of != "timestamp" and _printed(target)


def _keeps_text(source: Column, target: Column) -> bool:
    of, to = source.base, target.base
    if to in BYTES:
        return to != "binary"
    if to not in TEXTS or not _keeps_characters(source.charset, target.charset):
        return False
    # A CHAR loses spaces at the end, which the text of another CHAR never has.
    return (of == "char" or to != "char") and _long_enough(source, target)


def _keeps_labels(source: Column, target: Column) -> bool:
    # They are sent as text. The servers remove spaces at a label's end when it is defined.
    to, charset = target.base, target.charset
    if not _keeps_characters("utf8mb4", charset):
        return False
    texts = source.members if source.base == "enum" else (",".join(source.members),)
    if to in CHARACTERS:
        return all(len(text) <= (target.length or 1) for text in texts)
    width = bytes_per_character(charset)
    return all((len(text.encode()) if charset in _UTF8 else len(text) * width) <= LONG_TEXT_BYTES[to] for text in texts)


def _keeps_characters(source: str | None, target: str | None) -> bool:
    return source == target or target not in _CONFUSED


def _long_enough(source: Column, target: Column) -> bool:
    """Whether each text fits into another column, which would silently cut white space at its end."""
    of, to = source.base, target.base
    if to == "longtext":
        return True  # no packet is that long
    as_bytes = source.charset == target.charset or {source.charset, target.charset} <= _UTF8
    if of in LONG_TEXT_BYTES and to in LONG_TEXT_BYTES and as_bytes:
        return LONG_TEXT_BYTES[of] <= LONG_TEXT_BYTES[to]
    characters = source.length or 1 if of in CHARACTERS else LONG_TEXT_BYTES[of]
    if to in CHARACTERS:
        return characters <= (target.length or 1)
    width = bytes_per_character(target.charset)
    if as_bytes:
        width = min(width, bytes_per_character(source.charset))
    return characters * width <= LONG_TEXT_BYTES[to]
