"""Documents with types that their text does not say; and the expressions that make them at a target."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.mysql.binlog.cursor import Malformed
from dm.mysql.binlog.json_decoder import json_text
from dm.mysql.binlog.json_tree import Opaque, Tree, TypedJson, json_tree, json_value, tree_text
from dm.mysql.sql.json_literal import document_encoder, json_expression
from tests.unit.mysql.binlog.test_json_decoder import stored

DATE = Opaque(10, (((2024 * 13 + 2) << 5 | 3) << 41).to_bytes(8, "little"))
DECIMAL = Opaque(246, bytes((3, 2, 0x81, 50)))  # 1.50

_numbers = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False)
_documents = st.recursive(
    st.none() | st.booleans() | _numbers | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(_documents, st.booleans())
def test_a_tree_prints_as_the_document_does(value: Any, large: bool) -> None:
    document = stored(value, large)
    assert tree_text(json_tree(document)) == json_text(document) == json_value(document)


@given(st.binary(max_size=80))
def test_both_readers_refuse_the_same_bytes(raw: bytes) -> None:
    def outcome(read: Any) -> str | None:
        try:
            return str(read(raw))
        except (Malformed, ValueError, IndexError, struct.error):
            return None

    assert outcome(json_text) == outcome(lambda document: tree_text(json_tree(document)))


def number(code: int, layout: str, value: int) -> bytes:
    return bytes((code,)) + struct.pack(layout, value)


@pytest.mark.parametrize(
    ("document", "typed"),
    [
        (number(5, "<h", -5), False),
        (number(9, "<q", -(1 << 40)), False),
        (number(9, "<q", (1 << 32) - 1), False),
        (number(9, "<q", 1 << 32), True),
        (number(6, "<H", 5), True),
        (number(8, "<I", 70_000), True),
        (number(10, "<Q", 1 << 32), False),
        (bytes((15, 246, 4)) + DECIMAL.raw, True),
        (b"", False),
    ],
)
def test_only_what_its_text_does_not_say_carries_a_tree(document: bytes, typed: bool) -> None:
    value = json_value(document)
    assert isinstance(value, TypedJson) is typed
    assert value == json_text(document)


@pytest.mark.parametrize(
    ("tree", "expression"),
    [
        ([DECIMAL, None], b"JSON_ARRAY(CAST(1.50 AS DECIMAL(3,2)),CAST('null' AS JSON))"),
        ({"it's": [DATE]}, b"JSON_OBJECT('it''s',JSON_ARRAY(CAST('2024-02-03' AS DATE)))"),
        (DATE, b"JSON_EXTRACT(JSON_ARRAY(CAST('2024-02-03' AS DATE)),'$[0]')"),
        ([Opaque(15, b"\0'")], b"JSON_ARRAY(0x0027)"),
        (
            [Opaque(16, b"\2\1")],
            b"JSON_ARRAY((SELECT v FROM JSON_TABLE('[513]','$[*]' COLUMNS(v BIT(16) PATH '$'"
            b" ERROR ON EMPTY ERROR ON ERROR)) t))",
        ),
    ],
)
def test_the_expression_of_a_document(tree: Tree, expression: bytes) -> None:
    assert json_expression(tree, "j") == expression


def test_a_document_of_plain_types_is_text_to_the_target() -> None:
    assert document_encoder("j")('{"a": 1.50}') == b"'{\"a\": 1.50}'"
    assert document_encoder("j")(None) == b"NULL"
    with pytest.raises(TypeError):
        document_encoder("j")(b"{}")


def test_a_type_that_no_expression_has_stops() -> None:
    with pytest.raises(DMError) as caught:
        json_expression([Opaque(249, b"\1")], "j")
    assert caught.value.name == "json-value-inexpressible"
