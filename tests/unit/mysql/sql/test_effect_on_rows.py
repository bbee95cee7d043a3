"""Which statements leave rows that were written before them as they were."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.effect_on_rows import effect_of

CONTEXT = SourceContext("mysql", 80400, "shop")
ORDERS, ITEMS = TableName("shop", "orders"), TableName("shop", "items")


def stands_before(text: str) -> list[TableName]:
    return effect_of(text, CONTEXT, lambda _: True).stands_before((ORDERS, ITEMS))


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE orders ADD INDEX (v), COMMENT 'x'",
        "CREATE INDEX i ON orders (v)",
        "ALTER TABLE orders FORCE",
        "ALTER TABLE orders ENGINE = InnoDB, COMMENT 'ENGINE'",
        "ALTER TABLE `ignore` ADD UNIQUE KEY (v)",
        "ALTER TABLE orders ALTER COLUMN v SET DEFAULT 3",
        "CREATE TABLE IF NOT EXISTS orders (id INT)",
        "CREATE TABLE copy LIKE orders",
        "CREATE TABLE other (id INT)",
        "CREATE DATABASE shop2",
        "ALTER DATABASE shop CHARACTER SET latin1",
        "DROP TABLE other",
        "ANALYZE TABLE orders",
        "GRANT SELECT ON shop.orders TO dm",
    ],
)
def test_rows_mean_the_same_after_it(text: str) -> None:
    assert stands_before(text) == []


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("ALTER TABLE orders ADD COLUMN w INT", [ORDERS]),
        ("ALTER TABLE orders ADD INDEX (v), RENAME COLUMN v TO w", [ORDERS]),
        ("ALTER TABLE orders MODIFY v BIGINT", [ORDERS]),
        ("ALTER TABLE orders CONVERT TO CHARACTER SET latin1", [ORDERS]),
        ("ALTER TABLE orders DROP PARTITION p0", [ORDERS]),
        ("ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE items", [ORDERS, ITEMS]),
        ("TRUNCATE TABLE items", [ITEMS]),
        ("DROP TABLE items, orders", [ORDERS, ITEMS]),
        ("RENAME TABLE orders TO old, items TO orders", [ORDERS, ITEMS]),
        ("CREATE TABLE orders (id INT)", [ORDERS]),
        ("DROP DATABASE shop", [ORDERS, ITEMS]),
        ("ALTER TABLE orders FROBNICATE", [ORDERS]),
        ("FROBNICATE EVERYTHING", [ORDERS, ITEMS]),
        ("UPDATE orders SET v = 1", [ORDERS]),
        ("ALTER IGNORE TABLE orders ADD UNIQUE KEY (v)", [ORDERS]),
        ("ALTER TABLE orders ENGINE=BLACKHOLE", [ORDERS]),
        ("ALTER TABLE orders ADD INDEX (v), COMMENT 'InnoDB' ENGINE `blackhole`", [ORDERS]),
        ("ALTER TABLE orders ENGINE InnoDB, CONNECTION = 'there'", [ORDERS]),
    ],
)
def test_rows_before_it_are_refused(text: str, tables: list[TableName]) -> None:
    assert stands_before(text) == tables


@pytest.mark.parametrize(
    ("text", "keyed"),
    [
        ("ALTER TABLE items DROP FOREIGN KEY f", True),
        ("ALTER TABLE items ADD FOREIGN KEY (o) REFERENCES orders (id) ON DELETE CASCADE", True),
        ("ALTER TABLE items DROP CONSTRAINT f", True),
        ("ALTER TABLE items ADD INDEX (o)", False),
    ],
)
def test_foreign_keys_that_it_changes_are_told(text: str, keyed: bool) -> None:
    assert effect_of(text, CONTEXT, lambda _: True).other_foreign_keys == (frozenset({ITEMS}) if keyed else frozenset())
