"""Partial JSON updates, without a server."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.mysql.binlog.cursor import Malformed
from dm.mysql.binlog.json_tree import apply_differences, json_tree, parse_path, tree_text
from tests.unit.mysql.binlog.test_json_decoder import stored

REPLACE, INSERT, REMOVE = 0, 1, 2


def difference(operation: int, path: str, value: object = None) -> bytes:
    raw = bytes((operation, len(path.encode()))) + path.encode()
    if operation == REMOVE:
        return raw
    document = stored(value, large=False)
    return raw + bytes((len(document),)) + document


def applied(before: object, differences: bytes) -> str:
    return tree_text(apply_differences(json_tree(stored(before, large=False)), differences))


def test_paths() -> None:
    assert parse_path("$") == []
    assert parse_path('$.a[0]."b c"[12].d') == ["a", 0, "b c", 12, "d"]
    assert parse_path(r'$."q\"\\"') == ['q"\\']


def test_members_and_elements() -> None:
    before = {"a": 1.0, "bb": [1, 2, {"c": None}], "ccc": "x\0y"}
    differences = b"".join(
        (
            difference(REPLACE, "$.bb[0]", 9),
            difference(INSERT, "$.bb[1]", "new"),
            difference(REMOVE, "$.bb[3].c"),
            difference(INSERT, "$.b", [True]),
            difference(REMOVE, "$.a"),
        )
    )
    assert applied(before, differences) == '{"b": [true], "bb": [9, "new", 2, {}], "ccc": "x\\u0000y"}'
    assert applied(before, b"") == '{"a": 1.0, "bb": [1, 2, {"c": null}], "ccc": "x\\u0000y"}'
    assert applied(before, difference(REPLACE, "$", {})) == "{}"


@pytest.mark.parametrize(
    "wrong",
    [
        difference(REPLACE, "$.x", 1),
        difference(REMOVE, "$.a.b"),
        difference(INSERT, "$.a", 1),
        difference(REMOVE, "$"),
        difference(INSERT, "$", 1),
        difference(REPLACE, "a", 1),
        difference(REPLACE, "$[-1]", 1),
        b"\3\1$",
        b"\0\1$\x7f",
    ],
)
def test_differences_that_lead_nowhere_are_refused(wrong: bytes) -> None:
    with pytest.raises(Malformed):
        applied({"a": 1}, wrong)


@given(st.binary(max_size=60))
def test_any_bytes_are_applied_or_refused(raw: bytes) -> None:
    try:
        applied({"a": [1, {"b": "c"}]}, raw)
    except (ValueError, IndexError, struct.error) as error:
        str(error)
