"""Links and servers that say nothing, little, or go away: noticed in time, and nothing lost or doubled."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import SecretStr

from dm.clock import SystemClock
from dm.config.endpoint import Endpoint
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.sourcelog.stream.source_server import open_source_server
from dm.sourcelog.upstream.connection import connect, identity_for
from dm.sourcelog.upstream.dump_stream import HEARTBEAT_SECONDS, DumpStream, silence_limit
from dm.unit import JSON
from tests.live.relay.relaying import binlogs, wait_equal
from tests.live.upstream.group import SCHEMA, TABLES, Following, Load, endpoint_at, source_at, subtask_of
from tests.testbed.figures import record
from tests.testbed.fixtures import ServerFactory
from tests.testbed.proxy import FaultProxy
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql"), pytest.mark.timeout(900)]


def test_a_stream_is_given_up_after_two_heartbeats(upstream: ThrowawayServer) -> None:
    """The time limit of each read after the first word; the real seconds are measured in `make chaos`."""
    heartbeat = 7.0
    start = (binlogs(upstream)[-1][0], 4)
    with DumpStream(endpoint_at(upstream), identity_for("t", "s"), start, heartbeat_seconds=heartbeat) as stream:
        assert any(stream.batches())
        limit = cast(Any, stream)._connection._sock.gettimeout()
    assert limit == pytest.approx(silence_limit(heartbeat))
    assert 1.5 * heartbeat < limit < 2 * heartbeat


def test_a_port_that_says_nothing_is_given_up_as_one_that_refuses() -> None:
    """Not after the time limit of a read, for which this test would wait in vain."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(host="127.0.0.1", port=silent.getsockname()[1], password=SecretStr("x"))
        with pytest.raises(DMError) as raised:
            connect(endpoint, connect_timeout=0.3, read_timeout=100_000)
    assert raised.value.name == "connection-failed"


def test_a_start_that_is_told_to_stop_reads_no_further(upstream: ThrowawayServer, target: ThrowawayServer) -> None:
    """As with a source whose tables are altered all the time, so that two readings never agree."""
    stop = threading.Event()
    asked: list[TableName] = []

    def wanted(table: TableName) -> bool:
        asked.append(table)
        stop.set()
        return True

    source = source_at(endpoint_at(upstream))
    at_start = open_source_server(subtask_of(source, upstream, target, "stops"), None, SystemClock())
    assert at_start.present(wanted, stop) is None
    assert len(asked) == 1


@pytest.mark.chaos
def test_a_stopped_server_is_noticed_within_two_heartbeats(server: ServerFactory, target: ThrowawayServer) -> None:
    upstream = server(target.flavor)
    seconds: list[float] = []
    for _ in range(5):
        start = (binlogs(upstream)[-1][0], 4)
        with DumpStream(endpoint_at(upstream), identity_for("t", "s"), start) as stream:
            batches = stream.batches()
            assert any(batches)  # the first word has come: only it may take longer
            upstream.freeze()
            began = time.monotonic()
            with pytest.raises(DMError) as raised:
                for _ in batches:
                    pass
            seconds.append(time.monotonic() - began)
            upstream.thaw()
        assert raised.value.name == "connection-lost"
    limit = 2 * HEARTBEAT_SECONDS
    figures: dict[str, JSON] = {"heartbeat_s": HEARTBEAT_SECONDS, "limit_s": limit, "noticed_s": max(seconds)}
    record(f"upstream.sigstop.{upstream.flavor}", figures)
    assert max(seconds) <= limit + 1.0  # the machine's own delays


