"""A source with a GTID history purges transactions without GTIDs: a second pass does not leave them out.

Sets of GTIDs are the same before and after it, so whoever took them as a proof would go on.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.live.syncer.shards.test_shards import held, subtasks_of
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.purge import purge_binlogs
from tests.testbed.sync import RunningSync, running_sync, wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MODES = {"OFF": ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"), "OFF_PERMISSIVE": ("ON_PERMISSIVE", "OFF_PERMISSIVE")}
GONE = {"source-binlog-purged", "relay-gap"}


@dataclass
class Source:
    """One that had GTIDs."""

    server: ThrowawayServer
    target: ThrowawayServer
    schema: SchemaFactory
    mode: str

    def make(self) -> str:
        return self.schema(self.server, self.target)

    def forget_gtids(self) -> None:
        self.server.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in MODES[self.mode]))


@pytest.fixture(params=["OFF", pytest.param("OFF_PERMISSIVE", marks=pytest.mark.chaos)])
def source(
    server: ServerFactory, target: ThrowawayServer, schema: SchemaFactory, request: pytest.FixtureRequest
) -> Source:
    if target.flavor != "mysql":
        pytest.skip("a MariaDB gives every transaction a GTID")
    return Source(server("mysql"), target, schema, request.param)


def refuses(running: RunningSync) -> None:
    with running:
        error = running.wait_ended()
        running.error = None
    assert isinstance(error, DMError)
    assert error.name in GONE, error


@pytest.mark.ci_flavor("mysql")
def test_a_shards_second_pass_does_not_leave_it_out(source: Source) -> None:
    name = source.make()
    (subtask,) = subtasks_of(name, [source.server], source.target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        source.forget_gtids()
        source.server.execute(f"ALTER TABLE {name}.s1 ADD COLUMN w INT", f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
        held(sync)
        source.server.execute("FLUSH BINARY LOGS", f"INSERT INTO {name}.u VALUES (1)")
        wait_until(lambda: source.target.query(f"SELECT id FROM {name}.u") == ((1,),), "the stream is behind the rows")
    purge_binlogs(source.server)
    source.server.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT", f"INSERT INTO {name}.s1 VALUES (2, 2, 2)")
    refuses(running_sync(subtask))
    assert source.target.query(f"SELECT id FROM {name}.t") == ()
