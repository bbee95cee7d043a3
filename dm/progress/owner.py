"""Who runs a task: stored at the target in the transaction that raises the epoch, and told by the run that this ends.

Only the fence decides which run may write (`protocol.py`). This record decides nothing. It answers the question that a
person has in front of a run that was fenced: where does the task run now? It also says of which cluster the newer run
is: a fenced run comes back by itself only where its own cluster says that the source is its own, and never against a
run of another cluster, which does not know of that one's claims (`tests/testbed/ownership_model.py`).

There is a row for each unit with an epoch of its own. A row whose epoch is older than the unit's is of a run before:
the newer one was begun by a dm that does not know this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import structlog

from dm.config.subtask import RunBy
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.tables import CHARSET, SubtaskKey, existing_tables, reads

Fenced = Literal["Sync", "Load", "Validator"]
"""A unit whose runs have an epoch."""

UNTOLD: Final = "it has not said where it runs"

_DEFINITION = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    unit VARCHAR(16) NOT NULL,
    epoch BIGINT UNSIGNED NOT NULL,
    run_by LONGTEXT NOT NULL,
    since TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id, unit)
) ENGINE=InnoDB {charset}"""


@dataclass(frozen=True, slots=True)
class OwnRun:
    """A run, as it would say of itself."""

    unit: Fenced
    epoch: int
    run_by: RunBy


@dataclass(frozen=True, slots=True)
class TaskOwner:
    """Who began the run with an epoch, and when by the target's clock (UTC)."""

    run_by: RunBy
    epoch: int
    since: str

    def __str__(self) -> str:
        """As messages tell it."""
        return f"{self.run_by} has it since {self.since} UTC"


def create_owner_table(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create the table if it is missing; not inside a transaction."""
    connection.execute(_DEFINITION.format(table=key.owner.sql, charset=CHARSET))


def note_owner(connection: TargetConnection, key: SubtaskKey, unit: Fenced, epoch: int, run_by: RunBy) -> None:
    """Inside the transaction that raises the epoch: say who begins the run."""
    connection.execute(
        f"REPLACE INTO {key.owner.sql} (id, unit, epoch, run_by) VALUES (%s, %s, %s, %s)",
        (key.source_id, unit, epoch, run_by.model_dump_json()),
    )


@reads(lambda key: key.owner)
def read_owner(connection: TargetConnection, key: SubtaskKey, unit: Fenced) -> TaskOwner | None:
    """Who began the last run that said so; None where none did."""
    if key.owner not in existing_tables(connection, key):
        return None
    rows = connection.query(
        f"SELECT epoch, run_by, CAST(since AS CHAR) FROM {key.owner.sql} WHERE id = %s AND unit = %s",
        (key.source_id, unit),
    )
    if not rows:
        return None
    epoch, run_by, since = rows[0]
    found = RunBy.model_validate_json(str(run_by))
    return TaskOwner(found, int(epoch), str(since)) if found.host else None


def told_owner(connection: TargetConnection, key: SubtaskKey, unit: Fenced) -> str:
    """Who runs a unit now, as a clause of a message; never raises."""
    found = _owner(connection, key, unit)
    return UNTOLD if found is None else str(found)


def fenced_by(connection: TargetConnection, key: SubtaskKey, ours: OwnRun, plain: Callable[[str], DMError]) -> DMError:
    """The error of a run that a newer one has ended; `plain` makes it of the clause that tells who has the unit."""
    found = _owner(connection, key, ours.unit)
    if found is None or found.epoch <= ours.epoch:
        return plain(UNTOLD)
    if found.run_by.cluster != ours.run_by.cluster:
        return DMError("fenced-by-others", task=key.task, source=key.source_id, owner=str(found))
    return plain(str(found))


def _owner(connection: TargetConnection, key: SubtaskKey, unit: Fenced) -> TaskOwner | None:
    try:
        return read_owner(connection, key, unit)
    except DMError as error:
        structlog.get_logger().warning("nothing tells who runs a task", task=key.task, unit=unit, error=error)
        return None
