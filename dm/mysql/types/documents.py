"""JSON: documents in MySQL, texts with a check in MariaDB.

It travels as the text that a server prints; `dm.mysql.binlog.json_tree` keeps the types that the text loses. MariaDB's
JSON is an alias of LONGTEXT, so between the two servers a document is a LONGTEXT of utf8mb4.
"""

from __future__ import annotations

from typing import Final

from dm.mysql.binlog.table_map import WireForm
from dm.mysql.binlog.value import Value
from dm.mysql.binlog.wire_type import WireCode
from dm.mysql.dialect import Dialect
from dm.mysql.sql.cursor import Cursor
from dm.mysql.sql.literal import Encoder, Usual, printed
from dm.mysql.types.family import ColumnType, Comparison, DataType, TypedColumn, TypeFamily, unlimited
from dm.mysql.types.numbers import as_chars
from dm.mysql.types.strings import LONGTEXT, keeps_characters

CHARSET: Final = "utf8mb4"


def _read(cursor: Cursor, word: str) -> DataType:
    return DataType(LONGTEXT.name if cursor.context.dialect.json_is_text else "json", document=True)


def _keeps(source: TypedColumn, target: TypedColumn) -> bool:
    # Sent as text, which never ends in white space.
    return target.type is JSON or (target.type.is_text and keeps_characters(CHARSET, target.charset))


def _exact(name: bytes, encode: Encoder, column: TypedColumn, there: Dialect, indexed: bool) -> Comparison:
    """The same printed form: JSON itself compares numbers by value. The literal is converted through the type."""
    start = b"CAST(CAST(" + name + b" AS CHAR) AS BINARY)=CAST(CAST(CAST("
    end = b" AS JSON) AS CHAR) AS BINARY)"

    def compare(value: Value) -> bytes:
        return start + encode(value) + end

    return compare


JSON: Final = ColumnType(
    name="json",
    is_document=True,
    wire=WireForm((WireCode.JSON, WireCode.BLOB), document=True),
    value_size=unlimited,
    keeps=_keeps,
    encodes=printed,
    usual=lambda charset: (Usual.PRINTED, b""),
    exact=_exact,
    long=True,
    outside=True,
    compared="document",
    large=True,
    shown=as_chars,
    shown_as_text=True,
    value_of=bytes.decode,
    text_charset=CHARSET,
    spark="text",
)
FAMILY: Final = TypeFamily((JSON,), {"JSON": _read})


def may_hold_documents(of: ColumnType) -> bool:
    """Whether it is JSON or LONGTEXT, which are one type in MariaDB."""
    return of in (JSON, LONGTEXT)
