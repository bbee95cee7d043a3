"""Numbers: integers, YEAR, DECIMAL, FLOAT and DOUBLE.

An integer's length is a display width, which servers print or leave out. A FLOAT with digits (`FLOAT(10,2)`) rounds
what it stores; one without is a number of 24 bits, of which a server prints six digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Final

from dm.mysql.binlog.table_map import WireColumn, WireForm
from dm.mysql.binlog.value import Value
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.dialect import Dialect
from dm.mysql.sql.cursor import Cursor
from dm.mysql.sql.literal import Encoder, Usual, wrong_type
from dm.mysql.types.family import (
    ColumnType,
    Comparison,
    DataType,
    Fold,
    Spelling,
    TypedColumn,
    TypeFamily,
    bare,
    itself,
    length_of,
    lengths_of,
    plainly,
    unlimited,
    written_length,
)

_BY_SIZE: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
_CODES: Final = (WireCode.TINY, WireCode.SHORT, WireCode.INT24, WireCode.LONG, WireCode.LONGLONG)
_SPARK: Final = ("tinyint", "smallint", "int", "int", "bigint")
_SPARK_UNSIGNED: Final = ("smallint", "int", "int", "bigint", "decimal(20,0)")
_SPARK_DIGITS: Final = 38
_DIGITS: Final = 10  # of a DECIMAL that says nothing
_FLOAT_DIGITS: Final = 6  # of a FLOAT, of which a server prints no more
_DOUBLE_DIGITS: Final = 15
_LONGEST_BIT: Final = 64
_DECIMAL_TEXT: Final = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)")
_NUMBER: Final = re.compile(rb"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


# Literals.


def integers(name: str, charset: str | None) -> Encoder:
    """The encoder of values that are whole numbers here."""

    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, int):
            raise wrong_type(value, name)
        return b"%d" % value

    return encode


def as_integer(charset: str | None) -> tuple[Usual, bytes]:
    """The compiled step of such an encoder."""
    return Usual.INTEGER, b""


def _decimals(name: str, charset: str | None) -> Encoder:
    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, str) or not _DECIMAL_TEXT.fullmatch(value):
            raise wrong_type(value, name)
        return value.encode()

    return encode


def _floats(name: str, charset: str | None) -> Encoder:
    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, float):
            raise wrong_type(value, name)
        return b"'" + repr(value).encode() + b"'"

    return encode


def exact_bound(column: TypedColumn, value: bytes) -> str:
    """A key's number as the literal that compares with the column exactly."""
    return _digits(column, value)


def _float_bound(column: TypedColumn, value: bytes) -> str:
    text = _digits(column, value)
    return text if "e" in text.lower() else f"{text}e0"


def _digits(column: TypedColumn, value: bytes) -> str:
    if not _NUMBER.fullmatch(value):
        raise ValueError(f"column {column.name}: {value!r} is not a number")
    return value.decode("ascii")


# DEFAULTs.


def number_text(text: str, made: Callable[[Decimal], Decimal]) -> str:
    """The normal text of a DEFAULT that is a number, after what the column makes of it."""
    try:
        return format(made(Decimal(text)).normalize() + 0, "f")
    except (InvalidOperation, ValueError):
        return text


def _whole_text(column: TypedColumn, text: str) -> str:
    return number_text(text, lambda value: value.quantize(Decimal(1), ROUND_HALF_UP))


def _decimal_text(column: TypedColumn, text: str) -> str:
    unit = Decimal(1).scaleb(-(column.decimals or 0))
    return number_text(text, lambda value: value.quantize(unit, ROUND_HALF_UP))


def _float_text(column: TypedColumn, text: str) -> str:
    return number_text(text, lambda value: Decimal(repr(float(value))))


def _zero(column: TypedColumn) -> str:
    return "0"


# Pairs.


def prints(target: TypedColumn) -> bool:
    """Whether the column takes the text of a number or a time unchanged."""
    return target.type.is_text or (target.type.is_bytes and not target.type.pads_with_zeros)


def _integer_widens(before: TypedColumn, after: TypedColumn) -> bool:
    of, to = before.type.name, after.type.name
    return after.type.is_integer and _BY_SIZE.index(of) <= _BY_SIZE.index(to)


