"""JSON documents as trees, for the types that their text loses.

A MySQL document has more types than its text shows. A DECIMAL prints like a DOUBLE, a date like a string, bytes as
"base64:..", and an unsigned number like a signed one. A server that reads the text back makes DOUBLE, string and signed
number of them: 12345678901234567890.123 loses digits, and JSON_TYPE answers differently. Documents that clients write
as text have none of these types. So the fast path (`json_text`) only notices whether a document has one. Such a
document is read a second time, to a tree whose leaves keep their types. The text carries the tree along (`TypedJson`),
and a writer to a MySQL column makes an expression of it.

Which integers do not come back from their text was measured on MySQL 9.7: the reader makes a signed number of
everything up to 4294967295, and an unsigned one of greater numbers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from dm.mysql.binlog.cursor import Malformed
from dm.mysql.binlog.json_decoder import (
    ARRAYS,
    DOUBLE,
    DOUBLE_STRUCT,
    INT16,
    INT32,
    INTEGERS,
    LARGE_ARRAY,
    LARGE_HEAD,
    LARGE_OBJECT,
    LITERAL,
    LITERALS,
    MAX_DEPTH,
    OBJECTS,
    OPAQUE,
    SMALL_HEAD,
    STRING,
    UINT16,
    UINT32,
    UINT64,
    Budget,
    double_text,
    opaque_text,
    quote,
    read_text,
    string_span,
)

_UNSIGNED: Final = (UINT16, UINT32, UINT64)
_UNSIGNED_FROM: Final = 1 << 32  # the reader of JSON text makes greater numbers unsigned


class Number(str):
    """A number as the server printed it; its text gives the same number of the same type."""

    __slots__ = ()


class Integer(Number):
    """A whole number whose text would give the type of the other sign."""

    __slots__ = ("unsigned",)

    unsigned: bool

    def __new__(cls, value: int, unsigned: bool) -> Integer:
        """The number and its stored type."""
        made = super().__new__(cls, str(value))
        made.unsigned = unsigned
        return made

    def __getnewargs__(self) -> tuple[int, bool]:  # type: ignore[override]  # for another process
        return int(self), self.unsigned


class Opaque(NamedTuple):
    """A value unknown to JSON: its column type and its bytes."""

    code: int
    raw: bytes


Tree = None | bool | str | Opaque | list["Tree"] | dict[str, "Tree"]


class TypedJson(str):
    """A document's text, and the tree with the types that the text loses."""

    __slots__ = ("tree",)

    tree: Tree

    def __new__(cls, text: str, tree: Tree) -> TypedJson:
        """The text of the tree, with the tree."""
        made = super().__new__(cls, text)
        made.tree = tree
        return made

    def __getnewargs__(self) -> tuple[str, Tree]:  # type: ignore[override]  # for another process
        return str(self), self.tree


def typed(tree: Tree) -> bool:
    """Whether some leaf differs from its text."""
    if isinstance(tree, dict):
        return any(map(typed, tree.values()))
    if isinstance(tree, list):
        return any(map(typed, tree))
    return isinstance(tree, Opaque | Integer)


def tree_text(tree: Tree) -> str:
    """The tree as the server prints it."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{quote(key)}: {tree_text(value)}" for key, value in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(map(tree_text, tree)) + "]"
    if isinstance(tree, Opaque):
        return opaque_text(tree.code, tree.raw)
    if isinstance(tree, Number):
        return str(tree)
    if isinstance(tree, str):
        return quote(tree)
    return "null" if tree is None else "true" if tree else "false"


def json_value(doc: bytes) -> str:
    """The value of a JSON column: its text, as `TypedJson` if the text loses types."""
    text, plain = read_text(doc)
    return text if plain else TypedJson(text, json_tree(doc))


def value_of(tree: Tree) -> str:
    """The value of a JSON column that holds this tree."""
    text = tree_text(tree)
    return TypedJson(text, tree) if typed(tree) else text


def json_tree(doc: bytes) -> Tree:
    """The tree of a stored document; an empty one means JSON null."""
    return _value(doc, doc[0], 1, 1, Budget(len(doc))) if doc else None


def _value(doc: bytes, code: int, at: int, depth: int, budget: Budget) -> Tree:
    if code in OBJECTS or code in ARRAYS:
        return _container(doc, code, at, depth, budget)
    if code in (STRING, OPAQUE):
        raw = string_span(doc, at if code == STRING else at + 1, budget)
        if code == STRING:
            return raw.decode()
        opaque_text(doc[at], raw)  # raises if the bytes do not match the type
        return Opaque(doc[at], raw)
    if code == DOUBLE:
        return Number(double_text(DOUBLE_STRUCT.unpack_from(doc, at)[0]))
    if code == LITERAL:
        return _literal(doc[at])
    if code in INTEGERS:
        return _integer(INTEGERS[code].unpack_from(doc, at)[0], code in _UNSIGNED)
    raise Malformed(f"JSON value type {code} is not known")


def _literal(number: int) -> bool | None:
    if number not in LITERALS:
        raise Malformed("a JSON literal is not known")
    return None if number == 0 else number == 1


def _integer(value: int, unsigned: bool) -> Number:
    return Number(value) if unsigned == (value >= _UNSIGNED_FROM) else Integer(value, unsigned)


def _container(doc: bytes, code: int, base: int, depth: int, budget: Budget) -> Tree:
    if depth > MAX_DEPTH:
        raise Malformed("a JSON document is too deep")
    large = code in (LARGE_OBJECT, LARGE_ARRAY)
    width = 4 if large else 2
    count, size = (LARGE_HEAD if large else SMALL_HEAD).unpack_from(doc, base)
    if base + size > len(doc) or count > size:
        raise Malformed("a JSON container is longer than its document")
    budget.spend_elements(count)
    entries = base + 2 * width
    names: list[str] = []
    if code in OBJECTS:
        for _ in range(count):
            start = base + int.from_bytes(doc[entries : entries + width], "little")
            length = int.from_bytes(doc[entries + width : entries + width + 2], "little")
            budget.spend_text(length)
            names.append(_span(doc, start, length).decode())
            entries += width + 2
    values: list[Tree] = []
    inlined = (LITERAL, INT16, UINT16, INT32, UINT32) if large else (LITERAL, INT16, UINT16)
    for _ in range(count):
        kind = doc[entries]
        at = entries + 1 if kind in inlined else base + int.from_bytes(doc[entries + 1 : entries + 1 + width], "little")
        if kind not in inlined and entries + 1 + width > len(doc):
            raise Malformed("a JSON container is cut off")
        values.append(_value(doc, kind, at, depth + 1, budget))
        entries += 1 + width
    if code in OBJECTS:
        return dict(zip(names, values, strict=True))
    return values


def _span(doc: bytes, start: int, length: int) -> bytes:
    raw = doc[start : start + length]
    if len(raw) != length:
        raise Malformed("a JSON key ends after its document")
    return raw
