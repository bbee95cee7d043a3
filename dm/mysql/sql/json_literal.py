"""JSON documents in SQL text: written with the types of their values, asked for these types, and how deep they are.

A document is written as a MySQL expression with the same value, types included. Text is enough for most documents (see
`dm.mysql.binlog.json_tree`). Otherwise the containers around a typed leaf become JSON_OBJECT and JSON_ARRAY, the leaf
becomes an expression of its type, and everything else stays CAST('text' AS JSON). The server makes of it the document
that the source stored.

Only columns have some of the types. JSON_TABLE makes columns of any type, and IF and IFNULL take the wider type of
their two values. Measured on MySQL 9.7, by reading the target's own binlog (tests/live/binlog): the same type and the
same bytes, except that a DECIMAL may be stored with another number of leading zeros, which no function shows. No
expression has one of the other types (TINYBLOB, for example), so a document with them pauses the task: it can't be
written exactly.

`types_expression` asks MySQL for the types inside a stored document, which its text does not say. The answer lists the
values whose type is not the one that their text would get, each with its number in the order in which the paths find
values, its type and its text; it is `NOTHING` where there is none. `dm.dumpfiles.literals` reads it. The server gives
NULL for a list that is longer than its max_allowed_packet, with a warning that nobody sees between those of other rows.

`depth_of` is for a MariaDB, whose JSON_VALID refuses deep documents. MySQL stores 100 levels (JSON_DOCUMENT_MAX_DEPTH),
MariaDB's functions read 31 (JSON_DEPTH_LIMIT is 32). A JSON column of a MariaDB has the check `json_valid`, so it
refuses a row whose document is deeper.
"""

from __future__ import annotations

import re
from typing import Final

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.binlog.json_decoder import opaque_text
from dm.mysql.binlog.json_tree import Integer, Opaque, Tree, TypedJson, tree_text, typed
from dm.mysql.binlog.value import Value
from dm.mysql.binlog.wire_type import WireCode
from dm.mysql.sql.literal import Encoder, quoted, wrong_type

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


# Whether the value is not what the server's reader of JSON makes of its text: up to 4294967295 it makes signed numbers,
# of greater ones unsigned. The first words are the most frequent: the server compares with one after the other.
_SPECIAL: Final = (
    "CASE JSON_TYPE({value}) WHEN 'STRING' THEN 0 WHEN 'INTEGER' THEN {value} > 4294967295 WHEN 'DOUBLE' THEN 0"
    " WHEN 'OBJECT' THEN 0 WHEN 'ARRAY' THEN 0 WHEN 'NULL' THEN 0 WHEN 'BOOLEAN' THEN 0"
    " WHEN 'UNSIGNED INTEGER' THEN {value} <= 4294967295 ELSE {value} IS NOT NULL END"
)
_LISTED: Final = (
    "(SELECT JSON_ARRAYAGG(JSON_ARRAY(o, JSON_TYPE(v), CAST(v AS CHAR))) FROM JSON_TABLE({document}, '{path}'"
    " COLUMNS (o FOR ORDINALITY, v JSON PATH '$')) t WHERE {special})"
)
# Most documents have no such value, and to look for one costs the server half of what listing none does.
_ANY: Final = "EXISTS (SELECT 1 FROM JSON_TABLE({document}, '{path}' COLUMNS (v JSON PATH '$')) t WHERE {special})"
NOTHING: Final = b"{}"
_PATHS: Final = ("$**.*", "$**[*]")  # members of objects, elements of arrays


def special_value(value: str) -> str:
    """Whether a JSON value is of another type than the one that the server's reader would give its text."""
    return _SPECIAL.format(value=value)


def types_expression(table: TableName, column: str) -> str:
    """What to select for the types of a JSON column: `NOTHING` where the document's text says everything."""
    document = f"{table.sql}.{Ident(column).sql}"
    special = special_value("v")
    found, (members, elements) = (
        [text.format(document=document, path=path, special=special) for path in _PATHS] for text in (_ANY, _LISTED)
    )
    whole = f"JSON_ARRAY(JSON_ARRAY(1, JSON_TYPE({document}), CAST({document} AS CHAR)))"
    return (
        f"CASE WHEN JSON_TYPE({document}) NOT IN ('OBJECT', 'ARRAY') THEN"
        f" IF({special_value(document)}, JSON_OBJECT('whole', {whole}), JSON_OBJECT())"
        f" WHEN {' OR '.join(found)} THEN JSON_OBJECT('members', {members}, 'elements', {elements})"
        " ELSE JSON_OBJECT() END"
    )


DEEPEST_AT_MARIADB: Final = 31
CHECK_FAILED_AT_MARIADB: Final = 4025  # ER_CONSTRAINT_FAILED
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def depth_of(document: bytes) -> int:
    """The most arrays and objects that are one inside another."""
    deepest = depth = 0
    for code in _STRING.sub(b"", document):
        if code in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif code in b"]}":
            depth -= 1
    return deepest