def _integer_faithful(source: TypedColumn, target: TypedColumn) -> bool:
    return target.type.is_integer or target.type is DECIMAL


def _integer_keeps(source: TypedColumn, target: TypedColumn) -> bool:
    of, to = source.type, target.type
    if to is of or to.is_integer or to is DECIMAL:
        return True
    if to is DOUBLE:
        return of is not BIGINT
    if to is FLOAT:
        return of in (TINYINT, SMALLINT, YEAR)
    if to.is_bits:  # -1 has all of them set
        return source.unsigned or of is YEAR or (target.length or 1) < _LONGEST_BIT
    # Both servers cut a number in UTF-32 after 16 digits, without an error.
    return of is not YEAR and prints(target) and (of is not BIGINT or target.charset != "utf32")


def _decimal_widens(before: TypedColumn, after: TypedColumn) -> bool:
    if after.type is not DECIMAL:
        return False
    whole = [(column.length or _DIGITS) - (column.decimals or 0) for column in (before, after)]
    return whole[0] <= whole[1] and (before.decimals or 0) <= (after.decimals or 0)


def _decimal_faithful(source: TypedColumn, target: TypedColumn) -> bool:
    if target.type.is_integer:
        return not source.decimals
    return target.type is DECIMAL and (target.decimals or 0) >= (source.decimals or 0)


def _decimal_keeps(source: TypedColumn, target: TypedColumn) -> bool:
    to, digits = target.type, source.length or _DIGITS
    if to is DECIMAL:
        return (target.decimals or 0) >= (source.decimals or 0)
    if prints(target):
        return True
    if source.decimals:
        return False
    return to.is_integer or (to is DOUBLE and digits <= _DOUBLE_DIGITS) or (to is FLOAT and digits <= _FLOAT_DIGITS)


def _float_faithful(source: TypedColumn, target: TypedColumn) -> bool:
    same = (source.length, source.decimals) == (target.length, target.decimals)
    if target.type is source.type:
        return same or target.decimals is None
    # A DOUBLE(7,2) rounds the 0.1 of a FLOAT(7,2), which is none, to that of a DOUBLE.
    return target.type is DOUBLE and same and target.decimals is None


def _float_keeps(source: TypedColumn, target: TypedColumn) -> bool:
    # A column with decimals rounds a value with none, or with another number of them.
    if target.type is source.type:
        return target.decimals in (source.decimals, None)
    return target.type is DOUBLE and target.decimals is None


# Keys and rows. Equal numbers of different types hash alike: 5, 5.0 and Decimal("5.00") are one key.


def fold_itself(source: TypedColumn, target: TypedColumn, prefix: int | None) -> Fold:
    """Values are equal only if they are the same."""
    return itself


def _decimal_fold(source: TypedColumn, target: TypedColumn, prefix: int | None) -> Fold:
    return lambda value: Decimal(value) if isinstance(value, str) else value


def in_digits(column: TypedColumn) -> tuple[bytes, bytes]:
    """The digits of the value in hexadecimal, of a number or of short bytes."""
    return b"HEX(", b")"


def _as_decimal(column: TypedColumn) -> tuple[bytes, bytes]:
    return b"CAST(", b" AS DECIMAL(%d,%d))" % (column.length or _DIGITS, column.decimals or 0)


def _as_double(column: TypedColumn) -> tuple[bytes, bytes]:
    return b"(", b"+0e0)"


def _exact_float(name: bytes, encode: Encoder, column: TypedColumn, there: Dialect, indexed: bool) -> Comparison:
    # With digits (FLOAT(10,0)) MySQL compares with no number beyond the largest of so many, though it stores that one
    # rounded: 10000000000. A sum is compared as it is.
    start = name + (b"=" if column.length is None else b"+0e0=")
    signed_zero, sign = there.keeps_negative_zero, b" AND LEFT(CONCAT(" + name + b"),1)="

    def compare(value: Value) -> bytes:
        condition = start + encode(value)
        if value == 0 and signed_zero:
            condition += sign + (b"'-'" if str(value).startswith("-") else b"'0'")
        return condition

    return compare


