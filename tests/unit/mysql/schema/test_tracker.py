"""The tracker, by itself; against servers it is tried with thousands of statements in tests/live/schema."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.show import create_table
from dm.mysql.schema.table import schema_from_json, schema_to_json
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece

CONTEXT = SourceContext("mariadb", 101100, "d")


def charset_of_a_new_column(*statements: str) -> str | None:
    tracker = SchemaTracker("mariadb")
    tracker.set_database("d", "latin1", None)
    for statement in (*statements, "CREATE TABLE t (v TEXT)"):
        tracker.apply(Piece.of(statement, CONTEXT))
    table = tracker.get(TableName("d", "t"))
    assert table is not None
    return table.columns[0].charset


@pytest.mark.parametrize(
    ("statements", "charset"),
    [
        (("CREATE DATABASE IF NOT EXISTS d",), "latin1"),
        (("CREATE DATABASE IF NOT EXISTS d CHARACTER SET utf8mb4",), "latin1"),
        (("DROP DATABASE d", "CREATE DATABASE IF NOT EXISTS d CHARACTER SET cp1250"), "cp1250"),
        (("CREATE OR REPLACE DATABASE d CHARACTER SET cp1250",), "cp1250"),
        (("CREATE DATABASE IF NOT EXISTS d", "ALTER DATABASE d CHARACTER SET cp1250"), "cp1250"),
    ],
)
def test_a_schema_that_is_there_keeps_its_default(statements: tuple[str, ...], charset: str) -> None:
    assert charset_of_a_new_column(*statements) == charset


def test_a_vector_index_is_an_index_wherever_it_is_made() -> None:
    tracker = SchemaTracker("mariadb")
    for statement in (
        "CREATE TABLE t (id INT PRIMARY KEY, vector VECTOR(5) NOT NULL, VECTOR INDEX (vector))",
        "ALTER TABLE t ADD COLUMN w VECTOR(3) NOT NULL, ADD VECTOR KEY by_w (w) M=8 DISTANCE=cosine",
        "CREATE VECTOR INDEX again ON t (w)",
    ):
        tracker.apply(Piece.of(statement, CONTEXT))
    table = tracker.get(TableName("d", "t"))
    assert table is not None
    assert [column.name for column in table.columns] == ["id", "vector", "w"]
    assert [index.name for index in table.indexes] == ["PRIMARY", "vector", "by_w", "again"]


@pytest.mark.parametrize(
    ("operation", "hidden"),
    [
        ("ALTER INDEX i INVISIBLE", ["i"]),
        ("ALTER KEY i IGNORED, ALTER COLUMN v SET DEFAULT 5", ["i"]),
        ("ALTER INDEX IF EXISTS I IGNORED", ["i"]),
        ("ALTER INDEX IF EXISTS other IGNORED", []),
        ("ADD INDEX j (v) INVISIBLE", ["j"]),
    ],
)
@pytest.mark.parametrize("back", ["VISIBLE", "NOT IGNORED"])
def test_an_index_is_hidden_and_shown_again(operation: str, hidden: list[str], back: str) -> None:
    tracker = SchemaTracker("mariadb")

    def hides() -> list[str]:
        table = tracker.get(TableName("d", "t"))
        assert table is not None
        stored = schema_from_json(schema_to_json(table))
        shown = parse_create_table(create_table(stored), CONTEXT)
        found = [[index.name for index in known.indexes if index.invisible] for known in (table, stored, shown)]
        assert found[1:] == [found[0]] * 2
        return found[0]

    for statement in ("CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY i (v))", f"ALTER TABLE t {operation}"):
        tracker.apply(Piece.of(statement, CONTEXT))
    assert hides() == hidden
    for name in hidden:
        tracker.apply(Piece.of(f"ALTER TABLE t ALTER INDEX {name} {back}", CONTEXT))
    assert hides() == []


def test_a_table_keeps_its_name_where_there_was_nothing_to_rename_to_it() -> None:
    tracker = SchemaTracker("mariadb")
    for statement in ("CREATE TABLE t (id INT)", "RENAME TABLE IF EXISTS nothing TO t, t TO u"):
        tracker.apply(Piece.of(statement, CONTEXT))
    assert tracker.tables() == (TableName("d", "u"),)
    tracker.apply(Piece.of("RENAME TABLE unknown TO u", CONTEXT))
    assert tracker.tables() == ()


def test_a_parent_without_a_schema_is_in_that_of_its_child() -> None:
    tracker = SchemaTracker("mariadb")
    for statement in (
        "CREATE TABLE x.t (a INT, b INT, FOREIGN KEY (a) REFERENCES p (id))",
        "ALTER TABLE x.t ADD FOREIGN KEY (b) REFERENCES p (id), ADD COLUMN c INT REFERENCES p (id)",
    ):
        tracker.apply(Piece.of(statement, CONTEXT))
    table = tracker.get(TableName("x", "t"))
    assert table is not None
    assert [key.parent for key in table.foreign_keys] == [TableName("x", "p")] * 3


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("statement", "parent", "columns"),
    [
        ("ALTER TABLE p RENAME COLUMN B TO c", "p", ("a", "c")),
        ("ALTER TABLE p CHANGE b c BIGINT", "p", ("a", "c")),
        ("ALTER TABLE p RENAME COLUMN b TO a, RENAME COLUMN a TO b", "p", ("b", "a")),
        ("ALTER TABLE p RENAME COLUMN b TO c, RENAME TO q", "q", ("a", "c")),
        ("ALTER TABLE other RENAME COLUMN b TO c", "p", ("a", "b")),
        ("ALTER TABLE p MODIFY b BIGINT", "p", ("a", "b")),
    ],
)
def test_a_key_follows_the_columns_of_its_parent(
    statement: str, parent: str, columns: tuple[str, ...], known: bool
) -> None:
    tracker = SchemaTracker("mariadb")
    parents = [f"CREATE TABLE {name} (a INT, b INT, UNIQUE (a, b))" for name in ("p", "other")] if known else []
    for each in (*parents, "CREATE TABLE t (b INT, r INT, FOREIGN KEY (b, r) REFERENCES p (a, b))"):
        tracker.apply(Piece.of(each, CONTEXT))
    with tracker.changing() as before:
        tracker.apply(Piece.of(statement, CONTEXT))
    child = tracker.get(TableName("d", "t"))
    assert child is not None
    (key,) = child.foreign_keys
    expected = parent if known else "p"
    assert (key.columns, key.parent, key.parent_columns) == (("b", "r"), TableName("d", expected), columns)
    assert list(tracker.with_other_keys(before)) == ([child.name] if (expected, columns) != ("p", ("a", "b")) else [])


STATEMENTS = [
    *(f"CREATE TABLE {name} (a INT PRIMARY KEY, b INT, UNIQUE (b))" for name in "tuv"),
    "CREATE TABLE IF NOT EXISTS t (a INT)",
    "CREATE TABLE w LIKE t",
    "CREATE OR REPLACE TABLE u (b INT PRIMARY KEY, c INT)",
    "ALTER TABLE t ADD COLUMN d INT",
    "ALTER TABLE v ADD FOREIGN KEY (b) REFERENCES u (b)",
    "ALTER TABLE u CHANGE b e INT",
    "ALTER TABLE u RENAME COLUMN e TO b",
    "RENAME TABLE t TO x, u TO t",
    "RENAME TABLE u TO u2, t TO u",
    "ALTER TABLE v RENAME TO t",
    "DROP TABLE t",
    "DROP TABLE IF EXISTS x",
    "TRUNCATE TABLE v",
    "DROP DATABASE d",
]


def apply(tracker: SchemaTracker, statement: str) -> None:
    # What does not fit to what is known says so and changes nothing; it is drawn too.
    with suppress(DMError):
        tracker.apply(Piece.of(statement, CONTEXT))


@given(st.lists(st.sampled_from(STATEMENTS), max_size=12), st.lists(st.sampled_from(STATEMENTS), max_size=6))
def test_what_changes_is_noted_as_a_comparison_of_all_tables_would_find_it(first: list[str], then: list[str]) -> None:
    tracker = SchemaTracker("mariadb")
    for statement in first:
        apply(tracker, statement)
    names = set(tracker.tables())
    told = set(names)
    tracker.listen(lambda table: told.symmetric_difference_update({table}))
    all_before = tracker.structures()
    with tracker.changing() as before:
        for number, statement in enumerate(then):
            apart = tracker.structures()
            with tracker.changing() as within:  # such as an injected statement that is tried
                apply(tracker, statement)
            assert {name: was for name, was in within.items() if was is not tracker.get(name)} == {
                name: apart.get(name)
                for name in apart.keys() | set(tracker.tables())
                if apart.get(name) is not tracker.get(name)
            }, number
    apply(tracker, "CREATE TABLE later (a INT)")
    assert TableName("d", "later") not in before
    now = tracker.structures()
    now.pop(TableName("d", "later"), None)
    assert {name: was for name, was in before.items() if was is not now.get(name)} == {
        name: all_before.get(name)
        for name in all_before.keys() | now.keys()
        if all_before.get(name) is not now.get(name)
    }
    assert told == set(tracker.tables())


@pytest.mark.parametrize(
    ("statement", "checked"),
    [
        ("ALTER TABLE t RENAME COLUMN j TO k", True),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", True),
        ("ALTER TABLE t MODIFY j LONGTEXT", False),
        ("ALTER TABLE t DROP CONSTRAINT j", False),
        ("ALTER TABLE t DROP CONSTRAINT IF EXISTS j", False),
    ],
)
def test_whether_a_column_still_asks_for_json(statement: str, checked: bool) -> None:
    tracker = SchemaTracker("mariadb")
    tracker.apply(Piece.of("CREATE TABLE t (j JSON)", CONTEXT))
    tracker.apply(Piece.of(statement, CONTEXT))
    table = tracker.get(TableName("d", "t"))
    assert table is not None
    assert table.columns[0].json_checked is checked
    assert schema_from_json(schema_to_json(table)).columns[0].json_checked is checked
