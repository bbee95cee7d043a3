"""JSON documents as trees: for the types that their text loses, and for partial updates.

A MySQL document has more types than its text shows. A DECIMAL prints like a DOUBLE, a date like a string, bytes as
"base64:..", and an unsigned number like a signed one. A server that reads the text back makes DOUBLE, string and signed
number of them: 12345678901234567890.123 loses digits, and JSON_TYPE answers differently. Documents that clients write
as text have none of these types. So the fast path (`json_text`) only notices whether a document has one. Such a
document is read a second time, to a tree whose leaves keep their types. The text carries the tree along (`TypedJson`),
and a writer to a MySQL column makes an expression of it.

Which integers do not come back from their text was measured on MySQL 9.7: the reader makes a signed number of
everything up to 4294967295, and an unsigned one of greater numbers.

Partial JSON updates: a document and a list of differences, to the document after them.

Under binlog_row_value_options=PARTIAL_JSON the after image of an UPDATE holds, for a JSON column, the changes by
JSON_SET, JSON_REPLACE and JSON_REMOVE: operation, path, value (MySQL source, Json_diff_vector). The before image holds
the whole document. It becomes a tree whose leaves keep their types, so an unaffected value stays unchanged.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from dm.mysql.binlog.cursor import ByteCursor, Malformed
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
from dm.text import is_decimal

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


_REPLACE, _INSERT, _REMOVE = 0, 1, 2
_OPERATIONS: Final = (_REPLACE, _INSERT, _REMOVE)

Leg = str | int


def parse_path(path: str) -> list[Leg]:
    """The legs of a path like $."a b".c[3]: names of members and numbers of elements."""
    if not path.startswith("$"):
        raise Malformed(f"{path!r} is no JSON path")
    legs: list[Leg] = []
    at = 1
    while at < len(path):
        if path[at] == "[":
            end = path.index("]", at)
            number = path[at + 1 : end]
            if not is_decimal(number):
                raise Malformed(f"{path!r} is no JSON path of a difference")
            legs.append(int(number))
            at = end + 1
        elif path[at : at + 2] == '."':
            name, at = json.JSONDecoder().raw_decode(path, at + 1)
            legs.append(name)
        elif path[at] == ".":
            end = at + 1
            while end < len(path) and path[end] not in ".[":
                end += 1
            legs.append(path[at + 1 : end])
            at = end
        else:
            raise Malformed(f"{path!r} is no JSON path")
    return legs


def _insert_member(parent: dict[str, Tree], name: str, value: Tree) -> None:
    """Add a member at its place: the server orders keys by length, then by bytes."""
    if name in parent:
        raise Malformed(f"a JSON difference inserts member {name!r} twice")
    parent[name] = value
    ordered = sorted(parent.items(), key=lambda member: (len(member[0].encode()), member[0].encode()))
    parent.clear()
    parent.update(ordered)


def _child(parent: Tree, leg: Leg) -> Tree:
    if isinstance(parent, list) and isinstance(leg, int):
        return parent[leg]
    if isinstance(parent, dict) and isinstance(leg, str) and leg in parent:
        return parent[leg]
    raise Malformed("a JSON difference leads nowhere")


def _apply(root: list[Tree], operation: int, legs: list[Leg], value: Tree) -> None:
    """Apply one difference; `root` has the document as its only element, so the document has a parent, too."""
    parent: Tree = root
    path: list[Leg] = [0, *legs]
    for leg in path[:-1]:
        parent = _child(parent, leg)
    last = path[-1]
    if isinstance(parent, list) and isinstance(last, int):
        if operation == _INSERT and legs:
            parent.insert(last, value)
        elif operation == _REPLACE:
            parent[last] = value
        elif operation == _REMOVE and legs:
            del parent[last]
        else:
            raise Malformed("a JSON difference inserts or removes the document itself")
    elif isinstance(parent, dict) and isinstance(last, str):
        if operation == _INSERT:
            _insert_member(parent, last, value)
        elif last not in parent:
            raise Malformed(f"a JSON difference names member {last!r} that is not there")
        elif operation == _REPLACE:
            parent[last] = value
        else:
            del parent[last]
    else:
        raise Malformed("a JSON difference leads nowhere")


def apply_differences(document: Tree, differences: bytes) -> Tree:
    """The document after the differences; may change the one before."""
    root: list[Tree] = [document]
    cursor = ByteCursor(differences)
    while cursor.left:
        operation = cursor.uint(1)
        if operation not in _OPERATIONS:
            raise Malformed(f"JSON difference {operation} is not known")
        legs = parse_path(cursor.packed_bytes().decode())
        value = None if operation == _REMOVE else json_tree(cursor.packed_bytes())
        _apply(root, operation, legs, value)
    return root[0]
