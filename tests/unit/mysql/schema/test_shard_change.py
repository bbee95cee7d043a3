"""Which shards need not come to a statement, since they are as it leaves the others."""

from __future__ import annotations

import pytest

from dm.mysql.schema.merged_table import undergone
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext

KEYED = "id INT PRIMARY KEY"


def table(columns: str, options: str = "") -> TableSchema:
    """A structure."""
    return parse_create_table(f"CREATE TABLE x ({columns}) {options}", SourceContext("mysql", 90700, "db"))


@pytest.mark.parametrize(
    ("before", "after", "other"),
    [
        (f"{KEYED}, c INT, KEY k (c)", KEYED, KEYED),
        (f"{KEYED}, c INT, KEY k (c)", KEYED, f"{KEYED}, more TEXT"),
        (f"{KEYED}, c BIGINT", f"{KEYED}, c INT", f"{KEYED}, d INT, c INT"),
        (f"{KEYED}, c INT DEFAULT 1", f"{KEYED}, c INT DEFAULT 2", f"{KEYED}, c INT DEFAULT '2'"),
        (f"{KEYED}, c INT", f"{KEYED}, c INT NOT NULL", f"{KEYED}, c INT NOT NULL"),
        # A third DEFAULT: it is further on.
        (f"{KEYED}, c INT", f"{KEYED}, c INT DEFAULT 1", f"{KEYED}, c INT DEFAULT 2"),
        (f"{KEYED}, c INT DEFAULT 1", f"{KEYED}, c INT DEFAULT 2", f"{KEYED}, c INT"),
        (f"{KEYED}, c INT, KEY k (c)", f"{KEYED}, c INT, KEY k (c, id)", f"{KEYED}, c INT, KEY k (c, id)"),
        ("id INT, c INT", "id INT, c INT, KEY k (c)", "id INT, c INT, KEY k (c)"),
    ],
)
def test_a_shard_that_has_it_all_is_not_waited_for(before: str, after: str, other: str) -> None:
    assert undergone(table(before), table(after), table(other), table(before))


@pytest.mark.parametrize(
    ("before", "after", "other"),
    [
        # It has not all of it.
        (f"{KEYED}, c INT, KEY k (c)", KEYED, f"{KEYED}, c INT"),
        (f"{KEYED}, c BIGINT", f"{KEYED}, c INT", f"{KEYED}, c BIGINT"),
        (f"{KEYED}, c BIGINT", f"{KEYED}, c INT", KEYED),
        (f"{KEYED}, c INT, d INT", f"{KEYED}, c INT DEFAULT 1", f"{KEYED}, c INT, e INT"),
        (f"{KEYED}, c INT, KEY k (c)", f"{KEYED}, c INT, KEY k (c, id)", f"{KEYED}, c INT"),
        (f"{KEYED}, c INT DEFAULT 1", f"{KEYED}, c INT DEFAULT 2", f"{KEYED}, c INT DEFAULT '1'"),
        # A third DEFAULT, and more than that.
        (f"{KEYED}, c INT", f"{KEYED}, c INT DEFAULT 1", f"{KEYED}, c BIGINT DEFAULT 2"),
        (f"{KEYED}, c INT", f"{KEYED}, c BIGINT DEFAULT 1", f"{KEYED}, c INT DEFAULT 2"),
        (f"{KEYED}, c INT", f"{KEYED}, c BIGINT DEFAULT 1", f"{KEYED}, c BIGINT DEFAULT 2"),
        # Nothing is seen of it.
        (KEYED, KEYED, KEYED),
        # A key, or the column of one; no key at all.
        (f"{KEYED}, c INT", f"{KEYED}, c INT, UNIQUE u (c)", f"{KEYED}, c INT, UNIQUE u (c)"),
        ("id BIGINT PRIMARY KEY, c INT", f"{KEYED}, c INT", f"{KEYED}, c INT"),
        ("id INT, c INT", "id INT", "id INT"),
        # Perhaps another name, or old values.
        (f"{KEYED}, c INT", f"{KEYED}, d INT", f"{KEYED}, d INT"),
        (KEYED, f"{KEYED}, c INT", f"{KEYED}, c INT"),
        # A value that is computed.
        (f"{KEYED}, c INT", f"{KEYED}, c INT AS (id + 1)", f"{KEYED}, c INT AS (id + 1)"),
    ],
)
def test_all_others_are(before: str, after: str, other: str) -> None:
    assert not undergone(table(before), table(after), table(other), table(before))


def test_what_is_more_than_columns_and_indexes_needs_all() -> None:
    before, after = table(f"{KEYED}, c INT"), table(f"{KEYED}, c INT DEFAULT 1", "DEFAULT CHARSET=latin1")
    assert not undergone(before, after, after, before)


@pytest.mark.parametrize(
    ("own", "other", "target", "not_waited_for"),
    [
        (KEYED, "id INT", KEYED, True),  # what counts is the target's key
        ("id INT", KEYED, KEYED, True),
        (KEYED, KEYED, "id INT", False),
        (KEYED, KEYED, "id INT, region INT, PRIMARY KEY (id, region)", False),
        (f"{KEYED}, region INT", "id INT", "id INT, region INT, PRIMARY KEY (id, region)", False),
        (KEYED, KEYED, f"{KEYED}, c INT, UNIQUE by_c (c)", False),  # one with the column that goes
    ],
)
def test_it_is_the_targets_key_that_finds_the_rows(own: str, other: str, target: str, not_waited_for: bool) -> None:
    before = table(f"{own}, c INT, KEY k (c)")
    assert undergone(before, table(own), table(other), table(target)) is not_waited_for
    assert not undergone(before, table(own), table(other), None), "as long as the target is not known, all wait"
