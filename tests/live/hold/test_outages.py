"""A source or target that is down or silent for a while: the task waits, says why, and goes on by itself."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import FLAVORS, Flavor
from tests.live.hold.replica import Replica
from tests.testbed.daemon import Answer
from tests.testbed.park import ServerPark
from tests.testbed.snapshots import Snapshots

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SNAPSHOTS = Snapshots(Path(__file__).parent / "said")

Outage = tuple[Callable[[ThrowawayServer], None], Callable[[ThrowawayServer], None]]
DOWN: Outage = (ThrowawayServer.kill, ThrowawayServer.restart)
SILENT: Outage = (ThrowawayServer.freeze, ThrowawayServer.thaw)


@pytest.fixture(scope="module", params=FLAVORS)
def replica(
    request: pytest.FixtureRequest, park: ServerPark, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replica]:
    """A task that follows; on MariaDB through a relay."""
    flavor: Flavor = request.param
    upstream = park.own(flavor, gtid=True, options={}).start()
    target = park.own(flavor, gtid=True, options={}).start()
    one = Replica(upstream, target, tmp_path_factory.mktemp("hold"), relay=flavor == "mariadb")
    one.prepare("incremental")
    with one.daemon:
        one.start()
        one.await_synced()  # without `meta` a task begins at the end of the binlog that it finds
        one.write()
        one.await_synced()
        yield one
    upstream.destroy()
    target.destroy()


@pytest.mark.ci_flavor("mysql")
def test_a_source_that_is_down(replica: Replica) -> None:
    address = f"upstream 127.0.0.1:{replica.upstream.port}"
    _source(replica, DOWN, lambda: _told("source-down", replica, replica.settles_on(f"can't connect to {address}")))
    _told("source-back", replica, replica.shown())


# Silence is told from rest by the heartbeats that stay away, ten seconds of them; `make chaos` tries both flavours.
@pytest.mark.parametrize("replica", ["mariadb"], indirect=True, scope="module")
def test_a_source_that_is_silent(replica: Replica) -> None:
    _source(replica, SILENT, lambda: replica.says(f"upstream 127.0.0.1:{replica.upstream.port}"))


def _source(replica: Replica, outage: Outage, said: Callable[[], None]) -> None:
    begin, end = outage
    replica.write()
    begin(replica.upstream)
    said()
    end(replica.upstream)
    replica.write()
    replica.await_synced()
    assert replica.status()["stage"] == "Running"


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("outage", [DOWN, SILENT], ids=["down", "silent"])
def test_a_target(replica: Replica, outage: Outage) -> None:
    begin, end = outage
    replica.write()
    begin(replica.target)
    replica.write()
    address = f"target 127.0.0.1:{replica.target.port}"
    if outage is DOWN:
        _told("target-down", replica, replica.settles_on(f"can't connect to {address}"))
    else:
        replica.says(address)
    replica.write()
    end(replica.target)
    replica.await_synced()
    assert replica.status()["stage"] == "Running"
    if outage is DOWN:
        _told("target-back", replica, replica.shown())


def _told(snapshot: str, replica: Replica, answer: Answer) -> None:
    """Rows, rates and lags are of the moment; so is the place of a task while a server is away."""
    SNAPSHOTS.demand(
        f"{snapshot}-{replica.upstream.flavor}",
        answer,
        source_port=replica.upstream.port,
        target_port=replica.target.port,
        position=re.compile(r"\(binlog\.[0-9]+, [0-9]+\)"),
        number=re.compile(r"[0-9]+(\.[0-9]+)?"),
    )


@pytest.mark.chaos
@pytest.mark.parametrize("side", ["upstream", "target"])
@pytest.mark.parametrize("outage", [DOWN, SILENT], ids=["down", "silent"])
def test_half_a_minute(replica: Replica, outage: Outage, side: str) -> None:
    begin, end = outage
    server: ThrowawayServer = getattr(replica, side)
    begin(server)
    if side == "target":
        replica.write()
    threading.Event().wait(30)
    replica.says(f"{side} 127.0.0.1:{server.port}")
    end(server)
    replica.write()
    replica.await_synced()
