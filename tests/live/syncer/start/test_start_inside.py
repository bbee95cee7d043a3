"""A `meta` that lies inside a transaction: what stands before it there would be left out in silence."""

from __future__ import annotations

import pytest

from dm.config.references import StartPoint
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.live.relay.relaying import end_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])  # the end of a transaction is an XID, or a COMMIT in words
def test_the_end_of_a_transaction_is_no_place_to_start(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, engine: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY) ENGINE = {engine}")
    file, offset = end_of(upstream)
    upstream.execute(f"INSERT INTO {name}.t VALUES (1)")
    place, info = [(row[1], row[5]) for row in upstream.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {offset}")][-1]
    assert info.startswith("COMMIT")
    error = RunningSync(
        subtask_for(upstream, target, name, task=name, meta=StartPoint(binlog_name=file, binlog_pos=place)), None
    ).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "event-outside-transaction"


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(("mode", "told"), [("all", False), ("all", True), ("load&sync", False), ("load&sync", True)])
def test_a_task_that_has_loaded_and_finds_no_progress_begins_only_where_it_is_told(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: str, told: bool
) -> None:
    """`meta` says where; in mode `all` it has no effect."""
    name = schema(upstream, target)
    file, offset = end_of(upstream)
    meta = StartPoint(binlog_name=file, binlog_pos=offset) if told else None
    subtask = subtask_for(upstream, target, name, task=name, meta=meta).model_copy(update={"mode": mode})
    if mode == "load&sync" and told:
        with running_sync(subtask) as sync:
            sync.wait_synced()
        return
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("checkpoint-gone", False)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("altered", [False, True])
def test_tables_are_known_from_the_place_where_a_task_begins(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, altered: bool
) -> None:
    """Their first rows may come long after, and an ALTER right after these; so it is on the way back of a cut-over.

    That is so unless they were altered between that place and the end of the log, as it is then.
    """
    name, other = schema(upstream, target), schema(upstream)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"CREATE TABLE {name}.u (id INT PRIMARY KEY)")
    file, offset = end_of(upstream)
    # What a task at that server stores, and what others do there.
    upstream.execute(f"CREATE TABLE {other}.t (id INT)", f"INSERT INTO {other}.t VALUES (1)")
    if altered:
        upstream.execute(f"CREATE INDEX i ON {name}.u (id)")
    task = subtask_for(upstream, target, name, task=name, meta=StartPoint(binlog_name=file, binlog_pos=offset))
    with running_sync(task) as sync:
        sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.t (id) VALUES (1)", f"ALTER TABLE {name}.t ADD COLUMN b INT")
    if altered:
        error = RunningSync(task, None).wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "structure-unknown"
    else:
        with running_sync(task) as sync:
            sync.wait_synced()
        assert target.query(f"SELECT id, b FROM {name}.t") == ((1, None),)
