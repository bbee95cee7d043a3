"""A source with a GTID history that writes transactions without GTIDs and purges them: no reader passes over the hole.

Sets of GTIDs are the same before and after it, so a reader that took them as a proof would go on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.gtid import GtidSet
from dm.sourcelog.stream.until import Until, UntilGtids, UntilPosition, UntilTime
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end, read_facts
from tests.live.feed.test_reading import Feed, delivered_until
from tests.live.syncer.shards.test_shards import held, subtasks_of
from tests.testbed.anonymous_source import AnonymousSource, demand_hole
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.purge import purge_binlogs
from tests.testbed.sync import RunningSync, endpoint_of, running_sync, subtask_for, wait_until
from tests.testbed.validation import RunningValidator, running_validator, validated

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@pytest.fixture(params=["OFF", pytest.param("OFF_PERMISSIVE", marks=pytest.mark.chaos)])
def source(
    server: ServerFactory, target: ThrowawayServer, schema: SchemaFactory, request: pytest.FixtureRequest
) -> AnonymousSource:
    if target.flavor != "mysql":
        pytest.skip("a MariaDB gives every transaction a GTID")
    return AnonymousSource(server("mysql"), target, schema, request.param)


TABLE = "t (id INT PRIMARY KEY)"


def ends(source: AnonymousSource) -> list[Until]:
    """After the hole: a place, a time, all GTIDs that the source has."""
    endpoint = endpoint_of(source.server)
    connection = connect(endpoint)
    try:
        end = binlog_end(connection, read_facts(connection))
        (now,) = source.server.query("SELECT UNIX_TIMESTAMP(), @@GLOBAL.gtid_executed")
    finally:
        connection.close()
    gtids = UntilGtids(GtidSet.parse(now[1], "mysql"))
    return [UntilPosition(end), UntilTime(int(now[0]) + 60, "in a minute"), gtids]


def refuses(running: RunningSync | RunningValidator) -> None:
    with running:
        error = running.wait_ended()
        running.error = None
    demand_hole(error)


@pytest.mark.ci_flavor("mysql")
def test_neither_a_sync_nor_a_validator_goes_on_after_it(source: AnonymousSource) -> None:
    name = source.make(TABLE)
    subtask = validated(subtask_for(source.server, source.target, name, task=name))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
            source.insert(name, 1)
            validator.wait("1/0/0")  # without `gtid_mode` the source sends nothing that has a GTID
            sync.wait_synced()
            source.forget_gtids()
            source.insert(name, 2)
            sync.wait_synced()
            validator.wait("2/0/0")
    source.make_hole(name)
    refuses(running_validator(subtask))
    refuses(running_sync(subtask))
    source.have_gtids_again()
    source.insert(name, 6)  # it has the next GTID after those that were read
    refuses(running_validator(subtask))
    for until in ends(source):
        refuses(RunningSync(subtask, None, until=until))
    assert source.target.query(f"SELECT id FROM {name}.t") == ((1,), (2,))


@pytest.mark.ci_flavor("mysql")
def test_a_shards_second_pass_does_not_leave_it_out(source: AnonymousSource) -> None:
    name = source.make()
    (subtask,) = subtasks_of(name, [source.server], source.target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        source.forget_gtids()
        source.server.execute(f"ALTER TABLE {name}.s1 ADD COLUMN w INT", f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
        held(sync)
        source.server.execute("FLUSH BINARY LOGS", f"INSERT INTO {name}.u VALUES (1)")
        wait_until(lambda: source.target.query(f"SELECT id FROM {name}.u") == ((1,),), "the stream is after the rows")
    purge_binlogs(source.server)
    source.server.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT", f"INSERT INTO {name}.s1 VALUES (2, 2, 2)")
    refuses(running_sync(subtask))
    assert source.target.query(f"SELECT id FROM {name}.t") == ()


@pytest.mark.ci_flavor("mysql")
def test_a_feed_ends_at_it(source: AnonymousSource, tmp_path: Path) -> None:
    feed = Feed(source.server, source.make(), tmp_path / "relay")
    insert = f"INSERT INTO {feed.name}.t (id) VALUES ({{}})"
    with feed.relayed():
        source.server.execute(insert.format(1))
    source.forget_gtids()
    with feed.relayed():  # its connection by GTIDs ends with them
        source.server.execute(insert.format(2))
    for row in (3, 4):
        source.server.execute(insert.format(row), "FLUSH BINARY LOGS")
    purge_binlogs(source.server)
    source.server.execute(insert.format(5))
    with feed.relayed():  # nothing holds it: it goes on after the gap
        pass
    start = feed.reader().initialOffset()
    assert delivered_until(feed, start, "relay-gap") == [b"1", b"2"]
