"""A JSON document as a MySQL expression with the same value, types included.

Text is enough for most documents (see `dm.binlog.json_tree`). Otherwise the containers around a typed leaf become
JSON_OBJECT and JSON_ARRAY, the leaf becomes an expression of its type, and everything else stays CAST('text' AS JSON).
The server makes of it the document that the source stored.

Only columns have some of the types. JSON_TABLE makes columns of any type, and IF and IFNULL take the wider type of
their two values. Measured on MySQL 9.7, by reading the target's own binlog (tests/live/binlog): the same type and the
same bytes, except that a DECIMAL may be stored with another number of leading zeros, which no function shows. No
expression has one of the other types (TINYBLOB, for example), so a document with them pauses the task: it can't be
written exactly.
"""

from __future__ import annotations

from typing import Final

from dm.binlog.json_decoder import opaque_text
from dm.binlog.json_tree import Integer, Opaque, Tree, TypedJson, tree_text, typed
from dm.binlog.value import Value
from dm.binlog.wire_type import WireCode
from dm.errors import DMError
from dm.sql.literal import Encoder, quoted, wrong_type

_CASTS: Final[dict[int, bytes]] = {
    WireCode.DATE: b"DATE",
    WireCode.TIME: b"TIME(6)",
    WireCode.DATETIME: b"DATETIME(6)",
}
# The second argument that gives an expression its type; it is never evaluated.
_BESIDE: Final[dict[int, bytes]] = {
    WireCode.MEDIUM_BLOB: b"CAST('' AS BINARY(70000))",
    WireCode.LONG_BLOB: b"REPEAT(0x00,17000000)",
}
_LARGEST_DECIMAL: Final = 65


class _Inexpressible(Exception):
    """A value of a type that no expression has."""

    def __init__(self, code: int) -> None:
        super().__init__(f"type {code}")
        self.code = code


def document_encoder(column: str) -> Encoder:
    """The encoder of a JSON column of MySQL: text, or an expression if the text loses types."""

    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if isinstance(value, TypedJson):
            return json_expression(value.tree, column)
        if not isinstance(value, str):
            raise wrong_type(value, "json")
        return quoted(value.encode())

    return encode


def json_expression(tree: Tree, column: str) -> bytes:
    """The document as an SQL expression; raises DMError if a leaf has a type that no expression has."""
    try:
        if isinstance(tree, dict | list):
            return _node(tree)
        # The server accepts a leaf as the element of an array, not alone.
        return b"JSON_EXTRACT(JSON_ARRAY(" + _node(tree) + b"),'$[0]')"
    except _Inexpressible as error:
        raise DMError("json-value-inexpressible", type=error.code, column=column) from error


def _node(tree: Tree) -> bytes:
    if not typed(tree):
        return b"CAST(" + quoted(tree_text(tree).encode()) + b" AS JSON)"
    if isinstance(tree, dict):
        members = [quoted(name.encode()) + b"," + _node(value) for name, value in tree.items()]
        return b"JSON_OBJECT(" + b",".join(members) + b")"
    if isinstance(tree, list):
        return b"JSON_ARRAY(" + b",".join(map(_node, tree)) + b")"
    if isinstance(tree, Integer):
        return b"CAST(" + tree.encode() + (b" AS UNSIGNED)" if tree.unsigned else b" AS SIGNED)")
    assert isinstance(tree, Opaque)
    return _opaque(tree)


def _opaque(value: Opaque) -> bytes:
    code, raw = value
    if code == WireCode.NEWDECIMAL:
        return b"CAST(%s AS DECIMAL(%d,%d))" % (
            opaque_text(code, raw).encode(),
            min(raw[0], _LARGEST_DECIMAL),
            raw[1],
        )
    if code in _CASTS:
        return b"CAST('" + opaque_text(code, raw).strip('"').encode() + b"' AS " + _CASTS[code] + b")"
    if code == WireCode.TIMESTAMP:
        return _column(b"'[" + opaque_text(code, raw).encode() + b"]'", b"TIMESTAMP(6)")
    if code == WireCode.BIT:
        return _column(b"'[%d]'" % int.from_bytes(raw, "big"), b"BIT(%d)" % (8 * len(raw)))
    literal = b"0x" + raw.hex().encode() if raw else b"x''"
    if code == WireCode.VARCHAR:
        return literal
    if code == WireCode.STRING:
        return _column(b"JSON_ARRAY(" + literal + b")", b"BINARY(%d)" % len(raw))
    if code == WireCode.BLOB:
        return _column(b"'[null]'", b"BLOB", b"IFNULL(v," + literal + b")")
    if code in _BESIDE:
        return b"IFNULL(" + literal + b"," + _BESIDE[code] + b")"
    raise _Inexpressible(code)


def _column(document: bytes, column_type: bytes, value: bytes = b"v") -> bytes:
    """The value of a column of that type, filled from an array of one element."""
    # What can't be converted would be NULL without the ERROR clause.
    column = b"v " + column_type + b" PATH '$' ERROR ON EMPTY ERROR ON ERROR"
    return b"(SELECT " + value + b" FROM JSON_TABLE(" + document + b",'$[*]' COLUMNS(" + column + b")) t)"
