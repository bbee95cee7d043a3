"""A `meta` that lies inside a transaction: what stands before it there would be left out in silence."""

from __future__ import annotations

import pytest

from dm.config.start_point import StartPoint
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.live.relay.relaying import end_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, subtask_for

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


@pytest.mark.parametrize("mode", ["all", "load&sync"])
def test_a_task_that_has_loaded_and_finds_no_progress_does_not_begin_at_the_end(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: str
) -> None:
    name = schema(upstream, target)
    subtask = subtask_for(upstream, target, name, task=name).model_copy(update={"mode": mode})
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("checkpoint-gone", False)
