"""Both directions at once, whatever form the servers' logs have, and when a server dies."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dm.config.rules import RouteRule
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.live.relay.relaying import end_of, relaying, source_of
from tests.live.syncer.two_directions.test_two_directions import both_ways, settle
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import running_sync, wait_until

pytestmark = pytest.mark.live

SETTINGS = {
    "mysql": {"binlog_row_image": ("MINIMAL", "FULL"), "binlog_transaction_compression": ("ON", "OFF")},
    "mariadb": {"binlog_row_image": ("MINIMAL", "FULL"), "log_bin_compress": ("ON", "OFF"),
                "log_bin_compress_min_len": ("10", "256")},
}  # fmt: skip


def make(server: ThrowawayServer, name: str) -> None:
    server.execute(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20))",
        f"CREATE TABLE {name}.keyless (v VARCHAR(20))",
    )


def write(servers: tuple[ThrowawayServer, ThrowawayServer], name: str, number: int) -> None:
    for side, server in enumerate(servers):
        server.execute(
            "BEGIN",
            *(f"INSERT INTO {name}.t VALUES ({10 * number + 2 * at + side}, REPEAT('x', 20))" for at in range(4)),
            f"UPDATE {name}.t SET v = 'changed' WHERE id = {10 * number + side}",
            f"DELETE FROM {name}.t WHERE id = {10 * number + 2 + side}",
            f"INSERT INTO {name}.keyless VALUES (REPEAT('{number}', 20))",
            "COMMIT",
        )


def demand_once(servers: tuple[ThrowawayServer, ThrowawayServer], name: str, numbers: int) -> None:
    """Both sides have each row once."""
    ends = [server.query(f"SELECT * FROM {name}.t ORDER BY id") for server in servers]
    assert ends[0] == ends[1]
    assert len(ends[0]) == numbers * 2 * 3
    for server in servers:
        assert server.query(f"SELECT LEFT(v, 1), COUNT(*) FROM {name}.keyless GROUP BY v ORDER BY v") == tuple(
            (str(number), 2) for number in range(numbers)
        )


@pytest.fixture
def name(upstreams: tuple[ThrowawayServer, ThrowawayServer]) -> Iterator[str]:
    """A schema on both, whose rows and transactions are logged as small as can be."""
    name = f"both_{secrets.token_hex(3)}"
    settings = SETTINGS[upstreams[0].flavor]
    for server in upstreams:
        make(server, name)
        server.execute(*(f"SET GLOBAL {key} = {wanted}" for key, (wanted, _) in settings.items()))
    yield name
    for server in upstreams:
        server.execute(*(f"SET GLOBAL {key} = {usual}" for key, (_, usual) in settings.items()))
        server.execute(*(f"DROP DATABASE IF EXISTS {each}" for each in (name, f"meta_{name}", f"meta_{name}_back")))


@pytest.mark.ci_flavor("mysql")
def test_through_relays_with_minimal_images_and_compressed_transactions(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str, tmp_path: Path
) -> None:
    tasks = both_ways(upstreams, name)
    relays = [tmp_path / f"relay-{side}" for side in (0, 1)]
    with ExitStack() as stack:
        for server, relay in zip(upstreams, relays, strict=True):
            stack.enter_context(relaying(source_of(server, first=end_of(server)[0]), relay))
        syncs = [
            stack.enter_context(running_sync(task, relay, tmp_path / task.task))
            for task, relay in zip(tasks, relays, strict=True)
        ]
        settle(*syncs)
        for number in range(2):
            write(upstreams, name, number)
        settle(*syncs)
        upstreams[0].execute(f"ALTER TABLE {name}.t ADD COLUMN c INT DEFAULT 7")
        settle(*syncs)
        upstreams[1].execute(f"UPDATE {name}.t SET c = id WHERE id < 10")
        settle(*syncs)
        assert [sync.unit.status()["oppositeStatements"] for sync in syncs] == [0, 1]
    demand_once(upstreams, name, 2)


@pytest.mark.ci_flavor("mariadb")
def test_a_second_pass_over_a_held_shard_leaves_out_what_the_opposite_has_written(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str
) -> None:
    """Main has left it out of the shard's rows, too; the second pass reads them again, and has to do the same."""
    source, target = upstreams
    source.execute(*(f"CREATE TABLE {name}.s{number} (id INT PRIMARY KEY, v INT)" for number in (1, 2)))
    target.execute(f"CREATE TABLE {name}.m (id INT PRIMARY KEY, v INT)")
    into = RouteRule(schema_pattern=name, table_pattern="s*", target_schema=name, target_table="m")
    home = RouteRule(schema_pattern=name, table_pattern="m", target_schema=name, target_table="s1")
    plain = both_ways(upstreams, name)
    onwards = plain[0].model_copy(
        update={"routes": (into,), "shard_mode": "pessimistic", "shard_sources": (plain[0].source_id,)}
    )
    back = plain[1].model_copy(update={"routes": (home,)})
    with running_sync(onwards) as forward, running_sync(back) as backward:
        settle(forward, backward)
        source.execute(f"INSERT INTO {name}.s1 VALUES (1, 1)", f"INSERT INTO {name}.s2 VALUES (2, 2)")
        settle(forward, backward)
        source.execute(f"ALTER TABLE {name}.s1 ADD COLUMN w INT DEFAULT 7", f"INSERT INTO {name}.s1 VALUES (4, 4, 4)")
        wait_until(lambda: bool(forward.unit.status().get("unresolvedDDLLockID")), "the shard is held")
        target.execute(f"INSERT INTO {name}.m VALUES (3, 3)", f"UPDATE {name}.m SET v = 30 WHERE id = 3")
        settle(backward)
        assert source.query(f"SELECT * FROM {name}.s1 WHERE id = 3") == ((3, 30, 7),)
        source.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT DEFAULT 7", f"INSERT INTO {name}.s2 VALUES (5, 5, 5)")
        wait_until(lambda: len(target.query(f"SELECT * FROM {name}.m")) == 5, "the shard goes on")
        settle(forward, backward)
        rows = ((1, 1, 7), (2, 2, 7), (3, 30, 7), (4, 4, 4), (5, 5, 5))
        assert target.query(f"SELECT * FROM {name}.m ORDER BY id") == rows
        assert source.query(f"SELECT * FROM {name}.s1 UNION SELECT * FROM {name}.s2 ORDER BY id") == rows


@pytest.mark.chaos
@pytest.mark.parametrize("dies", [0, 1])
def test_a_server_dies_under_both_tasks(server: ServerFactory, flavor: Flavor, dies: int) -> None:
    servers, name = (server(flavor), server(flavor)), "two_sides"
    for each in servers:
        make(each, name)
    tasks = both_ways(servers, name)
    with running_sync(tasks[0]) as onwards, running_sync(tasks[1]) as home:
        settle(onwards, home)
    number = 0
    for _ in range(3):
        syncs = [running_sync(task) for task in tasks]
        write(servers, name, number)
        number += 1
        servers[dies].kill()
        servers[dies].start()
        for sync in syncs:
            sync.stop()  # one that has a target less has ended
            assert sync.error is None or isinstance(sync.error, DMError)
    with running_sync(tasks[0]) as onwards, running_sync(tasks[1]) as home:
        settle(onwards, home)
        settle(onwards, home)
    demand_once(servers, name, number)
