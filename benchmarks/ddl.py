"""DDL: CREATE and ALTER TABLE that are in the relay already go to a target; statements per second from start to end.

Each table is made and altered twice, and no row comes between: what is measured is what a statement costs beside the
target's own work for it. A row of a last table says that all of them are done. The peer is the target as a replica.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks import catch_up
from benchmarks.measure import Comparison, Series, in_turn
from benchmarks.pull import pull_ours
from benchmarks.recording import SCHEMA, Recording, record
from benchmarks.workload import Transaction, Workload
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON

GOAL = 0.8
_STATEMENTS = 1_500  # at scale 1
_OF_A_TABLE = (
    "CREATE TABLE {name} (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL DEFAULT '',"
    " made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, KEY by_name (name))",
    "ALTER TABLE {name} ADD COLUMN amount DECIMAL(12,2) NOT NULL DEFAULT 0 AFTER name",
    "ALTER TABLE {name} ADD INDEX by_amount (amount, name)",
)


def _nothing(chance: Random, rows: int) -> Iterator[Transaction]:
    return iter(())


def _changes(chance: Random, statements: int) -> Iterator[Transaction]:
    for number in range(statements // len(_OF_A_TABLE)):
        for statement in _OF_A_TABLE:
            yield [statement.replace("{name}", f"{{name}}_{number}")]
    yield ["INSERT INTO {name} VALUES (1)"]


WORKLOAD = Workload(
    "DDL", "CREATE and ALTER TABLE", "CREATE TABLE {name} (id INT PRIMARY KEY)", _nothing, _changes, _STATEMENTS
)


def statements(recording: Recording) -> int:
    """How many CREATE and ALTER TABLE a recording of this workload has."""
    return recording.scale_rows // len(_OF_A_TABLE) * len(_OF_A_TABLE)


def measure(source: ThrowawayServer, target: ThrowawayServer, scale: float, rounds: int) -> Comparison:
    """Ours and the replica in turn."""
    recording = record(source, WORKLOAD, scale)
    count = statements(recording)
    ours, peer = Series("dm", "statements per second"), Series("replica, 1 worker", "statements per second")
    costs: dict[str, list[JSON]] = {ours.name: [], peer.name: []}
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as place:
        relay = Path(place) / "relay"
        pull_ours(source, recording, relay)
        for number in range(rounds):
            for series in in_turn((ours, peer), number):
                if series is ours:
                    work = Path(place) / f"ours-{number}"
                    seconds, cost = catch_up.run_ours(source, target, recording, work, relay)
                    made = catch_up.TARGET_SCHEMA
                else:
                    seconds, cost = catch_up.run_replica(source, target, recording, workers=1)
                    made = SCHEMA
                _compare(source, target, recording, made)
                series.values.append(count / seconds)
                costs[series.name].append({side: round(cost[side] / count) for side in cost if side != "as events"})
    notes: dict[str, JSON] = {"statements": count, "microseconds of CPU": dict(costs)}
    return Comparison("ddl", f"{count:,} CREATE and ALTER TABLE", ours, peer, GOAL, notes=notes)


def _compare(source: ThrowawayServer, target: ThrowawayServer, recording: Recording, schema: str) -> None:
    """Raise where the tables differ in columns or indexes."""
    for what in ("COLUMNS", "STATISTICS"):
        question = f"SELECT COUNT(*) FROM information_schema.{what} WHERE table_schema = %s AND table_name LIKE %s"
        one, other = (
            server.query(question, (name, f"{recording.table}%"))
            for server, name in ((source, SCHEMA), (target, schema))
        )
        if one != other:
            raise RuntimeError(f"{what.lower()} of the tables made: {one[0][0]} at the source, {other[0][0]} here")
