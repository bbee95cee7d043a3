"""A table that somebody alters at the target while a run uses it: the task says so, a new run says what it lacks."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, subtask_for
from tests.testbed.twins import forms

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("statement", "then"),
    [
        ("ALTER TABLE {t} DROP COLUMN v", "column-missing"),
        pytest.param("DROP TABLE {t}", "target-table-missing", marks=pytest.mark.ci_flavor("mysql")),
        pytest.param("ALTER TABLE {t} DROP v, ADD v INT AS (id + 1) STORED", "", marks=pytest.mark.ci_flavor("mysql")),
    ],
)
def test_a_row_meets_a_table_that_is_another_one(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, statement: str, then: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = subtask_for(upstream, target, name, task=name, row_format="sql")
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.t VALUES (1, 2)")
    sync.wait_synced()
    target.execute(statement.format(t=f"{name}.t"))
    upstream.execute(f"INSERT INTO {name}.t VALUES (2, 3)")
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "target-table-altered", error
    assert f"{name}.t" in error.message
    again = RunningSync(subtask, None)
    if then:
        told = again.wait_ended()
        assert isinstance(told, DMError)
        assert told.name == then, told
    else:
        again.wait_synced()
        assert target.query(f"SELECT id, v FROM {name}.t") == ((1, 2), (2, 3))
    again.stop()


LIKE = "(id INT PRIMARY KEY, a INT, `größe` INT, c INT)"


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("statement", "paused"),
    [
        ("DROP COLUMN a", True),
        ("DROP COLUMN c", True),
        ("ADD COLUMN x INT FIRST", False),
        ("MODIFY COLUMN c INT AFTER id", False),
        pytest.param("RENAME COLUMN a TO x, RENAME COLUMN c TO a, ADD COLUMN c INT", False, marks=pytest.mark.chaos),
        pytest.param("ADD COLUMN x INT", False, marks=pytest.mark.chaos),
    ],
)
def test_row_events_put_no_value_into_another_column_and_lose_none(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, statement: str, paused: bool
) -> None:
    """Somebody alters the table by hand, between two transactions of one run; its columns are all of one type."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t {LIKE}")
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.t VALUES (1, 10, 100, 1000)")
    sync.wait_synced()
    assert int(str(sync.unit.status()["eventRows"])) == 1
    target.execute(f"ALTER TABLE {name}.t {statement}")
    upstream.execute(f"INSERT INTO {name}.t VALUES (2, 20, 200, 2000)")
    if paused:
        error = sync.wait_ended()
        assert isinstance(error, DMError)
        assert (error.name, f"{name}.t" in error.message) == ("target-table-altered", True)
        assert target.query(f"SELECT id FROM {name}.t") == ((1,),)
    else:
        sync.wait_synced()
        row = target.query(f"SELECT id, a, `größe`, c FROM {name}.t WHERE id = 2")
        assert row == ((2, 20, 200, 2000),)
    sync.stop()


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("key", ["a", "id, a"])
def test_row_events_find_no_other_row_by_another_key(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, key: str
) -> None:
    """Somebody gives the table another primary key by hand: images before have the old one's columns alone."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a INT NOT NULL, b INT)")
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.t VALUES (1, 0, 1), (2, 1, 2), (3, 2, 3)")
    sync.wait_synced()
    target.execute(f"ALTER TABLE {name}.t DROP PRIMARY KEY, ADD PRIMARY KEY ({key})")
    upstream.execute(f"DELETE FROM {name}.t WHERE id = 3")
    status = sync.wait_synced()
    assert target.query(f"SELECT id, a, b FROM {name}.t ORDER BY id") == ((1, 0, 1), (2, 1, 2))
    form, reason = forms(status)["t"]
    # By the first key either server removes the row whose `a` is 0; by the second MySQL finds the right one.
    why = "1032" if (target.flavor, key) == ("mariadb", "id, a") else "another primary key"
    assert (form, why in str(reason)) == ("sql", True), reason
    sync.stop()
