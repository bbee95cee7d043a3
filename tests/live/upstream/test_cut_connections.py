"""Connections that end at any byte of a packet: what comes after is what would have come without, once each.

The dump of a source with keyed and keyless tables is torn at chosen bytes, one after the other, on each new connection
one. Header bytes are each tried; the others are drawn. At the end the rows are the source's, and the relay's files its
files.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from tests.live.relay.relaying import wait_equal
from tests.live.upstream.group import (
    SCHEMA,
    TABLES,
    Following,
    Load,
    QuickClock,
    endpoint_at,
    source_at,
    subtask_of,
)
from tests.testbed.figures import record
from tests.testbed.fixtures import ServerFactory
from tests.testbed.hostile import HostileProxy, Packet, Torn

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql"), pytest.mark.timeout(1200)]

HEADER_BYTES = range(6)  # four of the packet's header, the status byte, the first of the event


class Tearing:
    """Tears each dump connection at the next place of a list: so many packets in, so many bytes of that packet.

    A connection that ends before its place leaves the place to the next connection.
    """

    def __init__(self, places: list[tuple[int, int]]) -> None:
        self._left = iter(places)
        self.wanted = len(places)
        self._place: tuple[int, int] | None = None
        self.done: list[tuple[int, int]] = []

    @property
    def exhausted(self) -> bool:
        """Whether every place had its turn."""
        return len(self.done) >= self.wanted

    def __call__(self, packet: Packet) -> Iterable[bytes | Torn]:
        if packet.of_dump and packet.number == 0 and self._place is None:
            self._place = next(self._left, None)
        if packet.of_dump and self._place is not None and packet.number == self._place[0]:
            at = min(self._place[1], len(packet.payload) + 4)
            self.done.append((packet.number, at))
            self._place = None
            return (Torn(packet.payload, at),)
        return (packet.payload,)


def places(chance: random.Random, *, packets: range, drawn: int) -> list[tuple[int, int]]:
    """Every byte of the headers of these packets, and so many drawn ones, in a drawn order."""
    found = [(packet, at) for packet in packets for at in HEADER_BYTES]
    found += [(chance.randrange(2, 60), chance.randrange(6, 400)) for _ in range(drawn)]
    chance.shuffle(found)
    return found


SMALL = (range(9, 10), 2)
LARGE = (range(3, 13), 60)


@pytest.mark.parametrize("relay", [True, pytest.param(False, marks=pytest.mark.chaos)], ids=["relay", "no relay"])
@pytest.mark.parametrize(
    ("packets", "drawn"), [SMALL, pytest.param(*LARGE, marks=pytest.mark.chaos)], ids=["sample", "all"]
)
def test_a_dump_torn_at_any_byte_goes_on_without_a_seam(
    server: ServerFactory,
    emptied: ThrowawayServer,
    relay: bool,
    packets: range,
    drawn: int,
    tmp_path: Path,
) -> None:
    seed = 20
    torn = Tearing(places(random.Random(seed), packets=packets, drawn=drawn))
    upstream = server(emptied.flavor)
    upstream.execute(*TABLES)
    load = Load(pause=0.1)  # it goes on as long as the connections are torn
    with HostileProxy(upstream.host, upstream.port, torn) as proxy:
        source = source_at(endpoint_at(upstream, proxy.port))
        subtask = subtask_of(source, upstream, emptied, f"torn{int(relay)}{drawn}")
        load.write(upstream, 30)
        with Following(subtask, emptied, tmp_path if relay else None, clock=QuickClock()) as following:
            with load.running(upstream):
                following.wait_until(lambda: torn.exhausted, "all connections to be torn", 60 + 3 * torn.wanted)
            following.wait_applied(upstream)
            if relay:
                wait_equal(tmp_path, upstream)
    report = compare(pair_tables([upstream], [SCHEMA]), emptied)
    assert report.identical, str(report)
    figures = {"cuts": len(torn.done), "transactions": load.transactions, "seed": seed}
    record(f"upstream.cuts.{upstream.flavor}.{'relay' if relay else 'remote'}", figures)
