"""A row that UPDATE or DELETE does not find at the target: the task pauses, or it is counted and shown."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live


def _create(name: str, *servers: ThrowawayServer) -> None:
    for server in servers:
        server.execute(
            f"CREATE TABLE {name}.t (id INT, name VARCHAR(20), c INT, PRIMARY KEY (id, name))",
            f"CREATE TABLE {name}.keyless (a INT)",
        )


@pytest.mark.ci_flavor("mysql")
def test_the_task_pauses_with_place_and_key_of_the_row(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    _create(name, upstream, target)
    subtask = subtask_for(upstream, target, name, task=name, workers=1)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t VALUES (1, 'müde', 1), (2, 'b', 1)")
        sync.wait_synced()
    target.execute(f"DELETE FROM {name}.t WHERE id = 1")
    upstream.execute(f"UPDATE {name}.t SET c = 2 WHERE id = 2")
    end = upstream.query("SHOW MASTER STATUS" if upstream.flavor == "mariadb" else "SHOW BINARY LOG STATUS")[0]
    upstream.execute(f"UPDATE {name}.t SET c = 2 WHERE id = 1")
    running = RunningSync(subtask, None)
    error = running.wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "row-missing"
    assert "id = 1, name = 'müde'" in error.message
    assert error.place is not None
    # That of the one before, which was to be committed with it, is not meant.
    assert (error.place["file"], error.place["offset"]) == (end[0], end[1])
    # With the row put back as the source had it, the task goes on.
    target.execute(f"INSERT INTO {name}.t VALUES (1, 'müde', 1)")
    with running_sync(subtask) as sync:
        assert sync.wait_synced()["missingRows"] == 0
    assert target.query(f"SELECT id, c FROM {name}.t ORDER BY id") == ((1, 2), (2, 2))


@pytest.mark.ci_flavor("mariadb")
def test_such_rows_are_counted_where_the_task_file_says_so_but_never_those_without_a_key(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    _create(name, upstream, target)
    subtask = subtask_for(upstream, target, name, task=name, missing_row="count")
    running = RunningSync(subtask, None)
    try:
        running.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1), (4, 'd', 1)")
        upstream.execute(f"INSERT INTO {name}.keyless VALUES (1)")
        running.wait_synced()
        target.execute(f"DELETE FROM {name}.t WHERE id < 4")
        upstream.execute(
            f"UPDATE {name}.t SET c = 2",
            f"UPDATE {name}.t SET id = 12 WHERE id = 2",
            f"DELETE FROM {name}.t WHERE id = 3",
        )
        status = running.wait_synced()
        assert status["missingRows"] == 5
        assert status["missingRowTables"] == {str(TableName(name, "t")): 5}
        assert str(status["lastMissingRow"]).split(", at", 1)[0].endswith(("name = 'b'", "name = 'c'"))
        assert target.query(f"SELECT id, c FROM {name}.t") == ((4, 2),)
        target.execute(f"DELETE FROM {name}.keyless")
        upstream.execute(f"DELETE FROM {name}.keyless")
        error = running.wait_ended()
    finally:
        running.stop()
    assert isinstance(error, DMError)
    assert error.name == "row-missing"
    assert "without a key" in error.message


@pytest.mark.ci_flavor("mysql")
def test_what_safe_mode_does_not_find_is_not_missing(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    _create(name, upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name, missing_row="count", safe_mode=True)) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t VALUES (1, 'a', 1), (2, 'b', 1)")
        sync.wait_synced()
        target.execute(f"DELETE FROM {name}.t")
        upstream.execute(f"UPDATE {name}.t SET c = 2 WHERE id = 1", f"DELETE FROM {name}.t WHERE id = 2")
        assert sync.wait_synced()["missingRows"] == 0
    assert target.query(f"SELECT id, c FROM {name}.t") == ((1, 2),)
