"""Routes choose one target, or none, or fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.config.rules import RouteRule
from dm.errors import DMError
from dm.ident import TableName
from dm.rules.router import Router
from tests.unit.rules.subtasks import routed

MERGE = """
    schema-pattern: shop_*, target-schema: shop
    schema-pattern: shop_*, table-pattern: orders_?, target-schema: shop, target-table: orders
    schema-pattern: "~^old_[0-9]+$", table-pattern: "~^t", target-schema: archive
"""


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (("shop_1", "orders_2"), ("shop", "orders")),
        (("shop_1", "orders_22"), ("shop", "orders_22")),
        (("shop_2", "items"), ("shop", "items")),
        (("shop_2", ""), ("shop", "")),
        (("SHOP_2", "ORDERS_2"), ("shop", "orders")),
        (("old_7", "T1"), ("archive", "T1")),
        (("old_7", "x"), ("old_7", "x")),
        (("old_7", ""), ("old_7", "")),
        (("other", "orders_1"), ("other", "orders_1")),
    ],
)
def test_table_level_beats_schema_level(source: tuple[str, str], target: tuple[str, str]) -> None:
    assert routed(MERGE).route(TableName(*source)) == TableName(*target)


def test_case_counts_only_when_asked_for() -> None:
    assert routed(MERGE, sensitive=True).route(TableName("SHOP_2", "items")) == TableName("SHOP_2", "items")


TWO_SCHEMAS = """
    schema-pattern: a*, target-schema: x
    schema-pattern: '?b', target-schema: y
"""
TWO_TABLES = """
    schema-pattern: a*, table-pattern: t, target-schema: x
    schema-pattern: ab, table-pattern: t*, target-schema: x
"""


@pytest.mark.parametrize(("rules", "table"), [(TWO_SCHEMAS, "t"), (TWO_SCHEMAS, ""), (TWO_TABLES, "t")])
def test_two_matches_on_one_level_are_an_error(rules: str, table: str) -> None:
    with pytest.raises(DMError) as raised:
        routed(rules).route(TableName("ab", table))
    assert raised.value.name == "route-ambiguous"
    assert "r0, r1" in raised.value.message


def test_a_schema_level_match_does_not_disturb_a_table_level_one() -> None:
    rules = TWO_SCHEMAS.rstrip() + "\n    schema-pattern: ab, table-pattern: t, target-schema: z"
    assert routed(rules).route(TableName("ab", "t")) == TableName("z", "t")


def test_a_schema_level_route_may_gather_all_tables_in_one() -> None:
    rules = routed("schema-pattern: a, target-schema: x, target-table: all")
    assert rules.route(TableName("a", "t")) == TableName("x", "all")
    assert rules.route(TableName("a", "")) == TableName("x", "")


@given(st.text(max_size=6), st.text(max_size=6))
def test_without_a_match_a_name_stays(schema: str, table: str) -> None:
    router = Router([RouteRule(schema_pattern="[]", target_schema="x")], case_sensitive=False)
    assert router.route(TableName(schema, table)) == TableName(schema, table)