def rounded(column: TypedColumn, value: str, there: Dialect) -> str:
    """What a column of whole numbers makes of an expression."""
    # A MariaDB cuts the fraction of a time.
    cut = f"IF(CONCAT{value} LIKE '%:%', TRUNCATE({value}, 0), ROUND({value}))"
    return f"ROUND({value})" if there.rounds_fractions else cut


def _computed_decimal(column: TypedColumn, value: str, there: Dialect) -> str:
    return f"CAST({value} AS DECIMAL({column.length or _DIGITS}, {column.decimals or 0}))"


def _computed_float(column: TypedColumn, value: str, there: Dialect) -> str:
    double = f"({value} + 0e0)"
    return double if column.decimals is None else f"ROUND({double}, {column.decimals})"


def as_sum(name: str) -> str:
    """The text of a column whose own text is not its number, as ZEROFILL's is not either."""
    return f"CAST({name} + 0 AS CHAR)"


def as_chars(name: str) -> str:
    """The text that a client sees."""
    return f"CAST({name} AS CHAR)"


def _product(name: str) -> str:
    # The text of a FLOAT has six digits, that of DOUBLE(M,D) has D decimals, and ZEROFILL puts zeros before a sign; a
    # product has all digits and no more (seen on MySQL 9.7, MariaDB 10.11). `+ 0e0` would lose the sign of -0.
    return f"{name} * 1e0"


# DDL.


def _named(name: str) -> Spelling:
    return lambda cursor, word: DataType(name, length_of(cursor))


def _read_bool(cursor: Cursor, word: str) -> DataType:
    return DataType("tinyint", 1)


def _read_serial(cursor: Cursor, word: str) -> DataType:
    return DataType("bigint", unsigned=True, serial=True)


def _read_year(cursor: Cursor, word: str) -> DataType:
    length_of(cursor)
    return bare(cursor, word)


def _read_decimal(cursor: Cursor, word: str) -> DataType:
    precision, scale = lengths_of(cursor)
    return DataType("decimal", precision or _DIGITS, scale or 0)


def _read_float(cursor: Cursor, word: str) -> DataType:
    name = "float"
    if word in ("DOUBLE", "FLOAT8"):
        cursor.accept("PRECISION")
        name = "double"
    elif word == "REAL" and not cursor.context.real_as_float:
        name = "double"
    length, decimals = lengths_of(cursor)
    if word == "FLOAT" and length is not None and decimals is None:
        # FLOAT(p): the precision in bits chooses the type and is then forgotten.
        return DataType("double" if length > 24 else "float")
    return DataType(name, length if decimals is not None else None, decimals)


def _both_lengths(column: TypedColumn) -> str:
    return "" if column.length is None else f"({column.length},{column.decimals or 0})"


def _decimal_mismatch(wire: WireType, column: WireColumn) -> str | None:
    tracked = (column.length if column.length is not None else _DIGITS, column.decimals or 0)
    if tracked != (wire.size, wire.scale):
        return f"it is DECIMAL{tracked} and the binlog has DECIMAL{(wire.size, wire.scale)}"
    return None


def _spark_integer(column: TypedColumn) -> str:
    return (_SPARK_UNSIGNED if column.unsigned else _SPARK)[_BY_SIZE.index(column.type.name)]


def _spark_decimal(column: TypedColumn) -> str:
    digits, scale = column.length or _DIGITS, column.decimals or 0
    return f"decimal({digits},{scale})" if digits <= _SPARK_DIGITS else ""


def _integer(name: str, code: WireCode) -> ColumnType:
    return ColumnType(
        name=name,
        is_integer=True,
        fills_64_bits=code == WireCode.LONGLONG,
        wire=WireForm((code,)),
        parameters=written_length,
        default_text=_whole_text,
        default_is_number=True,
        implicit_default=_zero,
        display_width=True,
        value_size=unlimited,
        widens=_integer_widens,
        faithful=_integer_faithful,
        keeps=_integer_keeps,
        fold=fold_itself,
        encodes=integers,
        usual=as_integer,
        exact=plainly,
        hashed=in_digits,
        compared="number",
        shown=as_chars,
        shown_as_text=True,
        value_of=int,
        sorted_alike=True,
        ordered=True,
        bound=exact_bound,
        computed=rounded,
        plain_text=True,
        operand="integer",
        spark="cast",
        spark_type=_spark_integer,
    )


