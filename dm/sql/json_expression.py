"""A JSON document as an expression of MySQL whose value it is, types included.

Text is enough for most documents (see `dm.binlog.json_tree`). Where it is not, the containers on the way to a typed
leaf become JSON_OBJECT and JSON_ARRAY, the leaf a CAST to its type, and everything else stays CAST('text' AS JSON):
what the server makes of it is the document that the source stored. (Measured on MySQL 9.7, by reading the target's own
binlog: tests/live/binlog/test_json_types.py.)

Bytes have a column type inside JSON. A literal of bytes gives one of these types, and nothing that can stand in an
expression gives the others, so a document with them pauses the task: it can't be written there as it is.
"""

from __future__ import annotations

from typing import Final

from dm.binlog.json_text import opaque_text
from dm.binlog.json_tree import Integer, Opaque, Tree, TypedJson, tree_text, typed
from dm.binlog.value import Value
from dm.binlog.wire_type import WireCode
from dm.errors import DMError
from dm.sql.literal import quoted, wrong_type

_CASTS: Final[dict[int, bytes]] = {
    WireCode.DATE: b"DATE",
    WireCode.TIME: b"TIME(6)",
    WireCode.DATETIME: b"DATETIME(6)",
}
_BYTES: Final = WireCode.VAR_STRING  # the type of a literal of bytes


def encode_document(value: Value) -> bytes:
    """The encoder of a JSON column of MySQL: text, or an expression where the text does not say everything."""
    if value is None:
        return b"NULL"
    if isinstance(value, TypedJson):
        return json_expression(value.tree)
    if not isinstance(value, str):
        raise wrong_type(value, "json")
    return quoted(value.encode())


def json_expression(tree: Tree) -> bytes:
    """The document as an SQL expression; raises DMError where a leaf has a type that no expression has."""
    if isinstance(tree, dict | list):
        return _node(tree)
    # A leaf alone is no document to the server; the element of an array is.
    return b"JSON_EXTRACT(JSON_ARRAY(" + _node(tree) + b"),'$[0]')"


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
        return b"CAST(%s AS DECIMAL(%d,%d))" % (opaque_text(code, raw).encode(), raw[0], raw[1])
    cast = _CASTS.get(code)
    if cast is not None:
        return b"CAST('" + opaque_text(code, raw).strip('"').encode() + b"' AS " + cast + b")"
    if code == _BYTES:
        return b"0x" + raw.hex().encode() if raw else b"_binary ''"
    raise DMError("json-value-inexpressible", type=code)
