"""The net effect of a stretch on each row, and the files in which net effects wait to be applied.

A row is identified by the values of its key, byte for byte as the source wrote them. No collation is involved: the
before image of a change equals the after image of the row's previous change. An UPDATE that changes the key ends one
row and begins another. So "a" that became "A" is a removed row and a new row. Whether the target holds the two keys for
equal does not matter, as long as all removals come before all writes.

From the net effects follow three kinds of changes, for which any order among themselves is right:

    there at the beginning, not at the end      a removal
    not there at the beginning, there at the end     a write: INSERT
    there at both: with the same values in all unique keys    a write: UPDATE
                   with others                       a removal, and an INSERT

The rows at the end exist together at the source, and with the rows that the stretch never touched. So once all removals
are done, no INSERT meets a row with one of its unique keys. An UPDATE takes no key that its row has not had.

If earlier runs may have applied parts of the stretch (`again`), the beginning is unknown: each touched key is removed,
and each row that is there at the end is inserted.

Pieces of a stretch are reduced one by one, and their net effects joined in order.

**On disk** are the net effects of one piece, between the task that reads it and those that apply it. A file has
*rounds*: what was reduced up to a limit of memory, in order. Each round is cut by bucket, and by whether its rows need
the order of removals before writes. Its end says where each section begins. It is written under another name and then
renamed, so one that is there is complete.

The files are pickled, and only this program's own, in the task's directory, are read.
"""

from __future__ import annotations

import os
import pickle
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from dm.atomic_file import sync_directory
from dm.changes.computing import SourceSettings
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import Query
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.binlog.value import Row
from dm.mysql.sql.context import SourceContext
from dm.progress.replayed import RelayRange
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.statement_context import query_context
from dm.sourcelog.upstream.facts import ServerFacts
from dm.syncer.apply.learned_tables import plan_options
from dm.syncer.apply.target_sessions import Variables, take_row_events
from dm.tools.replay.tables import KnownTables, ReplayTables

RowKey = Any
"""The value of a key of one column, or the values of several."""


class Net(NamedTuple):
    """What a stretch does to one row; an image with its bytes, where the source's may go to the target."""

    key: RowKey
    existed: bool
    before: Row | None  # at the beginning; where it did not exist, the first image of it
    raw_before: bytes | None
    after: Row | None  # at the end
    raw_after: bytes | None


# A list, as it is changed for each change of the row: whether it existed, the first image, the last.
_State = list[Any]
_EXISTED, _BEFORE, _RAW_BEFORE, _AFTER, _RAW_AFTER = range(5)
_CHANGED_UNSEEN: Final = "changes a row that does not exist"
_INSERTED_TWICE: Final = "inserts a row that exists already"


class Reduction:
    """The rows of one table."""

    def __init__(self, plan: TablePlan) -> None:
        self._table = plan.source
        self._key_of = itemgetter(*[column.at for column in plan.row_key])
        self._rows: dict[RowKey, _State] = {}
        self.changes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, change: RowChange) -> None:
        """Take the next change of the table; raises DMError where it does not follow from those before."""
        self.changes += 1
        before, after = change.before, change.after
        if change.kind is ChangeKind.INSERT:
            assert after is not None
            self._put(self._key_of(after), after, change.raw_after)
            return
        assert before is not None
        key = self._key_of(before)
        state = self._rows.get(key)
        if state is None:
            state = self._rows[key] = [True, before, change.raw_before, None, None]
        elif state[_AFTER] is None:
            raise self._unlike(key, _CHANGED_UNSEEN)
        if after is None:
            state[_AFTER] = state[_RAW_AFTER] = None
            return
        moved = self._key_of(after)
        if moved == key:
            state[_AFTER], state[_RAW_AFTER] = after, change.raw_after
            return
        state[_AFTER] = state[_RAW_AFTER] = None
        self._put(moved, after, change.raw_after)

    def _put(self, key: RowKey, after: Row, raw: bytes | None) -> None:
        state = self._rows.get(key)
        if state is None:
            self._rows[key] = [False, after, raw, after, raw]
        elif state[_AFTER] is not None:
            raise self._unlike(key, _INSERTED_TWICE)
        else:
            state[_AFTER], state[_RAW_AFTER] = after, raw

    def join(self, later: Iterable[Net]) -> None:
        """Take the net effects of the piece that follows; raises DMError where they don't follow."""
        rows = self._rows
        for net in later:
            state = rows.get(net.key)
            if state is None:
                rows[net.key] = [*net[1:]]
                continue
            if net.existed != (state[_AFTER] is not None):
                raise self._unlike(net.key, _CHANGED_UNSEEN if net.existed else _INSERTED_TWICE)
            state[_AFTER], state[_RAW_AFTER] = net.after, net.raw_after

    def nets(self) -> Iterator[Net]:
        """The rows so far, in the order in which they were first touched."""
        for key, state in self._rows.items():
            yield Net(key, *state)

    def _unlike(self, key: RowKey, what: str) -> DMError:
        return DMError("replay-history-unlike", table=self._table, key=key, what=what)


def bucket_of(key: RowKey, buckets: int) -> int:
    """The bucket of a key, the same in every process."""
    if isinstance(key, int):
        return key % buckets
    return crc32(repr(key).encode("utf-8", "surrogatepass")) % buckets


