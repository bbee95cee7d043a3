"""Rows of a chunk file as the VALUES of an INSERT, built column by column in Arrow.

Problem: values must arrive as the bytes that the source sent, whatever their type, and making them literals one by one
in Python would be the slowest step of a load.

The session's character set is binary (`introduced`: utf8mb4, and the literal says that it is bytes), so a quoted
literal is a string of bytes which the server stores in the column's own character set without converting it. The
sql_mode has no NO_BACKSLASH_ESCAPES, so two characters need an escape, the backslash and the quote. Every value is
quoted, numbers too: unquoted, -0 becomes the integer 0, and a long DECIMAL would pass through the parser's number
rules. Exceptions, each seen on a server: JSON does not accept a binary string, so it is converted; bytes of BIT,
BLOB, GEOMETRY and VECTOR say that they are bytes (`_binary`), which keeps the server from looking at them as
characters; UUID and INET values of MariaDB take text only, binary strings they read as raw bytes.

A JSON document of MySQL whose text does not say all its types becomes an expression (`dm.mysql.sql.literal`). Such
expressions need a session that speaks utf8mb4, and then each literal of characters says that it is bytes.

What stands around the statements of an SQL chunk file.

Such a file is for many readers: the `mysql` client, myloader, TiDB Lightning, and our own load. All of them understand
a header of executable comments, as dumpling and mydumper write it, and pass over a comment line at the end. That line
is our footer: what the chunk is, how long the text before it is and its SHA-256. A file without it was not finished,
one that is longer, shorter or different is damaged.

The header fixes what the text depends on. The character set is binary, so that a quoted value is the bytes it holds;
the mode takes zeros and dates as they are and nothing else that would have to be changed. An ENUM's error value is
refused in a strict session; where the first one comes, the file asks for a lenient one, and it says how many there are.

The types inside JSON documents of MySQL, which their text does not say.

Problem: a document that was made of columns (`JSON_OBJECT('price', price, 'day', day)`) holds DECIMALs, dates, bytes
and unsigned numbers. Its text shows `1.50`, `"2024-01-01"`, `"base64:type15:.."` and `7`, and a server that reads the
text back makes a DOUBLE, strings and a signed number of them (see `dm.mysql.binlog.json_tree`). Nothing gives the
stored bytes by SQL, and neither comparing nor measuring the document tells a DECIMAL from a DOUBLE. What tells them is
JSON_TYPE, value by value.

So beside the document the server is asked for the values whose type is not the one that their text would get
(`dm.mysql.sql.literal`): for each its number in the order in which the paths `$**.*` (members of objects) and `$**[*]`
(elements of arrays) find values, its type and its text. That order is the server's: all children of a container, then
what is below each of them. Here the text is read into a tree, the tree is walked in the same order, and every listed
value must stand where it is said to: if it does not, this is an error and not a guess.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Final

import pyarrow
from pyarrow import compute

from dm.changes.computing import TEXT, ZERO
from dm.dumpfiles.chunk_plan import counted
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.charset import decoder_of
from dm.mysql.binlog.json_tree import Integer, Number, Opaque, Tree
from dm.mysql.binlog.value import decimal_bytes
from dm.mysql.binlog.wire_type import WireCode
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.json_literal import json_expression
from dm.text import is_decimal

_QUOTE: Final = ("'", "'")
_BYTES: Final = ("_binary'", "'")
_JSON: Final = ("CONVERT('", "' USING utf8mb4)")

# A row may be 1 GiB, an Arrow array of bytes must stay below 2 GiB also when it is escaped.
_LARGEST_SLICE = 1 << 27


# In a file for other tools; their readers stop at some of these, or change them.
_TEXT_ESCAPES = ((b"\0", b"\\0"), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\x1a", b"\\Z"))


def _wrapping(column: Column, text: bool, introduced: bool) -> tuple[str, str]:
    if column.type.is_document:
        return _JSON
    if column.type.text_charset is not None:
        return f"_{column.type.text_charset}'", "'"
    if text or column.type.plain_text or (column.type.has_charset and not introduced):
        return _QUOTE
    return _BYTES


def _moments(values: pyarrow.Array, parts: Sequence[str]) -> pyarrow.Array:
    """The literals of TIMESTAMPs that mean the same in any zone."""
    pieces = [values if part == TEXT else pyarrow.scalar(part.encode(), pyarrow.binary()) for part in parts]
    empty, quote = (pyarrow.scalar(part, pyarrow.binary()) for part in (b"", b"'"))
    moments = compute.binary_join_element_wise(*pieces, empty)
    zeros = compute.binary_join_element_wise(quote, values, quote, empty)
    found = compute.if_else(compute.starts_with(values, pattern=ZERO.decode()), zeros, moments)
    return compute.fill_null(found, pyarrow.scalar(b"NULL", pyarrow.binary()))


def _literals(values: pyarrow.Array, column: Column, text: bool, introduced: bool) -> pyarrow.Array:
    if counted(column):  # a number, which in quotes would be the text of a member
        return compute.fill_null(values, pyarrow.scalar(b"NULL", pyarrow.binary()))
    if not column.type.plain_text:
        values = compute.replace_substring(values, pattern=b"\\", replacement=b"\\\\")
        values = compute.replace_substring(values, pattern=b"'", replacement=b"\\'")
        for pattern, replacement in _TEXT_ESCAPES if text else ():
            values = compute.replace_substring(values, pattern=pattern, replacement=replacement)
    before, after = (pyarrow.scalar(part.encode(), pyarrow.binary()) for part in _wrapping(column, text, introduced))
    quoted = compute.binary_join_element_wise(before, values, after, pyarrow.scalar(b"", pyarrow.binary()))
    return compute.fill_null(quoted, pyarrow.scalar(b"NULL", pyarrow.binary()))


def _recoded(values: pyarrow.Array, column: Column, in_utf8: Collection[str]) -> pyarrow.Array:
    if column.charset not in in_utf8 or not column.type.is_text:
        return values
    decode = decoder_of(column.charset)
    assert decode is not None
    texts = (each if each is None or each.isascii() else decode(each) for each in values.to_pylist())
    return pyarrow.array([each.encode() if isinstance(each, str) else each for each in texts], pyarrow.binary())


def error_values(batch: pyarrow.RecordBatch, columns: Sequence[Column]) -> int:
    """How many values are an ENUM's error value, which only a lenient session takes back."""
    found = 0
    for at, column in enumerate(columns):
        if column.type.is_enum:
            error = pyarrow.scalar(b"0" if counted(column) else b"", pyarrow.binary())
            found += compute.sum(compute.equal(batch.column(at), error)).as_py() or 0
    return found


