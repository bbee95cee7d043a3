"""Statements that are executed change what differs, and nothing that was not compared."""

from __future__ import annotations

from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from dm.tools.errands import DiffRequest
from tests.testbed.diffing import differences, put_right
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import subtask_for
from tests.testbed.tidb import TidbServer

pytestmark = pytest.mark.live

SEEN = "TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00' ON UPDATE CURRENT_TIMESTAMP"


def rows(server: ThrowawayServer, sql: str) -> list[tuple[Any, ...]]:
    return sorted(server.query(sql), key=repr)


def test_columns_that_are_not_compared_keep_their_values(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """One is ignored, two are the target's alone, and its unique key has values that have changed places."""
    name = schema(upstream, target)
    columns = "id INT PRIMARY KEY, v VARCHAR(9), u INT, note VARCHAR(9) NOT NULL DEFAULT 'none'"
    upstream.execute(
        f"CREATE TABLE {name}.t ({columns})",
        f"INSERT INTO {name}.t VALUES (1, 'a', 1, 'src'), (2, 'b', 2, 'src'), (3, 'c', 3, 'src'), (4, 'd', 4, 'src')",
    )
    target.execute(
        f"CREATE TABLE {name}.t ({columns}, own INT DEFAULT 7, seen {SEEN}, UNIQUE (own, id))",
        f"INSERT INTO {name}.t (id, v, u, note, own) VALUES (1, 'A', 1, 'kept', 70), (2, 'b', NULL, 'kept', 70),"
        " (3, 'c', 3, 'kept', 70), (5, 'e', 5, 'kept', 70)",
    )
    subtask = subtask_for(upstream, target, name, task=name)
    ignoring = DiffRequest(ignore_columns=("note",))
    found = differences(subtask, ignoring)["t"]
    assert [each.fix.impossible for each in found if not each.fix.statements] == [
        "columns are left out that the sources have, so a row that is only there can't be written whole"
    ]
    put_right(target, found)
    assert [each.key for each in differences(subtask, ignoring)["t"]] == ["id=4"]
    kept = rows(target, f"SELECT id, v, u, note, own, CAST(seen AS CHAR) FROM {name}.t")
    assert kept == [(n, v, n, "kept", 70, "2020-01-01 00:00:00") for n, v in ((1, "a"), (2, "b"), (3, "c"))]
    # What only the target has takes its default in a row that is new there.
    target.execute(f"UPDATE {name}.t SET v = 'x' WHERE id = 2")
    put_right(target, differences(subtask)["t"])
    assert differences(subtask) == {}
    assert rows(target, f"SELECT note, own FROM {name}.t") == [("src", 7), *[("src", 70)] * 3]


def test_a_row_that_a_condition_shows_on_one_side_only_is_not_taken_away(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, state VARCHAR(9), u INT UNIQUE)",
            f"CREATE TABLE {name}.bare (v INT, state VARCHAR(9))",
        )
    upstream.execute(
        f"INSERT INTO {name}.t VALUES (1, 'new', 1), (2, 'old', 2), (3, 'new', 3), (4, 'old', 4), (6, 'new', 6)",
        f"INSERT INTO {name}.bare VALUES (1, 'old')",
    )
    target.execute(
        f"INSERT INTO {name}.t VALUES (1, 'old', 1), (2, 'new', 2), (3, 'new', 30), (4, 'old', 40), (5, 'new', 5)",
        f"INSERT INTO {name}.bare VALUES (1, 'new')",
    )
    subtask = subtask_for(upstream, target, name, task=name)
    filtered = DiffRequest(where="state = 'new'")
    found = differences(subtask, filtered)
    sides = {
        each.key: (each.source and each.source["state"], each.target and each.target["state"]) for each in found["t"]
    }
    assert sides == {
        "id=1": ("new", "old"), "id=2": ("old", "new"), "id=3": ("new", "new"), "id=5": (None, "new"),
        "id=6": ("new", None),
    }  # fmt: skip
    (bare,) = found.pop("bare")
    assert not bare.fix.statements
    assert "--where" in bare.fix.impossible
    put_right(target, found["t"])
    assert "t" not in differences(subtask, filtered)
    assert rows(target, f"SELECT * FROM {name}.t") == [
        (1, "new", 1), (2, "old", 2), (3, "new", 3), (4, "old", 40), (6, "new", 6),
    ]  # fmt: skip


