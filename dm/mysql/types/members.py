"""ENUM and SET: values travel as numbers; each side maps a number to its own label.

If source and target have the same labels in the same order, the number is sent unchanged. Otherwise it is translated to
the number of the target's member with the very same label. It is never sent as text: a label that the target lacks but
that looks like a number would be taken for one (MySQL Reference Manual, "The ENUM Type").

In a list of tuples MySQL compares an ENUM or a SET with the *text* of the number: `(e, n) IN ((1, 5))` finds nothing
where `e = 1 AND n = 5` does. The 64th member of a SET is the sign of its number: it equals no positive one. And from
the 54th member on, numbers are compared as doubles unless an index is used: `set | 0` is the number as an integer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dm.errors import DMError
from dm.mysql.binlog.table_map import WireColumn, WireForm
from dm.mysql.binlog.value import Value
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.dialect import Dialect
from dm.mysql.sql.cursor import Cursor
from dm.mysql.sql.literal import Encoder, utf8_text
from dm.mysql.sql.token import Token
from dm.mysql.types.family import ColumnType, Comparison, DataType, Fold, TypedColumn, TypeFamily, plainly, same_name
from dm.mysql.types.numbers import as_integer, in_digits, integers
from dm.mysql.types.strings import fits_labels

_PLAIN: Final = re.compile(r"[\w .:-]*", re.ASCII)  # reads the same in every mode


def renumbering(source: TypedColumn, target: TypedColumn) -> Callable[[Value], Value]:
    """How a number of the source's ENUM or SET becomes the target's."""
    if source.members == target.members:
        return lambda value: value
    places = {label: at for at, label in enumerate(target.members)}
    to = [places.get(label) for label in source.members]

    def place(at: int) -> int:
        found = to[at] if at < len(to) else None
        if found is None:
            label = source.members[at] if at < len(source.members) else f"number {at + 1}"
            raise DMError("member-missing", column=target.name, label=label)
        return found

    def enum_number(value: Value) -> Value:
        return place(value - 1) + 1 if isinstance(value, int) and value else value

    def set_mask(value: Value) -> Value:
        if not isinstance(value, int):
            return value
        mask, at = 0, 0
        while value >> at:
            if value >> at & 1:
                mask |= 1 << place(at)
            at += 1
        return mask

    return set_mask if source.type.several_members else enum_number


def label_of(source: TypedColumn) -> Callable[[Value], Value]:
    """How a number of the source's ENUM or SET becomes label text, for a text column at the target."""

    def enum_label(value: Value) -> Value:
        if not isinstance(value, int):
            return value
        return source.members[value - 1].encode() if 0 < value <= len(source.members) else b""

    def set_labels(value: Value) -> Value:
        if not isinstance(value, int):
            return value
        return ",".join(label for at, label in enumerate(source.members) if value >> at & 1).encode()

    return set_labels if source.type.several_members else enum_label


def after(change: Callable[[Value], Value], encode: Encoder) -> Encoder:
    """The encoder of what a value becomes."""

    def changed(value: Value) -> bytes:
        return encode(change(value))

    return changed


def _into(source: TypedColumn, target: TypedColumn) -> Encoder | None:
    of, to = source.type, target.type
    if to is of:
        same = source.members == target.members
        return None if same else after(renumbering(source, target), of.encoder(None))
    return after(label_of(source), utf8_text("varchar")) if to.is_text else None


def _fold(source: TypedColumn, target: TypedColumn, prefix: int | None) -> Fold:
    return renumbering(source, target)


def _widens(before: TypedColumn, after: TypedColumn) -> bool:
    return after.type is before.type and after.members[: len(before.members)] == before.members


def _keeps(source: TypedColumn, target: TypedColumn) -> bool:
    if target.type is source.type:
        return True
    # They are sent as text. The servers remove spaces at a label's end when it is defined.
    labels = (",".join(source.members),) if source.type.several_members else source.members
    return source.charset != "binary" and fits_labels(labels, target)


