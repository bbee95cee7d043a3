"""The net effects of one piece on disk, between the task that reads the piece and those that apply it.

A file has *rounds*: what was reduced up to a limit of memory, in order. Each round is cut by bucket, and by whether its
rows need the order of removals before writes. Its end says where each section begins. It is written under another name
and then renamed, so one that is there is complete.

The files are pickled, and only this program's own, in the task's directory, are read.
"""

from __future__ import annotations

import os
import pickle
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dm.atomic_file import sync_directory
from dm.changes.computing import SourceSettings
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.row_event_session import Variables, take_row_events
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import Query
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.sql.context import SourceContext
from dm.progress.replayed import RelayRange
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.transaction import query_context
from dm.sourcelog.upstream.facts import ServerFacts
from dm.syncer.apply.learned_tables import plan_options
from dm.tools.replay.reduction import Net
from dm.tools.replay.tables import KnownTables, ReplayTables

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