def test_two_source_rows_with_one_key_have_no_statement(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t (id INT, v INT)", f"INSERT INTO {name}.t VALUES (1, 1), (1, 2)")
    target.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.t VALUES (1, 1)")
    (row,) = differences(subtask_for(upstream, target, name, task=name))["t"]
    assert not row.fix.statements
    assert row.fix.impossible.startswith("several rows of the sources")


def test_values_that_the_server_takes_for_equal(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """Spellings of a key, zeros with signs, types inside a document, and the error value of an ENUM."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE {name}.t (k VARCHAR(9) CHARACTER SET latin1 PRIMARY KEY, d DOUBLE, j JSON, s VARCHAR(9),"
            f" e ENUM('x', ''), f FLOAT UNIQUE, seen {SEEN}, g INT AS (d + 1))"
        )
    values = (
        "('ä', 1.5, '{\"n\": 1.0}', 'a', 'x', 0.1)",
        "('b', -0.0, '[1.0]', 'a ', '', 0.2)",
        "('c', 1, 'null', 'x', 1, 3)",
    )
    others = (
        "('Ä', 1.5, '{\"n\": 1.0}', 'a', 'x', 0.2)",
        "('b', 0.0, '[1]', 'a', '', 0.1)",
        "('d', 1, 'null', 'x', 1, 3)",
    )
    into = f"INSERT INTO {name}.t (k, d, j, s, e, f) VALUES "
    upstream.execute(into + ", ".join(values), "SET sql_mode = ''", f"UPDATE IGNORE {name}.t SET e = 'z' WHERE k = 'b'")
    target.execute(into + ", ".join(others))
    subtask = subtask_for(upstream, target, name, task=name)
    for unique in (True, False):
        put_right(target, differences(subtask)["t"])
        assert differences(subtask) == {}, unique
        for server in (upstream, target):
            if unique:
                server.execute(f"ALTER TABLE {name}.t DROP INDEX f")
        target.execute(
            f"UPDATE {name}.t SET seen = seen, j = '[0]' WHERE k = 'b'",  # [1] would be nothing new
            f"UPDATE {name}.t SET seen = seen, j = '[1]' WHERE k = 'b'",
            f"UPDATE {name}.t SET seen = seen, e = 2 WHERE k = 'b'" if unique else "DO 0",
            f"UPDATE {name}.t SET seen = seen, k = 'Ä' WHERE k = 'ä'",
            f"UPDATE {name}.t SET seen = '2021-01-01 00:00:00', d = 2 WHERE k = 'c'",
        )
    put_right(target, differences(subtask)["t"])
    assert differences(subtask) == {}


def test_keys_with_padding_that_one_side_has_and_the_other_not(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(
        f"CREATE TABLE {name}.t (k BINARY(4) PRIMARY KEY, v INT)", f"INSERT INTO {name}.t VALUES ('a', 1), ('b', 2)"
    )
    target.execute(
        f"CREATE TABLE {name}.t (k BINARY(8) PRIMARY KEY, v INT, own INT)",
        f"INSERT INTO {name}.t VALUES ('a', 9, 7), ('c', 3, 7)",
    )
    subtask = subtask_for(upstream, target, name, task=name)
    put_right(target, differences(subtask)["t"])
    assert differences(subtask) == {}
    assert rows(target, f"SELECT TRIM(TRAILING x'00' FROM k), v, own FROM {name}.t") == [(b"a", 1, 7), (b"b", 2, None)]


@pytest.mark.tidb
def test_members_that_a_tidb_takes_for_equal(mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> None:
    """And the zero of a SET; a text that is a key; a document."""
    name = schema(mysql, tidb)
    for server in (mysql, tidb):
        server.execute(
            f"CREATE TABLE {name}.t (k VARCHAR(9) CHARACTER SET latin1 PRIMARY KEY, e ENUM('x', ''), j JSON, d DOUBLE)"
        )
    into = f"INSERT INTO {name}.t VALUES "
    mysql.execute(
        into + "('ä', '', '[1.0]', 1), ('b', 'x', '[1, 2]', 2), ('c', 'x', NULL, 3), ('d', '', NULL, 4)",
        "SET sql_mode = ''",
        f"UPDATE IGNORE {name}.t SET e = 'z' WHERE k IN ('ä', 'c')",
    )
    tidb.execute(into + "('ä', '', '[1.0]', 1), ('b', 'x', '[1, 3]', 5), ('e', 'x', NULL, 3), ('d', 'x', NULL, 4)")
    subtask = subtask_for(mysql, tidb, name, task=name)
    put_right(tidb, differences(subtask)["t"])
    assert differences(subtask) == {}
