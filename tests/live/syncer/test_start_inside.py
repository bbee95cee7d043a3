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