EXACT_BITS: Final = 53  # of a double
_LONG_DIGITS: Final = len(str(1 << EXACT_BITS))


def equal_members(column: bytes, literal: bytes) -> bytes:
    """The condition that the column has the members of the number: with the column itself, so an index may be used."""
    if len(literal) < _LONG_DIGITS or not literal.isdigit():
        return column + b"=" + literal
    number = int(literal)
    signed = number - (1 << 64) if number >> 63 else number
    return b"%b=%d AND %b|0=%b" % (column, signed, column, literal)


def _exact_set(name: bytes, encode: Encoder, column: TypedColumn, there: Dialect, indexed: bool) -> Comparison:
    def compare(value: Value) -> bytes:
        return equal_members(name, encode(value))

    return compare


def _first_member(column: TypedColumn) -> str | None:
    return f"'{column.members[0]}'" if column.members and _PLAIN.fullmatch(column.members[0]) else None


def _parameters(column: TypedColumn) -> str:
    return f"({','.join(map(_quoted, column.members))})" if column.members else ""


def _quoted(member: str) -> str:
    try:
        member.encode()
    except UnicodeEncodeError:  # bytes that are no text, as SHOW CREATE TABLE prints them
        return f"x'{member.encode('utf-8', 'surrogateescape').hex()}'"
    return "'" + member.replace("\\", "\\\\").replace("'", "''") + "'"


def _read(cursor: Cursor, word: str) -> DataType:
    cursor.expect("(")
    members: list[str | bytes] = []
    while True:
        token = cursor.take()
        if token.kind == "string":
            members.append(token.text)
        elif (value := _bytes(token)) is not None:
            members.append(value)
        elif token.kind == "word" and token.text.startswith("_"):
            continue  # an introducer
        else:
            cursor.at -= 1
            cursor.fail("expected a member of ENUM or SET")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return DataType(word.lower(), members=tuple(members))


def _bytes(token: Token) -> bytes | None:
    """The value of a hexadecimal or binary literal; None for any other token."""
    quoted = token.kind == "literal"
    base, digits = token.text[:1].lower(), token.text[2:-1] if quoted else ""
    if token.kind == "number" and token.text[:1] == "0":
        base, digits = token.text[1:2], token.text[2:]  # after 0 both letters are lower case
    if base not in ("x", "b") or not digits:
        return b"" if quoted and base in ("x", "b") else None
    bits = len(digits) * (4 if base == "x" else 1)
    return int(digits, 16 if base == "x" else 2).to_bytes(-(-bits // 8), "big")


def _enum_mismatch(wire: WireType, column: WireColumn) -> str | None:
    if wire.size != (1 if len(column.members) <= 255 else 2):
        return f"its {len(column.members)} members do not fit numbers of {wire.size} bytes"
    return None


def _set_mismatch(wire: WireType, column: WireColumn) -> str | None:
    size = (len(column.members) + 7) // 8
    if wire.size != (8 if size > 4 else size):
        return f"its {len(column.members)} members do not fit a mask of {wire.size} bytes"
    return None


ENUM: Final = ColumnType(
    name="enum",
    has_members=True,
    wire=WireForm((WireCode.ENUM,), _enum_mismatch, content="members"),
    parameters=_parameters,
    implicit_default=_first_member,
    widens=_widens,
    faithful=same_name,
    keeps=_keeps,
    fold=_fold,
    into=_into,
    encodes=integers,
    usual=as_integer,
    in_lists=False,
    exact=plainly,
    hashed=in_digits,
    numbered=True,
    compared="member",
    shown=lambda name: f"CONVERT({name} USING utf8mb4)",
    shown_as_text=True,
    value_of=int,
    operand="text",
    spark="decoded",
)
SET: Final = replace(
    ENUM,
    name="set",
    several_members=True,
    wire=WireForm((WireCode.SET,), _set_mismatch, content="members"),
    implicit_default=lambda column: "''",
    equals=equal_members,
    exact=_exact_set,
    operand="other",
)
FAMILY: Final = TypeFamily((ENUM, SET), {"ENUM": _read, "SET": _read})