class Changer:
    """Makes the changes of one table from its rows' net effects."""

    def __init__(self, plan: TablePlan, *, again: bool, updates: bool) -> None:
        self._plan = plan
        self._again = again
        self._updates = updates  # the values of all its unique keys are in the rows
        self._keys = sorted(plan.key_columns)

    def removal(self, net: Net) -> RowChange | None:
        """The removal that a row's net effect asks for."""
        if self._again:
            return RowChange(self._plan, ChangeKind.DELETE, net.before, None, True, keys=())
        if not net.existed or self._stays(net):
            return None
        return RowChange(self._plan, ChangeKind.DELETE, net.before, None, False, keys=(), raw_before=net.raw_before)

    def write(self, net: Net) -> RowChange | None:
        """The write that it asks for."""
        if net.after is None:
            return None
        if not self._again and net.existed and self._stays(net):
            return RowChange(
                self._plan,
                ChangeKind.UPDATE,
                net.before,
                net.after,
                False,
                keys=(),
                raw_before=net.raw_before,
                raw_after=net.raw_after,
            )
        return RowChange(self._plan, ChangeKind.INSERT, None, net.after, False, keys=(), raw_after=net.raw_after)

    def _stays(self, net: Net) -> bool:
        before, after = net.before, net.after
        if after is None or before is None or not self._updates:
            return False
        return all(before[at] == after[at] for at in self._keys)


_END: Final = struct.Struct("<QQ")  # place and size of the index


@dataclass(frozen=True, slots=True)
class SpilledTable:
    """The rows of one source table in one section."""

    source: TableName
    table_map: TableMap
    nets: Sequence[Net]


Section = tuple[int, bool]
"""A bucket, and whether removals have to come first in its tables."""
_Index = list[Mapping[Section, tuple[int, int]]]


class SpillWriter:
    """Writes the file of one piece."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._index: _Index = []
        self._at = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Executors in two containers may have the same number of a process.
            self._unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
            self._file = self._unfinished.open("xb")
        except OSError as error:
            raise _failed(path) from error

    def round(self, sections: Mapping[Section, Sequence[SpilledTable]]) -> None:
        """Append one round; raises DMError."""
        places: dict[Section, tuple[int, int]] = {}
        for section, tables in sections.items():
            data = pickle.dumps([(t.source, t.table_map, [*map(tuple, t.nets)]) for t in tables], protocol=5)
            places[section] = self._at, len(data)
            self._append(data)
        self._index.append(places)

    def _append(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise _failed(self._path) from error
        self._at += len(data)

    def finish(self) -> None:
        """Give the file its name, once it is on the disk: the plan outlives a power cut. Raises DMError."""
        index, at = pickle.dumps(self._index, protocol=5), self._at
        self._append(index + _END.pack(at, len(index)))
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._unfinished.replace(self._path)
            sync_directory(self._path.parent)
        except OSError as error:
            raise _failed(self._path) from error

    def close(self) -> None:
        """Leave nothing of a file that is not finished."""
        self._file.close()
        self._unfinished.unlink(missing_ok=True)


def spilled(path: Path, section: Section) -> Iterator[SpilledTable]:
    """The tables of a section, in the file's order; raises DMError."""
    try:
        with path.open("rb") as file:
            file.seek(-_END.size, os.SEEK_END)
            at, size = _END.unpack(file.read(_END.size))
            file.seek(at)
            index: _Index = pickle.loads(file.read(size))  # noqa: S301 - our own file
            for places in index:
                if section in places:
                    start, length = places[section]
                    file.seek(start)
                    for source, table_map, nets in pickle.loads(file.read(length)):  # noqa: S301 - our own file
                        yield SpilledTable(source, table_map, [Net(*net) for net in nets])
    except (OSError, struct.error, pickle.UnpicklingError, EOFError) as error:
        raise DMError("replay-file-lost", file=path, why=error) from error


def _failed(path: Path) -> DMError:
    return DMError("spool-not-written", file=path)


@dataclass(frozen=True)
class ReplayContext:
    """The subtask, its source and its tables, and the places on disk."""

    subtask: SubtaskConfig
    facts: ServerFacts
    settings: SourceSettings
    collations: Mapping[int, str]  # the source's, by number
    views: frozenset[TableName]  # the source's now
    known: KnownTables
    relay: Path
    directory: Path  # of this replay
    server_uuid: str  # whose files are read
    again: bool  # earlier runs may have done any of the stretch

    def spill(self, piece: RelayRange) -> Path:
        """The file of a piece's net effects."""
        return self.directory / f"{piece.file}.{piece.begin}-{piece.end}"

    def context_of(self, query: Query) -> SourceContext:
        """What the meaning of a query event's text depends on."""
        return query_context(self.facts, query, self.collations)

    def take_events(self, connection: TargetConnection) -> str:
        """Have a session take row events; why it does not."""
        if self.subtask.syncer.row_format != "auto":
            return "row-format is sql"
        return take_row_events(connection, Variables())

    @contextmanager
    def tables(self, no_events: str = "") -> Iterator[ReplayTables]:
        """The tables, with a session at the target to ask; `no_events`: why rows can't go as events."""
        control = TargetConnection(self.subtask.target)
        schemas = TargetSchemas(lambda: TargetConnection(self.subtask.target))
        try:
            if not no_events:
                no_events = self.take_events(control)
            options = plan_options(
                self.subtask,
                self.facts,
                control,
                None,
                foreign_key_checks=False,
                no_events=no_events,
                source=self.settings,
            )
            rules = TableRules(self.subtask)
            yield ReplayTables(rules, self.known, self.facts.flavor, schemas.get, options, self.again)
        finally:
            closing: tuple[Callable[[], None], ...] = (control.close, schemas.close)
            for close in closing:
                with suppress(DMError):
                    close()