def followed(
    server: ServerFactory,
    target: ThrowawayServer,
    relay_directory: Path | None,
    trouble: Callable[[ThrowawayServer, FaultProxy, Following], None],
    name: str,
) -> None:
    """Follow a source under load through a proxy, have the trouble, and compare."""
    upstream = server(target.flavor)
    upstream.execute(*TABLES)
    load = Load()
    with FaultProxy(upstream.host, upstream.port) as way:
        source = source_at(endpoint_at(upstream, way.port))
        subtask = subtask_of(source, upstream, target, name)
        with Following(subtask, target, relay_directory) as following:
            following.wait_applied(upstream)
            trouble(upstream, way, following)
            load.write(upstream, 20)
            following.wait_applied(upstream)
            if relay_directory is not None:
                wait_equal(relay_directory, upstream)
        report = compare(pair_tables([upstream], [SCHEMA]), target)
        assert report.identical, str(report)
        ways: dict[str, JSON] = {"connections": way.connections, "runs_ended_with": ", ".join(following.errors)}
    kind = "remote" if relay_directory is None else "relay"
    ((rows,),) = target.query(f"SELECT COUNT(*) FROM {SCHEMA}.keyless")  # two of each transaction
    record(f"upstream.{name}.{upstream.flavor}.{kind}", {"transactions": rows // 2, **ways})


WAYS = pytest.mark.parametrize("relay", [True, pytest.param(False, marks=pytest.mark.chaos)], ids=["relay", "no relay"])


@WAYS
@pytest.mark.chaos
def test_a_stalled_link(server: ServerFactory, emptied: ThrowawayServer, relay: bool, tmp_path: Path) -> None:
    def stall(upstream: ThrowawayServer, way: FaultProxy, following: Following) -> None:
        load = Load(first=10_000)
        with load.running(upstream):
            way.stall()
            following.wait_until(lambda: bool(following.says.strip()), "the silence to be noticed")
            way.heal()
            way.cut()  # what was stalled is as dead as it looks

    followed(server, emptied, tmp_path if relay else None, stall, "stall")


@WAYS
@pytest.mark.chaos
def test_a_slow_link_is_no_dead_one(
    server: ServerFactory, emptied: ThrowawayServer, relay: bool, tmp_path: Path
) -> None:
    def slow(upstream: ThrowawayServer, way: FaultProxy, following: Following) -> None:
        load = Load(first=10_000)
        way.slow(3_000, "down")  # less than the load writes
        with load.running(upstream):
            upstream.execute(f"INSERT INTO {SCHEMA}.keyed VALUES (-5, 'begin')")
            moved = way.forwarded["down"]
            wait_until(lambda: way.forwarded["down"] > moved + 60_000, "60 kB through the slow link")
        assert following.errors == []
        way.heal()

    followed(server, emptied, tmp_path if relay else None, slow, "slow")


@WAYS
@pytest.mark.chaos
@pytest.mark.parametrize("how", ["freeze", "kill", "restart"])
def test_a_server_that_stands_still_dies_or_restarts(
    server: ServerFactory, emptied: ThrowawayServer, relay: bool, how: str, tmp_path: Path
) -> None:
    def outage(upstream: ThrowawayServer, way: FaultProxy, following: Following) -> None:
        for number in range(3):
            load = Load(first=10_000 * (number + 1))
            load.write(upstream, 30)
            if how == "restart":
                upstream.restart()
                continue
            (upstream.freeze if how == "freeze" else upstream.kill)()
            following.wait_until(lambda: bool(following.says.strip()), "the outage to be noticed")
            (upstream.thaw if how == "freeze" else upstream.start)()

    followed(server, emptied, tmp_path if relay else None, outage, how)


@WAYS
@pytest.mark.chaos
@pytest.mark.parametrize("seed", [1, 2])
def test_a_network_that_does_what_it_likes(
    server: ServerFactory, emptied: ThrowawayServer, relay: bool, seed: int, tmp_path: Path
) -> None:
    struck: list[str] = []

    def strikes(upstream: ThrowawayServer, way: FaultProxy, following: Following) -> None:
        chance = random.Random(seed)
        for number in range(15):
            load = Load(first=10_000 * (number + 1))
            with load.running(upstream):
                struck.append(way.strike(chance))
                time.sleep(chance.uniform(0.1, 3))
                way.heal()
                following.wait_seen(upstream)

    try:
        followed(server, emptied, tmp_path if relay else None, strikes, f"strikes{seed}")
    finally:
        print(f"seed {seed}: {struck}")
