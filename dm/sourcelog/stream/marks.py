"""What the opposite task has written to the source: its transactions and statements are left out.

Two tasks in opposite directions would send each other's changes in a circle. So each leaves out what the other one has
written, and knows it by its progress.

Rows. Each transaction that a task commits at its target begins with a row of its progress (invariant I1 of
`dm.progress.protocol`, and the record of a part of a load). In that server's binlog the row stands in the same
transaction: it is the mark. A transaction whose mark precedes all rows that are wanted is left out as a whole. Row and
mark are committed together, so nothing that happens to either task comes between them.

Sources. The opposite may follow several servers, and only what it brings from this task's target is here twice. Each
row of its progress begins with the id of the source, a part of the row's key, so images of any form have it. Which ids
stand for the target the opposite has stored (`dm.progress.opposite_sources`). What comes from its other sources is
read as anybody's.

Statements commit by themselves. A session of a task that executes DDL announces its number in a transaction of its own
before its first statement. What a session with an announced number executes is the task's: the numbers of a server's
sessions are given once between two starts of the server, and the binlog shows each start (a format description with a
time). But any session may write under another number (`pseudo_thread_id`), and the output of mysqlbinlog does: it could
take the number of a task's session. So the sessions of a task take numbers beyond those that servers give (`OWN`), at
random: only who runs the task's own statements again writes under one. A task whose account may not do that announces
the server's number. A number counts together with the id of the server that wrote it, since a source may be a replica.
A statement that is left out is followed all the same, as any that is not executed.

Which sessions are announced is known exactly at each place of the log, and is stored with the checkpoint. A reading
that begins at another place (a person's, a load's, a replay's end) asks the table of announcements, where none of the
server's present run is ever deleted. So does one that comes to a file by no way along the log: the files between are
gone, or the source was another server for a while. A start may have been passed over there. If the file was made by the
present run, the answer is exact, too. Else the numbers of earlier runs may be those of the statements' sessions or not:
then such a statement is unclear, until the log shows a start.

When both tasks rest. A checkpoint of one task is a transaction that the other one reads, leaves out and moves its own
checkpoint for, and so on for ever. So a transaction of progress alone is no reason to store a checkpoint
(`others_after`).

Only tables of the opposite task are looked at, and only the beginnings of their rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.cursor import Malformed
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.binlog.wire_type import WireCode
from dm.position import Position
from dm.sourcelog.stream.brought import BroughtPlaces

Writer = Literal["others", "opposite", "unclear"]
"""Who has executed a statement."""
MarkKind = Literal["row", "session", "source", "intent", "checkpoint"]
"""A progress table of the opposite says: here is a transaction, a session, a server that it reads ..."""

OWN: Final = 1 << 31
"""Numbers of sessions from here on a server gives to nobody: it would have to be asked for so many sessions first."""

_NUMBER_SIZE: Final = 8
_LONG: Final = 256  # a VARCHAR of so many bytes has a length of two


class Session(NamedTuple):
    """A session of the opposite task that may execute statements."""

    server_id: int  # of the server that it was a session of
    thread: int


@dataclass(frozen=True, slots=True)
class MarkTables:
    """The progress tables of the opposite task at the source."""

    rows: frozenset[TableName]  # a row of one of these begins each of its transactions
    sessions: frozenset[TableName]  # announcements
    sources: frozenset[TableName]  # which servers it reads
    intents: frozenset[TableName]  # statements that it is about to execute
    checkpoints: frozenset[TableName]
    folded: bool  # the source's server does not tell upper from lower case in names

    def kind(self, table: TableName) -> MarkKind | None:
        """What a table is."""
        if self.folded:
            table = TableName(table.schema.lower(), table.table.lower())
        if table in self.rows:
            return "row"
        if table in self.sources:
            return "source"
        if table in self.intents:
            return "intent"
        if table in self.checkpoints:
            return "checkpoint"
        return "session" if table in self.sessions else None

    def is_progress(self, table: TableName) -> bool:
        """Whether a table stands where the opposite's progress does."""
        schema = table.schema.lower() if self.folded else table.schema
        return any(schema == own.schema for own in self.rows)


@dataclass(frozen=True, slots=True)
class EarlierSessions:
    """What the table of announcements says for a place in a file of a certain age."""

    known: frozenset[int] = frozenset()
    unclear: frozenset[int] = frozenset()


class OppositeCheck(Protocol):
    """Which sources of the opposite task are the target of the task that leaves it out."""

    def of_others(self, source_id: str) -> bool:
        """Whether what it brings from this source is certainly not from the target."""
        ...

    def demand(self, source_id: str, position: Position) -> None:
        """Raise DMError where it is not certainly from the target."""
        ...

    def ask_again(self) -> None:
        """The opposite reads another server from here on."""
        ...


