"""How far a load is, in all and per table: DM's fields, and rate and remaining time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from dm.clock import Clock
from dm.ident import TableName
from dm.position import Position
from dm.progress.load_parts import NO_DUPLICATES, Duplicates
from dm.spark.progress_rate import ProgressRate
from dm.text import counted
from dm.unit import JSON

_MOST_TABLES = 20  # in a status: those that are being loaded


@dataclass
class _LoadedTable:
    """What is known of one source table."""

    pace: ProgressRate  # of bytes
    rows: int = 0
    size: int = 0
    total_rows: int = 0
    total_size: int = 0
    parts: int = 0  # that are missing


@dataclass
class LoadProgress:
    """Counters of one run; any thread may read."""

    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _position: Position | None = None
    _tables: dict[TableName, _LoadedTable] = field(default_factory=dict)
    _loading: bool = False
    _finished: bool = False
    _left_out: tuple[str, ...] = ()
    _duplicates: Duplicates = NO_DUPLICATES
    _phase: str = ""  # what is done after the rows
    _waiting: str = ""

    def __post_init__(self) -> None:
        self._pace, self._rows_pace = ProgressRate(self.clock), ProgressRate(self.clock)

    def begin(self, position: Position) -> None:
        """The dump is known."""
        with self._lock:
            self._position = position

    def leave_out(self, files: tuple[str, ...]) -> None:
        """Files of the dump that are not loaded: they hold no tables."""
        with self._lock:
            self._left_out = files

    def expect(self, table: TableName, rows: int, size: int) -> None:
        """A part that the dump consists of."""
        with self._lock:
            known = self._tables.setdefault(table, _LoadedTable(ProgressRate(self.clock)))
            known.total_rows += rows
            known.total_size += size
            known.parts += 1

    def loaded(self, table: TableName, rows: int, size: int) -> None:
        """A part is in the target."""
        with self._lock:
            known = self._tables[table]
            known.rows += rows
            known.size += size
            known.parts -= 1
            if self._loading:
                known.pace.begin(known.size)
            known.pace.came(known.size)
            self._pace.came(sum(each.size for each in self._tables.values()))

    def completing(self, tables: int) -> None:
        """The rows are there; tables get the rest of their indexes."""
        with self._lock:
            self._phase = f"adding indexes to {counted(tables, 'table')}"

    def met(self, duplicates: Duplicates) -> None:
        """Rows of a loaded part had keys that were there already."""
        with self._lock:
            self._duplicates += duplicates

    def loading(self) -> None:
        """Rows begin to flow: the rate counts from here."""
        with self._lock:
            self._loading = True
            self._pace.begin(sum(table.size for table in self._tables.values()))
            self._rows_pace.begin(sum(table.rows for table in self._tables.values()))

    def waits(self, what: str) -> None:
        """The load waits for something that is not its own; nothing when it goes on."""
        with self._lock:
            self._waiting = what

    def finish(self) -> None:
        """Everything is loaded and handed over."""
        with self._lock:
            self._finished = True
            self._phase = ""

    def status(self) -> Mapping[str, JSON]:
        """DM's load status, and rows, remaining time and the tables under way."""
        with self._lock:
            tables = self._tables.values()
            rows, size = sum(table.rows for table in tables), sum(table.size for table in tables)
            total = sum(table.total_size for table in tables)
            position = self._position
            active = [
                (name, table)
                for name, table in self._tables.items()
                if table.pace.begun and table.size < table.total_size
            ]
            active.sort(key=lambda entry: -entry[1].total_size)
            eta = None if self._phase else self._pace.eta(size, total)  # how long an index takes, nobody knows
            return {
                "totalTables": str(len(tables)),
                "completedTables": str(sum(1 for table in tables if table.parts <= 0)),
                "starting": not self._loading and not self._finished,
                "finishedBytes": str(size),
                "totalBytes": str(total),
                "finishedRows": str(rows),
                "totalRows": str(sum(table.total_rows for table in tables)),
                "replacedRows": str(self._duplicates.replaced),
                "ignoredRows": str(self._duplicates.ignored),
                "progress": self._pace.share(size, total, finished=self._finished),
                "metaBinlog": "" if position is None else str(position),
                "metaBinlogGTID": "" if position is None else str(position.gtid_set),
                "leftOut": list(self._left_out),
                "phase": self._phase,
                "waiting": self._waiting,
                "bps": str(int(self._pace.rate(size))),
                "rps": str(int(self._rows_pace.rate(rows))),
                "etaSeconds": _text(eta),
                "tables": [_table_status(name, table) for name, table in active[:_MOST_TABLES]],
            }


def _table_status(name: TableName, table: _LoadedTable) -> JSON:
    return {
        "table": str(name),
        "finishedRows": str(table.rows),
        "totalRows": str(table.total_rows),
        "finishedBytes": str(table.size),
        "totalBytes": str(table.total_size),
        "bps": str(int(table.pace.rate(table.size))),
        "etaSeconds": _text(table.pace.eta(table.size, table.total_size)),
        "progress": table.pace.share(table.size, table.total_size, finished=False),
    }


def _text(seconds: int | None) -> str | None:
    return None if seconds is None else str(seconds)