def sliced(batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    """The batch in pieces whose values Arrow can escape and join."""
    if batch.nbytes <= _LARGEST_SLICE or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from sliced(batch.slice(0, half))
    yield from sliced(batch.slice(half))


def constant_literal(value: bytes, column: Column) -> bytes:
    """A value that is the same in all rows, in UTF-8 whatever the session's character set is."""
    introducer = b"_binary" if column.charset is None else b"_utf8mb4"
    return introducer + b" 0x" + value.hex().encode() if value else b"''"


def naming_key(schema: TableSchema) -> tuple[str, ...]:
    """The columns that name a row to a person: those of a unique key whose values are all dumped; none without one."""
    stored = {column.name for column in schema.columns if column.generated is None}
    keys = (index.columns for index in schema.unique_indexes if not index.functional)
    return next((key for key in keys if stored.issuperset(key)), ())


def shown_row(batch: pyarrow.RecordBatch, row: int, key: Sequence[str]) -> str:
    """A row for a person: the values of its key, or its number where it has none."""
    values = [f"{name}={shown_value(batch.column(name)[row].as_py())}" for name in key]
    return ", ".join(values) or f"number {row + 1} of its group"


def shown_value(value: bytes | None) -> str:
    """A value for a person: a number, a text in quotes, or its bytes."""
    if value is None:
        return "NULL"
    text = value.decode("utf-8", "replace")
    if not text.isprintable() or "\ufffd" in text:
        return f"0x{value.hex()}"
    return text if is_decimal(text.lstrip("-")) else f"'{text}'"


@dataclass(frozen=True, slots=True)
class TypedDocuments:
    """That the types inside JSON documents count: the file has them, and so has the target."""

    table: TableName
    key: tuple[str, ...]  # columns that name a row to a person


def _documents(
    texts: pyarrow.Array, batch: pyarrow.RecordBatch, column: Column, typed: TypedDocuments
) -> pyarrow.Array:
    """The literals of a JSON column, with expressions for those whose text is not enough."""
    name = types_column(column.name)
    if name not in batch.schema.names or batch.column(name).null_count == batch.num_rows:
        return texts
    found = texts.to_pylist()
    values, types = batch.column(column.name), batch.column(name)
    for row in range(batch.num_rows):
        if types[row].is_valid:
            try:
                found[row] = json_expression(typed_tree(values[row].as_py(), types[row].as_py()), column.name)
            except DMError as error:
                if error.name != "json-value-inexpressible":
                    raise
                raise DMError(
                    "load-json-inexpressible",
                    table=typed.table,
                    row=shown_row(batch, row, typed.key),
                    column=column.name,
                    type=error.details["type"],
                ) from error
    return pyarrow.array(found, pyarrow.binary())


def row_literals(
    batch: pyarrow.RecordBatch,
    columns: Sequence[Column],
    constants: Sequence[bytes] = (),
    *,
    text: bool = False,
    typed: TypedDocuments | None = None,
    in_utf8: Collection[str] = (),
    moments: Sequence[str] = (),
) -> Iterator[bytes]:
    """Each row of the batch as `(value,value,..)`; `columns` are its first ones, in order, `constants` follow.

    With `text` it is for a file that other tools read as well. With `typed` documents the session's character set must
    be utf8mb4, else binary. Values of the character sets `in_utf8` are written in UTF-8. With `moments`, the parts of
    such a literal, TIMESTAMPs mean the same in sessions of any zone.
    """
    tail = b"".join(b"," + constant for constant in constants) + b")"
    if not columns:  # all are generated: the rows have nothing but their number
        yield from [b"(" + tail.lstrip(b",")] * batch.num_rows
        return
    for piece in sliced(batch):
        if piece.num_rows == 0:
            continue
        given = (_recoded(piece.column(at), column, in_utf8) for at, column in enumerate(columns))
        texts = [_literals(each, column, text, typed is not None) for each, column in zip(given, columns, strict=True)]
        for at, column in enumerate(columns):
            if typed is not None and column.type.is_document:
                texts[at] = _documents(texts[at], piece, column, typed)
            elif moments and column.type.is_moment:
                texts[at] = _moments(piece.column(at), moments)
        comma = pyarrow.scalar(b",", pyarrow.binary())
        joined = compute.binary_join_element_wise(*texts, comma)
        for row in joined.to_pylist():
            yield b"(" + row + tail


# What the source holds was accepted by some server under some mode; at the target it must be stored as it is or not at
# all. An ENUM's error value (what a lenient session once made of a wrong text) is refused by a strict session, so rows
# that have some are written by a lenient one, in which nothing else may be complained of.
STRICT_MODE: Final = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,STRICT_ALL_TABLES"
LENIENT_MODE: Final = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"
_NO_CHECKS: Final = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n"
# Not binary as in dumpling's: members of an ENUM or SET would become other characters where the column isn't UTF-8.
SCHEMA_HEADER: Final = f"{_NO_CHECKS}/*!40101 SET NAMES utf8mb4*/;\n"


def _mode(mode: str) -> str:
    return f"/*!40101 SET SQL_MODE='{mode}'*/;\n"


HEADER: Final = (
    f"{_NO_CHECKS}/*!40101 SET NAMES binary*/;\n/*!40103 SET TIME_ZONE='+00:00'*/;\n{_mode(STRICT_MODE)}".encode()
)
LENIENT: Final = _mode(LENIENT_MODE).encode()

_MARK: Final = b"\n-- dm.chunk "  # no value has a line break as it is, so this can't stand inside of one
_WINDOW: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class SqlTrailer:
    """The last line of a chunk file."""

    body: int  # bytes before it
    sha256: str  # of these
    error_values: int  # of ENUM columns: each gives one warning
    footer: str  # the chunk's footer, as JSON

    def line(self) -> bytes:
        """The line, after a body that ends with a line break."""
        return _MARK[1:] + json.dumps(asdict(self)).encode("ascii") + b"\n"


def read_trailer(file: BinaryIO, name: str) -> SqlTrailer:
    """The trailer of a file; raises DMError where the file has none or is not as long as it says."""
    size = file.seek(0, 2)
    window = 0
    at = -1
    tail = b""
    while at < 0 and window < size:
        window = min(size, max(_WINDOW, window * 4))
        file.seek(size - window)
        tail = file.read(window)
        at = tail.rfind(_MARK)
    if at < 0:
        raise DMError("dump-file-damaged", file=name, why="its last line is missing")
    line = tail[at + 1 :]
    try:
        trailer = SqlTrailer(**json.loads(line[len(_MARK) - 1 :]))
    except (ValueError, TypeError) as error:
        raise DMError("dump-file-damaged", file=name, why=f"its last line can't be read: {error}") from error
    if trailer.body + len(line) != size or not line.endswith(b"\n"):
        raise DMError("dump-file-damaged", file=name, why=f"{size} bytes instead of {trailer.body + len(line)}")
    return trailer


_JSON_BYTES: Final = re.compile(r"base64:type(\d+):([A-Za-z0-9+/=\n]*)")
_TIME: Final = re.compile(r"(-?)(?:(\d{4})-(\d\d)-(\d\d))?(?: ?(\d\d\d?):(\d\d):(\d\d)\.(\d{6}))?")
_TEMPORAL: Final = {
    "DATE": WireCode.DATE,
    "TIME": WireCode.TIME,
    "DATETIME": WireCode.DATETIME,
    "TIMESTAMP": WireCode.TIMESTAMP,
}


def types_column(column: str) -> str:
    """Under which name the types of a column's documents are kept; no column of a server ends with a space."""
    return f"{column} (types) "


def typed_tree(text: bytes, types: bytes) -> Tree:
    """The document with its types; raises DMError where the two do not go together."""
    tree = _read(text.decode())
    listed = json.loads(types)
    if "whole" in listed:
        (_, kind, shown), *_ = listed["whole"]
        return _leaf(tree, kind, shown)
    places = _ValuesInOrder()
    places.walk(tree)
    for found, where in (("members", places.members), ("elements", places.elements)):
        for number, kind, shown in listed[found] or ():
            if not 1 <= number <= len(where):
                raise _disagree(shown)
            value, put = where[number - 1]
            put(_leaf(value, kind, shown))
    return tree


class _ValuesInOrder:
    """All values of a tree in the server's order, each with how to replace it."""

    def __init__(self) -> None:
        self.members: list[tuple[Tree, Callable[[Tree], None]]] = []
        self.elements: list[tuple[Tree, Callable[[Tree], None]]] = []

    def walk(self, tree: Tree) -> None:
        """Take in what is below."""
        children: list[Tree] = []
        if isinstance(tree, dict):
            children = list(tree.values())
            self.members.extend((value, _putter(tree, name)) for name, value in tree.items())
        elif isinstance(tree, list):
            children = tree
            self.elements.extend((value, _putter(tree, at)) for at, value in enumerate(tree))
        for child in children:
            self.walk(child)


def _putter(container: Any, key: str | int) -> Callable[[Tree], None]:
    def put(value: Tree) -> None:
        container[key] = value

    return put


def _read(text: str) -> Tree:
    tree: Tree = json.loads(text, parse_int=Number, parse_float=Number)
    return tree


def _disagree(shown: str) -> DMError:
    return DMError("json-types-disagree", value=shown)


def _leaf(value: Tree, kind: str, shown: str) -> Tree:
    """The value with its type."""
    found = _read(shown)
    if not isinstance(value, str) or type(found) is not type(value) or found != value:
        raise _disagree(shown)
    if kind in ("INTEGER", "UNSIGNED INTEGER"):
        return Integer(int(value), kind == "UNSIGNED INTEGER")
    if kind == "DECIMAL":
        return Opaque(WireCode.NEWDECIMAL, decimal_bytes(value))
    if kind in _TEMPORAL:
        return Opaque(_TEMPORAL[kind], time_bytes(value))
    held = _JSON_BYTES.fullmatch(value)
    if held is None:
        raise _disagree(shown)
    return Opaque(int(held[1]), base64.b64decode(held[2]))


def time_bytes(text: str) -> bytes:
    """A date or time as it is stored inside a document; the inverse of its text."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise _disagree(text)
    sign, *parts = found.groups()
    year, month, day, hour, minute, second, micros = (int(part or 0) for part in parts)
    date = (year * 13 + month) << 5 | day
    packed = ((date << 17 | hour << 12 | minute << 6 | second) << 24) + micros
    return (-packed if sign else packed).to_bytes(8, "little", signed=True)