class Marks:
    """Judges one reading of a log, and counts; the reader calls it, others look at its counts and ask `at`."""

    def __init__(
        self,
        tables: MarkTables,
        check: OppositeCheck,
        *,
        stored: frozenset[Session] | None = None,
        earlier: Callable[[int, int], EarlierSessions] | None = None,
    ) -> None:
        self.tables = tables
        self.transactions = 0
        """Left out so far."""
        self.statements = 0
        """Left out so far, and followed."""
        self.places: BroughtPlaces | None = None  # where the opposite's place is followed, too
        self._check = check
        self._others: Position | None = None  # the end of the last transaction that was not of progress alone
        self._sessions = frozenset[Session]() if stored is None else stored
        self._unclear = frozenset[int]()
        self._earlier = earlier  # asked where nothing is known, with the server's id and the age of the file
        self._asks = stored is None and earlier is not None
        self._lock = threading.Lock()
        self._history: list[tuple[Position | None, frozenset[Session] | None]] = [
            (None, None if stored is None else self._sessions)
        ]

    @property
    def judges_statements(self) -> bool:
        """Whether announcements are read: statements matter only to readers that execute them."""
        return self._earlier is not None

    def at(self, position: Position) -> frozenset[Session] | None:
        """The announced sessions at a place that the reading has come to; None where not all are known. Raises DMError.

        Earlier places are forgotten.
        """
        with self._lock:
            history = self._history
            while len(history) > 1 and (since := history[1][0]) is not None and position.covers(since):
                del history[0]
            return history[0][1]

    def file_begins(self, position: Position, server_id: int, age: int, *, at_start: bool, follows: bool) -> None:
        """A file is read that was made at `age` (seconds since 1970).

        `at_start`: by a start of its server. `follows`: all of the log up to here was read.
        """
        if self._earlier is not None and (self._asks or not (follows or at_start)):
            self._asks = False
            found = self._earlier(server_id, age)
            self._sessions = frozenset(each for each in self._sessions if each.server_id != server_id)
            self._sessions |= {Session(server_id, thread) for thread in found.known}
            self._unclear = found.unclear
            self._changed(position)
        elif at_start:
            self._sessions = frozenset(each for each in self._sessions if each.server_id != server_id)
            self._unclear = frozenset()
            self._changed(position)

    def of_others(self, source_id: str) -> bool:
        """Whether what the opposite has brought from this source of its own is not from the target."""
        return self._check.of_others(source_id)

    def sources_change(self) -> None:
        """The opposite has stored that it reads another server."""
        self._check.ask_again()

    def announced(self, position: Position, announced: Mapping[Session, str]) -> None:
        """The opposite task has announced sessions, each for a source, in the transaction that ends here.

        Raises DMError where the source is not known.
        """
        sessions = frozenset(session for session, source_id in announced.items() if not self.of_others(source_id))
        for session in sessions:
            self._check.demand(announced[session], position)
        if not sessions <= self._sessions:
            self._sessions |= sessions
            self._changed(position)

    def writer(self, server_id: int, thread: int) -> Writer:
        """Who has executed a statement that comes next in the log."""
        if Session(server_id, thread) in self._sessions:
            return "opposite"
        return "unclear" if thread in self._unclear else "others"

    def passed(self, end: Position) -> None:
        """A transaction ends here that has something else than progress."""
        self._others = end

    def others_after(self, stored: Position) -> bool:
        """Whether more was read after a place than progress of the opposite task."""
        others = self._others
        return others is not None and not stored.covers(others)

    def leave_out(self, position: Position, source_id: str) -> None:
        """Count a transaction that is left out; raises DMError where it must not be."""
        self._check.demand(source_id, position)
        self.transactions += 1

    def leave_out_statement(self) -> None:
        """Count a statement that is left out; what its session brings was looked at when it was announced."""
        self.statements += 1

    def _changed(self, position: Position) -> None:
        with self._lock:
            self._history.append((position, None if self._unclear else self._sessions))


