"""dumpling's `-f`, rule by rule, as TiDB's documentation of table filters tells it."""

from __future__ import annotations

import pytest

from dm.config.dumper import TableFilter, TableFilterError
from dm.ident import TableName

NAMES = tuple(
    TableName(*name)
    for name in (
        ("db1", "tbl1"), ("DB1", "tbl1"), ("db2", "tbl[1]"), ("db.3", 'a"b'), ("d", "t*"), ("ümlaut", "tbl_10"),
        ("db1", "tbl\n1"), ("$a", "^b"), ("db2", "tbl1"),
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "numbers"),
    [
        ("db1.tbl1", {0}),
        ("db?.tbl1", {0, 8}),
        ("db[0-1].*", {0, 6}),
        ("db[!0-1].*", {2, 8}),
        ("*.*", {0, 1, 2, 3, 4, 5, 6, 7, 8}),
        ("*.tbl?1", {6}),
        (r"db2.tbl\[1\]", {2}),
        (r"d.t\*", {4}),
        ('"db.3".`a"b`', {3}),
        (r"db\.3.*", {3}),
        ('*."a""b"', {3}),
        ("/^db\\d$/./1/", {0, 2, 6, 8}),
        ("/^db\\.\\d/.*", {3}),
        (r"/[\/.]/.*", {3}),
        ("ümlaut.*", {5}),
        ("$*.[^]b", {7}),
        ("$a.[^b]b", {7}),
        ("  db1.tbl1\t", {0}),
        ("db1./^tbl.1$/", set()),
    ],
)
def test_what_a_rule_names(rule: str, numbers: set[int]) -> None:
    found = TableFilter.parse(rule)
    assert {n for n, name in enumerate(NAMES) if found.schema(name.schema) and found.table(name.table)} == numbers


def test_case_counts_only_when_asked_for() -> None:
    for rule in ("dB1.TBL1", "D?1.tbl1", "/B1/.`TBL1`", "[D]b1.T*1"):
        found = TableFilter.parse(rule, case_sensitive=False)
        assert [found.schema(name.schema) and found.table(name.table) for name in NAMES[:2]] == [True, True], rule
        exact = TableFilter.parse(rule)
        assert not (exact.schema("db1") and exact.table("tbl1")), rule


def test_a_rule_that_leaves_out() -> None:
    found = TableFilter.parse("!db1.*")
    assert (found.positive, found.every_table, found.schema("db1")) == (False, True, True)
    assert not TableFilter.parse("!db1.**").every_table


@pytest.mark.parametrize(
    "rule",
    ["", "db1", "db1.", ".tbl", "a.b.c", "a b.c", "a-b.c", "/a.b", "/a(/.b", "`a.b", '"".b', "a[.b", "a[].b", "a\\",
     "a\\d.b", "@file", "a.b#"],
)  # fmt: skip
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(TableFilterError):
        TableFilter.parse(rule)