def _float(name: str, code: WireCode) -> ColumnType:
    return ColumnType(
        name=name,
        is_float=True,
        is_single=code == WireCode.FLOAT,
        wire=WireForm((code,)),
        parameters=_both_lengths,
        default_text=_float_text,
        default_is_number=True,
        implicit_default=_zero,
        display_width=True,
        value_size=lambda column: (column.length, column.decimals),
        faithful=_float_faithful,
        keeps=_float_keeps,
        fold=fold_itself,
        encodes=_floats,
        usual=lambda charset: (Usual.FLOATING, b""),
        exact=_exact_float,
        hashed=_as_double,
        compared="float",
        shown=lambda column: as_chars(_product(column)),
        shown_as_text=True,
        value_of=float,
        ordered=True,
        selected=_product,
        bound=_float_bound,
        computed=_computed_float,
        plain_text=True,
        operand="float",
        spark="cast",
        spark_type=lambda column: name,
    )


INTEGERS: Final = tuple(_integer(name, code) for name, code in zip(_BY_SIZE, _CODES, strict=True))
TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT = INTEGERS
FLOAT: Final = _float("float", WireCode.FLOAT)
DOUBLE: Final = _float("double", WireCode.DOUBLE)
YEAR: Final = ColumnType(
    name="year",
    wire=WireForm((WireCode.YEAR,)),
    default_text=_whole_text,
    default_is_number=True,
    implicit_default=_zero,
    display_width=True,
    value_size=unlimited,
    keeps=_integer_keeps,
    fold=fold_itself,
    encodes=integers,
    usual=as_integer,
    exact=plainly,
    hashed=in_digits,
    compared="number",
    reads_as_number=True,
    shown=as_sum,
    shown_as_text=True,
    value_of=int,
    sorted_alike=True,
    ordered=True,
    bound=exact_bound,
    plain_text=True,
    operand="year",
    spark="cast",
    spark_type=lambda column: "smallint",
)
DECIMAL: Final = ColumnType(
    name="decimal",
    wire=WireForm((WireCode.NEWDECIMAL,), _decimal_mismatch),
    parameters=_both_lengths,
    default_text=_decimal_text,
    default_is_number=True,
    implicit_default=_zero,
    value_size=lambda column: (column.length or _DIGITS, column.decimals or 0),
    widens=_decimal_widens,
    faithful=_decimal_faithful,
    keeps=_decimal_keeps,
    fold=_decimal_fold,
    encodes=_decimals,
    usual=lambda charset: (Usual.DECIMAL, b""),
    exact=plainly,
    hashed=_as_decimal,
    compared="number",
    scale_place=1,
    shown=as_chars,
    shown_as_text=True,
    value_of=bytes.decode,
    sorted_alike=True,
    ordered=True,
    bound=exact_bound,
    computed=_computed_decimal,
    plain_text=True,
    operand="decimal",
    spark="cast",
    spark_type=_spark_decimal,
)
_SPELLED: Final = {
    "TINYINT": "tinyint", "INT1": "tinyint", "SMALLINT": "smallint", "INT2": "smallint", "MEDIUMINT": "mediumint",
    "INT3": "mediumint", "MIDDLEINT": "mediumint", "INT": "int", "INTEGER": "int", "INT4": "int", "BIGINT": "bigint",
    "INT8": "bigint",
}  # fmt: skip
FAMILY: Final = TypeFamily(
    (*INTEGERS, YEAR, DECIMAL, FLOAT, DOUBLE),
    {
        **{word: _named(name) for word, name in _SPELLED.items()},
        **dict.fromkeys(("BOOL", "BOOLEAN"), _read_bool),
        **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC", "FIXED"), _read_decimal),
        **dict.fromkeys(("FLOAT", "FLOAT4", "FLOAT8", "DOUBLE", "REAL"), _read_float),
        "SERIAL": _read_serial,
        "YEAR": _read_year,
    },
)
