"""The row of a cut-over at the target, which belongs to one driver at a time.

A driver takes the row over by a higher epoch, and writes only under its own. So one that was frozen, or cut off with
its daemon, changes nothing any more. After a lost answer the row itself says whether a write has come.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Final

from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident
from dm.progress.tables import CHARSET, SubtaskKey, reads
from dm.session.answers import reads_answers
from dm.stored_format import CUT_OVER
from dm.tools.cutover.machine import OVER, CutOverState

_TABLE: Final = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    version INT UNSIGNED NOT NULL,
    epoch BIGINT UNSIGNED NOT NULL,
    state LONGTEXT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""


@reads(lambda key: key.cut_over)
def _read(connection: TargetConnection, key: SubtaskKey) -> tuple[int, CutOverState] | None:
    rows = connection.query(f"SELECT version, epoch, state FROM {key.cut_over.sql} WHERE id = ''")
    if not rows:
        return None
    version, epoch, state = rows[0]
    CUT_OVER.demand_known(version, key.cut_over)
    return int(epoch), CutOverState.from_json(str(state))


@dataclass(frozen=True, slots=True)
class CutOverRow:
    """The row of a task, known by one of its subtasks; raises DMError."""

    config: SubtaskConfig

    @property
    def _key(self) -> SubtaskKey:
        return SubtaskKey(self.config.meta_schema, self.config.task, "")

    def _connect(self) -> closing[TargetConnection]:
        return closing(TargetConnection(self.config.target))

    @reads_answers
    def _found(self, connection: TargetConnection) -> tuple[int, CutOverState] | None:
        table = self._key.cut_over
        there = connection.query(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (table.schema, table.table),
        )
        return _read(connection, self._key) if there else None

    def read(self) -> CutOverState | None:
        """The last cut-over; None where there was none."""
        with self._connect() as connection:
            found = self._found(connection)
            return None if found is None else found[1]

    def begin(self, first: CutOverState) -> int:
        """Store the first state; gives its epoch. Raises `cut-over-under-way` where one is."""
        table = self._key.cut_over
        with self._connect() as connection:
            connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(table.schema).sql}")
            connection.execute(_TABLE.format(table=table.sql, charset=CHARSET))
            connection.execute(
                f"INSERT IGNORE INTO {table.sql} (id, version, epoch, state) VALUES ('', %s, 0, %s)",
                (CUT_OVER.number, first.to_json()),
            )
            connection.commit()
            connection.begin()
            connection.query(f"SELECT 1 FROM {table.sql} WHERE id = '' FOR UPDATE")
            found = self._found(connection)
            assert found is not None
            epoch, known = found
            if epoch and known.state not in OVER:  # epoch 0: the row was made just now, and nobody drives it
                raise DMError("cut-over-under-way", task=self.config.task, state=known.state)
            connection.execute(
                f"UPDATE {table.sql} SET version = %s, epoch = %s, state = %s WHERE id = ''",
                (CUT_OVER.number, epoch + 1, first.to_json()),
            )
            connection.commit()
            return epoch + 1

    def take_over(self) -> int | None:
        """Be the one who drives it; gives the epoch, None where there is nothing to drive."""
        with self._connect() as connection:
            if self._found(connection) is None:
                return None
            connection.begin()
            connection.execute(f"UPDATE {self._key.cut_over.sql} SET epoch = epoch + 1 WHERE id = ''")
            found = self._found(connection)
            connection.commit()
            return None if found is None else found[0]

    def owned(self, epoch: int) -> CutOverState:
        """The state; raises `cut-over-taken` where another one drives it."""
        with self._connect() as connection:
            found = self._found(connection)
        if found is None or found[0] != epoch:
            raise DMError("cut-over-taken", task=self.config.task)
        return found[1]

    @reads_answers
    def write(self, epoch: int, state: CutOverState) -> None:
        """Store a state; raises `cut-over-taken` where another one drives it."""
        with self._connect() as connection:
            connection.begin()
            (held,) = connection.query(f"SELECT epoch FROM {self._key.cut_over.sql} WHERE id = '' FOR UPDATE") or [(0,)]
            if int(held[0]) != epoch:
                raise DMError("cut-over-taken", task=self.config.task)
            connection.execute(
                f"UPDATE {self._key.cut_over.sql} SET version = %s, state = %s WHERE id = ''",
                (CUT_OVER.number, state.to_json()),
            )
            connection.commit()
