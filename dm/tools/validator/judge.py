"""Compares rows that wait with the target, in one session, by the rules of `dm.mysql.equality`.

The problem. A row comes from the binlog, and what must be at the target is what the target makes of it: its character
set, its digits, its normal form of a document. A second set of conversions here would be wrong in other cases than the
first.

The way. The rows go into a temporary table with the target's columns, by the literals with which the syncer writes
them. So the target itself makes of them what it must have, and both sides of the comparison are columns of one server.
One query joins the two tables by the key and gives the rows that may differ, with both sides' values as bytes; here
they are compared once more, since some types only a client can compare. Nothing is locked.

    deleted row     wrong where the target has a row with its key, byte by byte; if other sources have rows in the
                    table, only where that is the deleted row itself
    any other row   wrong where the target has none, or one with another value

A temporary table has neither keys nor constraints here, so rows of two moments fit in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from dm.config.endpoint import Endpoint
from dm.dumpfiles.text_rows import read_all
from dm.errors import REFUSED_STATEMENT, DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect import Flavor, dialect, flavor_of
from dm.mysql.equality.structure import ColumnFacts
from dm.mysql.equality.values import ComparedValue, Side, parts, same_text, shown
from dm.mysql.schema.show import column_text, type_text
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.context import version_number
from dm.mysql.sql.literal import statements
from dm.progress.validator_errors import ErrorKind
from dm.session.answers import reads_answers, understood
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import row_session
from dm.tools.diff.fix import Fix, fix_of
from dm.tools.diff.table import TARGET, ComparedTable, TableAt
from dm.tools.validator.pending import PendingRow, Shape

Mode = Literal["full", "fast"]
Values = tuple[bytes | None, ...]

_TABLES_KEPT: Final = 32
_MARGIN: Final = 4096
_NO_TABLE: Final = (1146, 1049)
_CHANGED: Final = (1054, 1146, 1049, 1412)  # the target's table is not what it was a moment ago
# As the syncer's sessions take values, but that nothing is refused: what is not as it should be is found different.
_INSERTING: Final = "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"


@dataclass(frozen=True, slots=True)
class Wrong:
    """A row that is not at the target as it should be."""

    row: PendingRow
    kind: ErrorKind
    key: str  # for people
    source: Mapping[str, str] | None
    target: Mapping[str, str] | None
    columns: tuple[str, ...]  # with other values
    fix: Fix
    version: int = 0  # of the shape, when it was looked at


@dataclass(frozen=True, slots=True)
class _Scratch:
    """A temporary table for rows of a shape."""

    name: TableName
    number: str  # quoted: the column that tells the rows apart
    gone: str  # whether the row was deleted

    @classmethod
    def of(cls, name: TableName, columns: Sequence[Column]) -> _Scratch:
        taken = {column.name.lower() for column in columns}
        names = []
        for wish in ("dm_number", "dm_gone"):
            while wish in taken:
                wish += "_"
            names.append(Ident(wish).sql)
        return cls(name, *names)

    def creation(self, columns: Sequence[Column]) -> str:
        own = [f"{self.number} INT NOT NULL", f"{self.gone} TINYINT NOT NULL"]
        return (
            f"CREATE TEMPORARY TABLE {self.name.sql} ({', '.join([*own, *(column_text(_plain(c)) for c in columns)])})"
            " ENGINE=InnoDB"
        )


@dataclass(frozen=True, slots=True)
class _Pairing:
    """What of a shape is compared with a target table as it is now."""

    ours: TableAt
    theirs: TableAt
    key: tuple[str, ...]  # quoted names
    compared: tuple[int, ...]  # parts that count for rows that must be there
    whole: bool  # every column of the row is there, and counts
    target: TableSchema

    def table(self, flavor: Flavor) -> ComparedTable:
        there = {part.label for part in self.theirs.row}
        return ComparedTable(
            self.theirs, (self.ours,), keyed=True, generated=frozenset(), flavor=flavor,
            whole=all(column.name in there or column.generated for column in self.target.columns),
            stamped=tuple(column.name for column in self.target.columns if column.on_update),
        )  # fmt: skip


@dataclass
class Judge:
    """One session; one thread. A session that is lost is replaced at the next call."""

    endpoint: Endpoint
    meta_schema: str
    mode: Mode
    json_types: bool = True
    _session: Connection | None = None
    _scratch: dict[tuple[Column, ...], _Scratch] = field(default_factory=dict)
    _flavor: Flavor = "mysql"
    _packet: int = 1 << 20
    _typed: bool = False

    def look(self, rows: Sequence[PendingRow], target: TableSchema | None) -> list[Wrong]:
        """Those of some rows of one shape that are wrong; `target` is the target's table as it is. Raises DMError."""
        shape = rows[0].shape
        version = shape.version
        if target is None:
            return [_absent(row, version) for row in rows if row.kind != "delete"]
        for left in (1, 0):
            try:
                return [replace(wrong, version=version) for wrong in self._looked(shape, rows, target)]
            except DMError as error:
                if error.name == "connection-lost" and left:
                    self.close()
                    continue
                if error.name in REFUSED_STATEMENT.values() and error.server_errno in _NO_TABLE:
                    return [_absent(row, version) for row in rows if row.kind != "delete"]
                if not self.changed_meanwhile(error):
                    self.close()
                raise
        raise AssertionError("the loop returns or raises")

    @staticmethod
    def changed_meanwhile(error: DMError) -> bool:
        """Whether the target's table is not what it was when its structure was read: then another look tells."""
        return error.name in REFUSED_STATEMENT.values() and error.server_errno in _CHANGED

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            with suppress(DMError, OSError):
                self._session.close()
        self._session = None
        self._scratch.clear()

    @reads_answers
    def _opened(self) -> Connection:
        if self._session is not None and len(self._scratch) < _TABLES_KEPT:
            return self._session
        self.close()
        session = row_session(self.endpoint, role="target")
        try:
            version, packet = fetch(session, "SELECT VERSION(), @@max_allowed_packet", role="target")[0]
            text = version.decode() if isinstance(version, bytes) else str(version)
            self._flavor, self._packet = flavor_of(text), int(packet)
            self._typed = self.json_types and dialect(self._flavor, version_number(text)).tells_json_types
            fetch(session, f"{_INSERTING}, foreign_key_checks = 0", role="target")
            fetch(session, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", role="target")
            try:
                if dialect(self._flavor).has_binlog:
                    fetch(session, "SET SESSION sql_log_bin = 0", role="target")
            except DMError as error:
                if error.name != "privilege-missing":  # a temporary table is not logged where rows are
                    raise
        except DMError:
            session.close()
            raise
        self._session = session
        return session

    def _looked(self, shape: Shape, rows: Sequence[PendingRow], target: TableSchema) -> list[Wrong]:
        session = self._opened()
        scratch = self._scratch.get(shape.columns)
        if scratch is None:
            scratch = _Scratch.of(TableName(self.meta_schema, f"dm_validator_rows_{len(self._scratch)}"), shape.columns)
            fetch(session, scratch.creation(shape.columns), role="target")
            self._scratch[shape.columns] = scratch
        pairing = self._pairing(shape, scratch, target)
        fetch(session, f"DELETE FROM {scratch.name.sql}", role="target")
        for insertion in self._insertions(scratch, shape, rows):
            fetch(session, insertion, role="target")
        with understood():
            found = read_all(session, self._question(shape, scratch, pairing))
            return [wrong for row in found if (wrong := self._wrong(rows, row, pairing)) is not None]

    def _insertions(self, scratch: _Scratch, shape: Shape, rows: Sequence[PendingRow]) -> Iterator[str]:
        names = ", ".join([scratch.number, scratch.gone, *(Ident(column.name).sql for column in shape.columns)])
        front = f"INSERT INTO {scratch.name.sql} ({names}) VALUES ".encode()
        most = max(min(1 << 20, self._packet - _MARGIN), 1024)
        texts = (b"(%d,%d,%b)" % (number, row.kind == "delete", row.values) for number, row in enumerate(rows))
        for statement, _ in statements(front, texts, b"", most):
            yield statement.decode("utf-8", "surrogateescape")  # the driver turns it into the same bytes again

    def _pairing(self, shape: Shape, scratch: _Scratch, target: TableSchema) -> _Pairing:
        """Both sides of each column that the target still has; those that count are of the shape's."""
        ours: list[ComparedValue] = []
        theirs: list[ComparedValue] = []
        compared: list[int] = []
        key: list[int] = []
        key_names = {name.lower() for name in shape.key}
        for column in shape.columns:
            there = target.column(column.name)
            if there is None:
                continue
            sides = [
                self._side(column, scratch.name),
                self._side(there, shape.target),
            ]
            for one, other in zip(*parts(sides, json_types=self._typed), strict=True):
                if column.name in shape.compared:
                    compared.append(len(ours))
                if column.name.lower() in key_names:
                    key.append(len(ours))
                ours.append(one)
                theirs.append(other)
        whole = all(target.column(column.name) and column.name in shape.compared for column in shape.columns)
        sides_at = [
            TableAt(place, name, tuple(row), tuple(key))
            for place, name, row in ((0, scratch.name, ours), (TARGET, shape.target, theirs))
        ]
        names = tuple(Ident(name).sql for name in shape.key)
        return _Pairing(sides_at[0], sides_at[1], names, tuple(compared), whole, target)

    def _side(self, column: Column, table: TableName) -> Side:
        name = f"{table.sql}.{Ident(column.name).sql}"
        return Side(_facts(column), table, self._flavor, name)

    def _question(self, shape: Shape, scratch: _Scratch, pairing: _Pairing) -> str:
        ours, theirs = scratch.name.sql, shape.target.sql
        join = " AND ".join(f"{theirs}.{name} = {ours}.{name}" for name in pairing.key)
        there = f"{theirs}.{pairing.key[0]} IS NOT NULL"
        key = _equal(pairing, pairing.ours.key)
        gone = f"{there} AND {_equal(pairing, range(len(pairing.ours.row))) if shape.shared else key}"
        kept = "TRUE" if self.mode == "fast" else _equal(pairing, pairing.compared)
        reads = ", ".join(part.read for part in (*pairing.ours.row, *pairing.theirs.row))
        return (
            f"SELECT {ours}.{scratch.number}, {there}, {reads} FROM {ours} LEFT JOIN {theirs} ON {join}"
            f" WHERE IF({ours}.{scratch.gone}, {gone}, NOT ({there}) OR NOT ({kept}))"
            f" ORDER BY {ours}.{scratch.number}"
        )

    def _wrong(self, rows: Sequence[PendingRow], found: Values, pairing: _Pairing) -> Wrong | None:
        row, there = rows[int(found[0] or b"0")], found[1] == b"1"
        width = len(pairing.ours.row)
        ours, theirs = found[2 : 2 + width], found[2 + width :]
        differing = [
            at
            for at in range(width)
            if there and pairing.ours.row[at].canonical(ours[at]) != pairing.theirs.row[at].canonical(theirs[at])
        ]
        kind: ErrorKind
        if row.kind == "delete":
            if not there or any(at in pairing.ours.key for at in differing) or (row.shape.shared and differing):
                return None
            kind = "deleted"
        elif not there:
            kind = "missing"
        else:
            counted = [] if self.mode == "fast" else [at for at in differing if at in set(pairing.compared)]
            if not counted:
                return None
            kind, differing = "different", counted
        return self._told(row, kind, pairing, (ours, theirs), differing)

    def _told(
        self,
        row: PendingRow,
        kind: ErrorKind,
        pairing: _Pairing,
        values: tuple[Values, Values],
        differing: Sequence[int],
    ) -> Wrong:
        ours, theirs = values
        sides = pairing.ours.row
        gone = kind == "deleted"
        if gone or pairing.whole:
            fix = fix_of(
                pairing.table(self._flavor),
                None if gone else (pairing.ours, ours),
                None if kind == "missing" else theirs,
                Counter(),
                Counter(),
            )
        else:
            fix = Fix(impossible="a later DDL has changed columns of the table: compare the row by hand")
        return Wrong(
            row,
            kind,
            ", ".join(f"{sides[at].label}={shown(ours[at])}" for at in pairing.ours.key if sides[at].type),
            None if gone else _words(pairing.ours.row, ours),
            None if kind == "missing" else _words(pairing.theirs.row, theirs),
            tuple(dict.fromkeys(sides[at].label for at in differing)) if kind == "different" else (),
            fix,
        )


def _equal(pairing: _Pairing, which: Sequence[int]) -> str:
    """SQL of whether these parts are equal, as far as the server can tell: unequal where it can't."""
    conditions = [same_text(pairing.ours.row[at], pairing.theirs.row[at]) for at in which]
    return " AND ".join(each or "FALSE" for each in conditions) or "TRUE"


def _absent(row: PendingRow, version: int) -> Wrong:
    why = Fix(impossible="the target has no such table")
    return Wrong(row, "missing", row.key.decode("utf-8", "backslashreplace"), {}, None, (), why, version)


def _words(row: Sequence[ComparedValue], values: Values) -> dict[str, str]:
    return {part.label: shown(value) for part, value in zip(row, values, strict=True)}


def _plain(column: Column) -> Column:
    """A column that takes any value of the other, and nothing by itself."""
    return replace(
        column, nullable=True, default=None, on_update=None, auto_increment=False, generated=None, expression=None,
        invisible=False,
    )  # fmt: skip


def _facts(column: Column) -> ColumnFacts:
    # ZEROFILL is not told by a structure: with it, numbers are read as numbers.
    zerofill = " zerofill" if column.type.compared == "number" else ""
    return ColumnFacts(
        column.name, type_text(column) + zerofill, column.nullable, None, column.charset, column.collation, "", "", ""
    )
