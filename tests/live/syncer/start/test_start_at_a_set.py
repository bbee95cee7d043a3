"""A task that begins at a GTID set passes all that the set has: at a source that rests it is at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from dm.config.references import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.gtid import GtidSet
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.sourcelog.stream.until import Until, UntilPosition, UntilTime
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end
from tests.live.upstream.group import replicate, wait_caught_up
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import RunningSync, endpoint_of, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live


def end_of(server: ThrowawayServer) -> Position:
    with closing(connect(endpoint_of(server))) as connection:
        return binlog_end(connection)


def insert(server: ThrowawayServer, name: str, row: int, domain: int | None = None) -> None:
    """A row in a transaction of its own; a MariaDB's may have a domain of its own, too."""
    apart = () if domain is None or server.flavor == "mysql" else (f"SET SESSION gtid_domain_id = {domain}",)
    server.execute(*apart, f"INSERT INTO {name}.t VALUES ({row})")


def begun(source: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
    for server in (source, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")


def starting(source: ThrowawayServer, target: ThrowawayServer, name: str, gtid_set: GtidSet) -> SubtaskConfig:
    return subtask_for(source, target, name, task=name, meta=StartPoint(binlog_gtid=str(gtid_set)))


def at_the_end(sync: RunningSync, source: ThrowawayServer) -> None:
    """Its place is the source's own end; a MariaDB's sets alone tell that it is synced."""
    wait_until(lambda: sync.unit.status()["syncerBinlog"] == str(end_of(source)), "the place is the end")


def rows(target: ThrowawayServer, name: str) -> list[int]:
    return [row for (row,) in target.query(f"SELECT id FROM {name}.t ORDER BY id")]


def test_at_the_end_of_a_source_that_rests_it_is_synced(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    begun(upstream, target, name)
    insert(upstream, name, 1)  # the set has it, so it is not to arrive
    end = end_of(upstream)
    with running_sync(starting(upstream, target, name, end.gtid_set)) as sync:
        sync.wait_synced()
        at_the_end(sync, upstream)
        insert(upstream, name, 2)
        sync.wait_synced()
    assert rows(target, name) == [2]
    with running_sync(starting(upstream, target, name, end.gtid_set)) as sync:
        sync.wait_synced()


def test_what_the_set_has_after_what_it_lacks_is_passed(
    server: ServerFactory, flavor: Flavor, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    source = server(flavor)
    name = schema(source, target)
    begun(source, target, name)
    for domain in (0, 7):
        insert(source, name, domain, domain)
    before = end_of(source).gtid_set
    insert(source, name, 1, domain=7)
    lacks = end_of(source).gtid_set - before
    source.execute("FLUSH BINARY LOGS")
    insert(source, name, 2)
    end = end_of(source)
    if flavor == "mysql":
        has = end.gtid_set - lacks
    else:  # the place of each domain
        places = {part.split("-")[0]: part for part in str(end.gtid_set).split(",")}
        places |= {part.split("-")[0]: part for part in str(before).split(",") if part.startswith("7-")}
        has = GtidSet.parse(",".join(places.values()), flavor)
    assert not has >= end.gtid_set
    with running_sync(starting(source, target, name, has)) as sync:
        sync.wait_synced()
        at_the_end(sync, source)
        assert rows(target, name) == [1]


@contextmanager
def ends_by_itself(subtask: SubtaskConfig, until: Until) -> Iterator[None]:
    sync = RunningSync(subtask, None, until=until)
    yield
    assert sync.wait_ended() is None


@pytest.mark.ci_sample(2)
@pytest.mark.parametrize("by", ["place", "time"])
def test_what_is_asked_to_end_there_ends(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, by: str
) -> None:
    name = schema(upstream, target)
    begun(upstream, target, name)
    end = end_of(upstream)
    now = int(upstream.query("SELECT UNIX_TIMESTAMP()")[0][0])
    until: Until = UntilPosition(end) if by == "place" else UntilTime(now + 1, "soon")
    with ends_by_itself(starting(upstream, target, name, end.gtid_set), until):
        pass
    assert rows(target, name) == []


def test_a_replica_that_rests_is_at_its_end_after_a_switch(
    server: ServerFactory, flavor: Flavor, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    first, second = server(flavor), server(flavor)
    replicate(first, second, fresh=True)
    name = schema(first, target)
    begun(first, target, name)
    with running_sync(subtask_for(first, target, name, task=name)) as sync:
        sync.wait_synced()
        insert(first, name, 1)
        sync.wait_synced()
    wait_caught_up(first, second)
    with running_sync(subtask_for(second, target, name, task=name)) as sync:
        sync.wait_synced()
        at_the_end(sync, second)
    assert rows(target, name) == [1]
