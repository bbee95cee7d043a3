"""The types inside JSON documents of MySQL, which their text does not say.

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
from collections.abc import Callable
from typing import Any, Final

from dm.errors import DMError
from dm.mysql.binlog.json_tree import Integer, Number, Opaque, Tree
from dm.mysql.binlog.value import decimal_bytes
from dm.mysql.binlog.wire_type import WireCode

_BYTES: Final = re.compile(r"base64:type(\d+):([A-Za-z0-9+/=\n]*)")
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
    held = _BYTES.fullmatch(value)
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
