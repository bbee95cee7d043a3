"""The order of several sources of one task: how far each is, and who may go next (`merge-order: commit-time`).

Each source's subtask is a process of its own, with a checkpoint of its own. What they share is one row per source at
the target:

    frontier    microseconds: nothing that the source applies from now on was committed before
    done        the moment of the last transaction that is committed at the target
    beat        grows while the source is alive, also while its frontier stays
    skew        the source's clock minus ours, in microseconds

The order is that of (moment, source id, place in the source's binlog). A source's moments never fall: a transaction
whose own is below the frontier counts as committed at the frontier.

O1  A transaction of source A at moment t is given to the lanes only when the frontier of each other source is above t,
    or is t where A's id is the lower one. So whatever precedes it is committed, and nothing that precedes it comes.
O2  A frontier is stored with a checkpoint L, in one transaction: everything below it is covered by L. So a crash takes
    nothing back that others have relied on. What a replay repeats lies after L, and no other source has passed it.
O3  A frontier falls only from never, when a source that had ended or left begins again. Any other may be used as it was
    read once. The rows are read again each second all the same: such a source is seen then, as is one that joins.
O4  A source that waits has stored the moment of the transaction that it holds as its frontier. So the source with the
    least moment can go, and no two wait for each other.
O5  A source without transactions raises its frontier by its clock: the end of its binlog was read after the clock, and
    all up to that end is covered by L (`dm.sourcelog.stream.watermark`).

O1 needs the claim of the control lane's epoch for nothing but the own row: a frozen run of A that wakes up can't commit
(I1 of `protocol.py`), and a run that starts repeats what lies after its own L. A DDL statement is a transaction like
others: what precedes it in any source is committed before it, and what follows waits until L has passed it.

The sources are those of the task file, and all that have a row: one that joins is waited for as soon as its first
row is seen. A run whose file lacks a source sets that one's frontier to never, so nobody waits for it.

Where a source is silent for too long, others may be told to go on without it. Then O1 does not hold for what it brings
later, and that is counted: a transaction is late if another source had committed a later one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.progress.tables import CHARSET, SubtaskKey, reads

NEVER: Final = 1 << 62  # the frontier of a source that has come to its end, or left

_TABLE = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    frontier BIGINT NOT NULL,
    done BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    skew BIGINT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One source's row."""

    frontier: int
    done: int = 0
    beat: int = 0
    skew: int | None = None


def create_order_table(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create the table; safe to repeat and to race."""
    connection.execute(_TABLE.format(table=key.order.sql, charset=CHARSET))


@reads(lambda key: key.order)
def read_order(connection: TargetConnection, key: SubtaskKey) -> dict[str, SourceProgress]:
    """All rows, by source."""
    rows = connection.query(f"SELECT id, frontier, done, beat, skew FROM {key.order.sql}")
    return {
        str(row[0]): SourceProgress(int(row[1]), int(row[2]), int(row[3]), None if row[4] is None else int(row[4]))
        for row in rows
    }


def write_order(connection: TargetConnection, key: SubtaskKey, progress: SourceProgress) -> None:
    """Store the own row, inside an open transaction under the control lane's claim."""
    connection.execute(
        f"REPLACE INTO {key.order.sql} (id, frontier, done, beat, skew) VALUES (%s, %s, %s, %s, %s)",
        (key.source_id, progress.frontier, progress.done, progress.beat, progress.skew),
    )


def write_left(connection: TargetConnection, key: SubtaskKey, sources: Iterable[str]) -> None:
    """Store that these sources are no part of the task any more, inside an open transaction under the claim."""
    for source in sources:
        connection.execute(f"UPDATE {key.order.sql} SET frontier = %s WHERE id = %s", (NEVER, source))


def holders(source: str, moment: int, others: Iterable[str], known: Mapping[str, SourceProgress]) -> tuple[str, ...]:
    """The other sources that may still bring something that precedes the moment in this source (O1)."""
    found = []
    for other in others:
        progress = known.get(other)
        if progress is None or progress.frontier < moment or (progress.frontier == moment and other < source):
            found.append(other)
    return tuple(found)
