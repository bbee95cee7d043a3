"""Partial JSON updates: a document and a list of differences, to the document after them.

Under binlog_row_value_options=PARTIAL_JSON the after image of an UPDATE holds, for a JSON column, the changes by
JSON_SET, JSON_REPLACE and JSON_REMOVE: operation, path, value (MySQL source, Json_diff_vector). The before image holds
the whole document. It becomes a tree whose leaves keep their types, so an unaffected value stays unchanged.
"""

from __future__ import annotations

import json
from typing import Final

from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.json_tree import Tree, json_tree
from dm.text import is_decimal

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
