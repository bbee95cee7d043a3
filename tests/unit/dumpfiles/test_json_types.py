"""The types inside JSON documents, put back on what their text shows."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.dumpfiles.literals import time_bytes, typed_tree
from dm.errors import DMError
from dm.mysql.binlog.json_decoder import opaque_text
from dm.mysql.binlog.json_tree import Integer, Opaque
from dm.mysql.binlog.value import decimal_bytes
from dm.mysql.binlog.wire_type import WireCode


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=Decimal(-(10**20)), max_value=10**20))
def test_a_decimal_is_stored_as_what_prints_like_it(number: Decimal) -> None:
    text = f"{number:f}"
    assert Decimal(opaque_text(WireCode.NEWDECIMAL, decimal_bytes(text))) == number


@pytest.mark.parametrize(
    "text", ["0", "1.50", "-1.50", "0.5", "-0.00000000000000000001", "9" * 65, "123456789.123456789"]
)
def test_the_digits_of_a_decimal_are_kept(text: str) -> None:
    assert opaque_text(WireCode.NEWDECIMAL, decimal_bytes(text)) == text


@given(st.datetimes())
def test_a_datetime_is_stored_as_what_prints_like_it(moment: object) -> None:
    text = f"{moment:%Y-%m-%d %H:%M:%S.%f}".rjust(26, "0")
    assert opaque_text(WireCode.DATETIME, time_bytes(text)) == f'"{text}"'


@pytest.mark.parametrize("text", ["00:00:00.000000", "-838:59:59.999999", "838:59:58.000001", "-00:00:00.000001"])
def test_a_time_is_stored_as_what_prints_like_it(text: str) -> None:
    assert opaque_text(WireCode.TIME, time_bytes(text)) == f'"{text}"'


def test_values_stand_in_the_servers_order() -> None:
    text = b'{"a": [1, [2, {"b": 3}]], "c": {"d": 4}, "e": 5}'
    types = {
        "members": [[3, "UNSIGNED INTEGER", "5"], [4, "UNSIGNED INTEGER", "3"], [5, "DECIMAL", "4"]],
        "elements": [[3, "UNSIGNED INTEGER", "2"]],
    }
    tree = typed_tree(text, json.dumps(types).encode())
    assert isinstance(tree, dict)
    assert isinstance(tree["e"], Integer)
    assert tree["c"] == {"d": Opaque(WireCode.NEWDECIMAL, decimal_bytes("4"))}
    assert tree["a"] == ["1", [Integer(2, True), {"b": Integer(3, True)}]]


@pytest.mark.parametrize(
    "listed", [[[2, "DECIMAL", "1"]], [[1, "DECIMAL", "2"]], [[0, "DECIMAL", "1"]], [[1, "BLOB", '"1"']]]
)
def test_a_value_that_stands_elsewhere_is_an_error(listed: list[object]) -> None:
    with pytest.raises(DMError) as caught:
        typed_tree(b'{"a": 1}', json.dumps({"members": listed, "elements": None}).encode())
    assert caught.value.name == "json-types-disagree"