class OpenMarks:
    """What the open transaction of a reading says of the opposite task; the assembler tells it of events."""

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self.tables: dict[int, tuple[MarkKind, TableMap]] = {}
        """The opposite's, by the numbers that the transaction gives them."""
        self.source_id: str | None = None
        """From where the opposite has brought the transaction."""
        self._only_progress = True  # and nothing else is in it so far
        self._announced: dict[Session, str] = {}  # each with its source
        self._writer: Writer = "others"  # of its statement

    def takes(self, table_id: int, name: TableName, table_map: TableMap) -> bool:
        """Whether a table of the transaction is one of these."""
        kind = self.marks.tables.kind(name)
        if kind is not None:
            self.tables[table_id] = kind, table_map
        elif self.source_id is not None and not self.marks.tables.is_progress(name):
            self._only_progress = False
        return kind is not None

    def rows(self, rows: Rows, server_id: int, at: Position, *, begins: bool, processed: Callable[[], bool]) -> None:
        """Rows of one of the tables come; raises DMError where they say nothing that can be understood.

        `at`: the transaction's begin. `begins`: no wanted row precedes them. `processed`: whether it lies before the
        start of the reading.
        """
        kind, table_map = self.tables[rows.table_id]
        try:
            places = self.marks.places
            if kind == "source":
                self.marks.sources_change()
            elif kind == "intent":
                if places is not None:
                    places.intent(table_map, rows)
            elif kind == "checkpoint":
                if places is not None:
                    places.checkpoint(table_map, rows)
            elif kind == "row":
                if places is not None:
                    places.lane(table_map, rows)
                if self.source_id is None and begins:
                    source_id = source_of(table_map, rows)
                    # Of what was processed nothing is kept, so whose it is costs no question.
                    elsewhere = not processed() and self.marks.of_others(source_id)
                    self.source_id = None if elsewhere else source_id
            elif self.marks.judges_statements and (announced := announced_session(table_map, rows)) is not None:
                number, source_id = announced
                self._announced[Session(server_id, number)] = source_id
        except Malformed as error:
            raise DMError("opposite-unreadable", table=table_map, why=error, position=at) from error

    def other_rows(self) -> None:
        """Wanted rows come after a mark."""
        self._only_progress = False

    def statement(self, server_id: int, thread: int) -> None:
        """A session executes a statement in it."""
        if self.marks.judges_statements:
            self._writer = self.marks.writer(server_id, thread)

    def end(self, begin: Position, end: Position, *, applied: bool, empty: bool) -> Writer:
        """The transaction is complete; gives who has executed its statement. Raises DMError.

        `applied`: it does not lie before the start. `empty`: it has nothing that is wanted.
        """
        if self.source_id is None or not self._only_progress:
            self.marks.passed(end)
        if applied:
            if self._announced:
                self.marks.announced(end, self._announced)
            if self.source_id is not None:
                self.marks.leave_out(begin, self.source_id)
            elif self._writer == "opposite" and not empty:
                self.marks.leave_out_statement()
        if self.marks.places is not None:
            self.marks.places.ended(statement=self._writer == "opposite" and not empty)
        return self._writer

    def forget(self) -> list[int]:
        """Another transaction begins; gives the numbers of the tables."""
        numbers = list(self.tables)
        self.tables.clear()
        self._announced = {}
        self.source_id, self._only_progress, self._writer = None, True, "others"
        if self.marks.places is not None:
            self.marks.places.dropped()
        return numbers


def source_of(table_map: TableMap, rows: Rows) -> str:
    """The source's id in the first row of the opposite's progress; raises Malformed."""
    return _text(table_map, rows, 0, _begin(table_map, rows, (WireCode.VARCHAR,)))


def announced_session(table_map: TableMap, rows: Rows) -> tuple[int, str] | None:
    """The number of the session that a rows event announces, and for which source; None if it inserts none.

    They are the first and the fourth column, after numbers of one size, and every INSERT names all four. Raises
    Malformed.
    """
    if rows.kind != "insert":
        return None
    at = _begin(table_map, rows, (WireCode.LONGLONG, WireCode.LONGLONG, WireCode.LONGLONG, WireCode.VARCHAR))
    number = rows.data[at : at + _NUMBER_SIZE]
    return int.from_bytes(number, "little"), _text(table_map, rows, 3, at + 3 * _NUMBER_SIZE)


def _begin(table_map: TableMap, rows: Rows, codes: tuple[WireCode, ...]) -> int:
    """Where the first row's values begin, which the image must have, of these types."""
    present = int.from_bytes(rows.present, "little") & (1 << rows.column_count) - 1
    wanted, at = (1 << len(codes)) - 1, rows.start + (present.bit_count() + 7) // 8
    if tuple(column.code for column in table_map.columns[: len(codes)]) != codes or present & wanted != wanted:
        raise Malformed(f"{table_map} is no table of progress")
    if at > rows.end or rows.data[rows.start] & wanted:
        raise Malformed("a row of progress has no key")
    return at


def _text(table_map: TableMap, rows: Rows, column: int, at: int) -> str:
    width = 1 if table_map.columns[column].size < _LONG else 2
    begin = at + width
    end = begin + int.from_bytes(rows.data[at:begin], "little")
    if end > rows.end:
        raise Malformed("a row of progress is cut off")
    return rows.data[begin:end].decode("utf-8", "backslashreplace")
