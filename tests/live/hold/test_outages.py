"""A source or target that is down or silent for a while: the task waits, says why, and goes on by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from dm.demo.servers import ThrowawayServer
from dm.flavor import FLAVORS, Flavor
from tests.live.hold.replica import Replica
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

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


def test_a_source_that_is_down(replica: Replica) -> None:
    _source(replica, DOWN)


# Silence is told from rest by the heartbeats that stay away, ten seconds of them; `make chaos` tries both flavours.
@pytest.mark.parametrize("replica", ["mariadb"], indirect=True, scope="module")
def test_a_source_that_is_silent(replica: Replica) -> None:
    _source(replica, SILENT)


def _source(replica: Replica, outage: Outage) -> None:
    begin, end = outage
    replica.write()
    begin(replica.upstream)
    replica.says(f"upstream 127.0.0.1:{replica.upstream.port}")
    end(replica.upstream)
    replica.write()
    replica.await_synced()
    assert replica.status()["stage"] == "Running"


@pytest.mark.parametrize("outage", [DOWN, SILENT], ids=["down", "silent"])
def test_a_target(replica: Replica, outage: Outage) -> None:
    begin, end = outage
    replica.write()
    begin(replica.target)
    replica.write()
    replica.says(f"target 127.0.0.1:{replica.target.port}")
    replica.write()
    end(replica.target)
    replica.await_synced()
    assert replica.status()["stage"] == "Running"


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
