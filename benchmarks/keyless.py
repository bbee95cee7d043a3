"""A table without a key: one UPDATE of all its rows, which is in the relay already, goes to a target.

Nothing but its values tells a row from the others. By SQL each row is one search through the table; as row events the
target finds all rows of an event in one, as its replica does. The peer is the target as a replica.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks import catch_up
from benchmarks.measure import Comparison, Series, in_turn
from benchmarks.pull import pull_ours
from benchmarks.recording import record
from benchmarks.workload import Transaction, Workload, narrow_rows
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON

GOAL = 0.5
COUNTS = (10_000, 100_000)  # rows at scale 1
_TABLE = "CREATE TABLE {name} (id INT NOT NULL, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)"


def _first(chance: Random, rows: int) -> Iterator[Transaction]:
    return narrow_rows(chance, rows)


def _changes(chance: Random, rows: int) -> Iterator[Transaction]:
    yield ["UPDATE {name} SET k = k + 1"]


def measure(source: ThrowawayServer, target: ThrowawayServer, scale: float, rounds: int) -> Iterator[Comparison]:
    """Ours and the replica in turn, with few rows and with many."""
    for number, rows in enumerate(COUNTS, 1):
        workload = Workload(f"keyless_{number}", "an UPDATE of a table without a key", _TABLE, _first, _changes, rows)
        yield _measured(source, target, workload, scale, rounds if number == 1 else 1)  # the replica takes minutes


def _measured(
    source: ThrowawayServer, target: ThrowawayServer, workload: Workload, scale: float, rounds: int
) -> Comparison:
    recording = record(source, workload, scale)
    ours, peer = Series("dm", "rows per second"), Series("replica, 1 worker", "rows per second")
    costs: dict[str, list[dict[str, float]]] = {ours.name: [], peer.name: []}
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as place:
        relay = Path(place) / "relay"
        pull_ours(source, recording, relay)
        for number in range(rounds):
            for series in in_turn((ours, peer), number):
                if series is ours:
                    work = Path(place) / f"ours-{number}"
                    seconds, cost = catch_up.run_ours(source, target, recording, work, relay)
                else:
                    seconds, cost = catch_up.run_replica(source, target, recording, workers=1)
                series.values.append(recording.rows / seconds)
                costs[series.name].append(cost)
    notes: dict[str, JSON] = {"microseconds": {name: [dict(cost) for cost in each] for name, each in costs.items()}}
    what = f"UPDATE of {recording.rows:,} rows without a key, {catch_up.share_of(costs[ours.name])}"
    return Comparison(f"keyless.{recording.rows}", what, ours, peer, GOAL, notes=notes)
