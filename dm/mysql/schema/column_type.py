"""Data types: everything both servers' grammars accept, in one normal form.

The synonyms are those of sql_yacc.yy (rule `type` in MySQL, `field_type` in MariaDB) and of the manual's "Using Data
Types from Other Database Engines". Some mean more than a type: SERIAL, the national character types, BOOL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.mysql.sql.cursor import Cursor
from dm.mysql.sql.token import Token
from dm.type_family import LONG_SIZES

_BINARY_OF: Final = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}

_INTEGERS: Final = {
    "TINYINT": "tinyint", "INT1": "tinyint", "SMALLINT": "smallint", "INT2": "smallint", "MEDIUMINT": "mediumint",
    "INT3": "mediumint", "MIDDLEINT": "mediumint", "INT": "int", "INTEGER": "int", "INT4": "int", "BIGINT": "bigint",
    "INT8": "bigint",
}  # fmt: skip
_WITHOUT_LENGTH: Final = {
    "TINYTEXT": "tinytext", "MEDIUMTEXT": "mediumtext", "LONGTEXT": "longtext", "TINYBLOB": "tinyblob",
    "MEDIUMBLOB": "mediumblob", "LONGBLOB": "longblob", "JSON": "json", "DATE": "date", "GEOMETRY": "geometry",
    "POINT": "point", "LINESTRING": "linestring", "POLYGON": "polygon", "MULTIPOINT": "multipoint",
    "MULTILINESTRING": "multilinestring", "MULTIPOLYGON": "multipolygon", "GEOMETRYCOLLECTION": "geometrycollection",
    "GEOMCOLLECTION": "geometrycollection", "UUID": "uuid", "INET6": "inet6", "INET4": "inet4",
}  # fmt: skip
_GEOMETRIES: Final = frozenset(
    {"GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON"}
    | {"GEOMETRYCOLLECTION", "GEOMCOLLECTION"}
)


@dataclass(slots=True)
class DataType:
    """A data type while its column is being read."""

    base: str
    length: int | None = None
    decimals: int | None = None
    unsigned: bool = False
    members: tuple[str | bytes, ...] = ()  # bytes: in the column's character set
    charset: str | None = None
    collation: str | None = None
    binary: bool = False  # the attribute BINARY: the _bin collation
    serial: bool = False

    def to_binary(self) -> None:
        """Apply CHARACTER SET binary to a character type (Reference Manual, "The CHAR and VARCHAR Types")."""
        if self.base in _BINARY_OF:
            self.base, self.charset, self.collation, self.binary = _BINARY_OF[self.base], None, None, False


def sized(kind: str, size: int) -> str:
    """The smallest of the four BLOB or TEXT types that holds so many bytes."""
    for prefix, limit in LONG_SIZES:
        if size <= limit:
            return prefix + kind
    return "long" + kind


def _length(cursor: Cursor) -> int | None:
    if not cursor.accept("("):
        return None
    number = cursor.number()
    cursor.expect(")")
    return number


def _lengths(cursor: Cursor) -> tuple[int | None, int | None]:
    if not cursor.accept("("):
        return None, None
    first = cursor.number()
    second = cursor.number() if cursor.accept(",") else None
    cursor.expect(")")
    return first, second


def _number_attributes(cursor: Cursor, data_type: DataType) -> None:
    while word := cursor.accept_any("UNSIGNED", "SIGNED", "ZEROFILL"):
        data_type.unsigned = data_type.unsigned or word != "SIGNED"  # ZEROFILL implies UNSIGNED


def _charset_attributes(cursor: Cursor, data_type: DataType) -> None:
    """CHARACTER SET, ASCII, UNICODE, BYTE and BINARY, in the orders that the grammars allow."""
    while True:
        if cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET") or cursor.accept("CHARSET"):
            data_type.charset = cursor.take().text
        elif cursor.accept("ASCII"):
            data_type.charset = "latin1"
        elif cursor.accept("UNICODE"):
            data_type.charset = "ucs2"
        elif cursor.accept("BYTE"):
            data_type.charset = "binary"
        elif cursor.accept("BINARY"):
            data_type.binary = True
        elif cursor.accept("COMPRESSED"):  # MariaDB's storage format, without effect on the type
            if cursor.accept("="):
                cursor.name()
        else:
            break


def _fraction(cursor: Cursor, base: str) -> DataType:
    return DataType(base, decimals=_length(cursor) or 0)


def _character(cursor: Cursor, *, national: bool) -> DataType:
    """CHAR and VARCHAR in all spellings; the cursor is after their first word."""
    varying = cursor.accept("VARYING")
    data_type = DataType("varchar" if varying else "char", length=_length(cursor))
    if national:
        data_type.charset = "utf8mb3"
    return data_type


def _floating(cursor: Cursor, word: str) -> DataType:
    if word in ("DOUBLE", "FLOAT8"):
        cursor.accept("PRECISION")
        base = "double"
    elif word == "REAL":
        base = "float" if cursor.context.real_as_float else "double"
    else:
        base = "float"
    length, decimals = _lengths(cursor)
    if word == "FLOAT" and length is not None and decimals is None:
        # FLOAT(p): the precision in bits chooses the type and is then forgotten.
        return DataType("double" if length > 24 else "float")
    return DataType(base, length if decimals is not None else None, decimals)


def _long(cursor: Cursor) -> DataType:
    if cursor.accept("VARBINARY"):
        return DataType("mediumblob")
    if cursor.accept_any("CHAR", "CHARACTER"):
        cursor.expect("VARYING")
    else:
        cursor.accept_any("VARCHAR", "VARCHARACTER")
    return DataType("mediumtext")


def _members(cursor: Cursor) -> tuple[str | bytes, ...]:
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
    return tuple(members)


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


def _read(cursor: Cursor, word: str) -> DataType:
    if word in _INTEGERS:
        return DataType(_INTEGERS[word], _length(cursor))
    if word in _WITHOUT_LENGTH:
        if word in _GEOMETRIES and cursor.context.dialect.takes_geometry_lengths:
            _lengths(cursor)  # read and ignored
        return DataType(_WITHOUT_LENGTH[word])
    if word in ("BOOL", "BOOLEAN"):
        return DataType("tinyint", 1)
    if word == "SERIAL":
        return DataType("bigint", unsigned=True, serial=True)
    if word in ("DECIMAL", "DEC", "NUMERIC", "FIXED"):
        precision, scale = _lengths(cursor)
        return DataType("decimal", precision or 10, scale or 0)
    if word in ("FLOAT", "FLOAT4", "FLOAT8", "DOUBLE", "REAL"):
        return _floating(cursor, word)
    if word in ("CHAR", "CHARACTER"):
        return _character(cursor, national=False)
    if word in ("VARCHAR", "VARCHARACTER"):
        return DataType("varchar", _length(cursor))
    if word == "NCHAR":
        if cursor.accept_any("VARCHAR", "VARCHARACTER"):
            return DataType("varchar", _length(cursor), charset="utf8mb3")
        return _character(cursor, national=True)
    if word == "NVARCHAR":
        return DataType("varchar", _length(cursor), charset="utf8mb3")
    if word == "NATIONAL":
        if cursor.accept_any("VARCHAR", "VARCHARACTER"):
            return DataType("varchar", _length(cursor), charset="utf8mb3")
        if not cursor.accept_any("CHAR", "CHARACTER"):
            cursor.fail("expected a national character type")
        return _character(cursor, national=True)
    if word == "LONG":
        return _long(cursor)
    if word in ("TEXT", "BLOB"):
        return DataType(word.lower(), _length(cursor))
    if word in ("BINARY", "VARBINARY"):
        return DataType(word.lower(), _length(cursor))
    if word == "BIT":
        return DataType("bit", _length(cursor) or 1)
    if word == "YEAR":
        _length(cursor)
        return DataType("year")
    if word in ("TIME", "DATETIME", "TIMESTAMP"):
        return _fraction(cursor, word.lower())
    if word in ("ENUM", "SET"):
        return DataType(word.lower(), members=_members(cursor))
    if word == "VECTOR":
        return DataType("vector", _length(cursor) or 2048)
    cursor.at -= 1
    return cursor.fail("this data type is not known")


def read_type(cursor: Cursor) -> DataType:
    """Read a data type with its attributes."""
    data_type = _read(cursor, cursor.take().upper)
    _number_attributes(cursor, data_type)
    _charset_attributes(cursor, data_type)
    if data_type.base in ("char", "binary") and data_type.length is None:
        data_type.length = 1
    return data_type
