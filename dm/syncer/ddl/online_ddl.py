"""Online DDL: what gh-ost and pt-online-schema-change did to a copy of a table is done to the table itself.

Such a tool creates a ghost table, alters it, copies the rows, lets triggers or its own sessions follow, and then
renames: the real table to a trash name, the ghost to the real name. The target needs none of that. Rows and statements
of ghost and trash tables are left out. The statements on a ghost are kept (`dm.progress.intent`), and executed on the
real table when the source renames. The rows are right without the copy: every change of the real table was in the
binlog under its own name, and at the RENAME the ghost has the same rows.

That holds under conditions, and if they are not certain, the task pauses. All statements on the ghost must have been
read, from its CREATE TABLE on. They must make the real table equal to the ghost, which is proved with the tracked
structures (`prove` in `barrier.py`; the ghost is tracked like any table, so the rows after the RENAME are read right in
any case). And they must give the table's rows the values of the copy. A real table that got a trash name is still at
the target, so until a ghost replaces it, no other table may get its name.

A tool copies, row by row, the columns that table and copy both have, by their names. Altered in place, the table keeps
its columns' values. The result is the same, with two exceptions (`copied_otherwise`). A column that is dropped and
added again keeps its values only in a copy. A renamed column may keep them (gh-ost's `--approve-renamed-columns`) or
not (`--skip-renamed-columns`), and no statement tells which. What depends on the present rows is checked before a piece
is executed (`checks.py`).

DM's rules for all combinations of names, and its codes, are in `_pair`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause
from dm.mysql.sql.effect_on_rows import numbered
from dm.mysql.sql.operation import (
    AddColumn,
    ChangeColumn,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    Operation,
    RenameColumn,
    TruncateTable,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.types import defines_moment
from dm.progress.intent import OnlineRecord, StoredStatement
from dm.rules.router import OnlineTables
from dm.syncer.ddl.plan import CutOver, Execute, Forget, KnownStructures, MovedAway, Step, TrackOnly, tracked

StepsOf = Callable[[Piece, Query], Sequence[Step]]


class OnlineDdl:
    """The online DDL under way at the source, while the pieces of one event are planned."""

    def __init__(
        self, tables: OnlineTables, records: Mapping[TableName, OnlineRecord], structures: KnownStructures
    ) -> None:
        self._tables = tables
        self._records = records  # as of the event; not changed
        self._structures = structures
        self._draft = dict(records)  # what they become

    @property
    def changes(self) -> dict[TableName, OnlineRecord | None]:
        """What the event changes."""
        before, after = self._records, self._draft
        return {name: after.get(name) for name in [*before, *after] if before.get(name) != after.get(name)}

    def concerns(self, piece: Piece) -> bool:
        """Whether a piece is one of an online DDL."""
        return any(self._tables.kind(table) != "real" for table in piece.tables)

    # -- Pieces on real tables

    def guard(self, piece: Piece) -> None:
        """Raise DMError for a DROP of a table that its ghost may be about to replace."""
        operation = piece.operation
        if not isinstance(operation, DropTable):
            return
        for ghost, record in self._draft.items():
            if record.statements and self._tables.real(ghost) == operation.table:
                raise DMError("online-ddl-real-dropped", real=operation.table, ghost=ghost, statement=piece.text)

    def passed(self, piece: Piece) -> None:
        """Remove the records that end with a piece on real tables."""
        operation, new = piece.operation, piece.made
        for name, record in list(self._draft.items()):
            of_schema = isinstance(operation, DropDatabase) and name.schema == operation.name.schema
            if of_schema or record.moved in new:
                del self._draft[name]

    def moved_away(self, piece: Piece) -> MovedAway | None:
        """The table that is still at the target under a name which the piece gives to another table."""
        moved = {record.moved: name for name, record in self._records.items() if record.moved is not None}
        return next((MovedAway(table, moved[table]) for table in piece.made if table in moved), None)

    # -- Pieces on ghost and trash tables

    def dismiss(self, piece: Piece) -> None:
        """Follow a piece that a person skips or replaces: remove the records of tables that it ends or begins."""
        for pair in piece.renames:
            for name in pair:
                self._forget(name)
        if isinstance(piece.operation, DropTable):
            self._forget(piece.operation.table)

    def steps(self, piece: Piece, query: Query, steps_of: StepsOf, dumped_after: frozenset[TableName]) -> list[Step]:
        """The steps of a piece; raises DMError.

        `steps_of` returns the steps of a piece on a real table; `dumped_after`: real tables that the dump read later.
        """
        operation = piece.operation
        if piece.renames:
            return self._renames(piece, steps_of, dumped_after)
        model = operation.like if isinstance(operation, CreateTable) else None
        subject = piece.table
        if self._tables.kind(subject) == "real" or any(table not in (subject, model) for table in piece.tables):
            raise DMError("online-ddl-several-tables", statement=piece.text)
        tracked = self._structures.get(subject) is not None
        if self._tables.kind(subject) == "ghost":
            return self._ghost(piece, query, tracked=tracked, ahead=model in dumped_after)
        if isinstance(operation, CreateTable) or not tracked:
            return []
        return [TrackOnly(piece, "if possible")]

    def _ghost(self, piece: Piece, query: Query, *, tracked: bool, ahead: bool) -> list[Step]:
        operation, ghost = piece.operation, piece.table
        known = self._draft.get(ghost)
        if isinstance(operation, CreateTable):
            if operation.if_not_exists:
                # The statement does not tell whether the ghost existed; one that was read from its start is known.
                return [] if known is not None else [Forget(piece)]
            self._draft[ghost] = OnlineRecord()
            return [Forget(piece) if ahead else TrackOnly(piece, "if possible")]
        if isinstance(operation, DropTable):
            self._forget(ghost)
            return [TrackOnly(piece)] if tracked or known is not None else []
        if isinstance(operation, TruncateTable):
            return []
        if known is not None:
            statements = (*known.statements, StoredStatement.of(piece, query))
            self._draft[ghost] = replace(known, statements=statements)
        return [TrackOnly(piece, "if possible")] if tracked or known is not None else []

    def _forget(self, name: TableName) -> None:
        self._draft.pop(name, None)

    # -- RENAME

    def _renames(self, piece: Piece, steps_of: StepsOf, dumped_after: frozenset[TableName]) -> list[Step]:
        pairs = piece.renames
        self._check_rules(piece, pairs)
        if len(piece.operations) > 1 or any(self._kinds(pair) == ("real", "real") for pair in pairs):
            raise DMError("online-ddl-several-tables", statement=piece.text)
        steps: list[Step] = []
        kept = set(dumped_after)
        for old, new in pairs:
            steps += self._pair(old, new, piece, steps_of, dumped_after)
            if self._kinds((old, new)) == ("ghost", "real") and self._structures.get(old) is None:
                kept.add(new)  # its structure follows the statements executed on it
        return [*steps, TrackOnly(piece, "if possible", frozenset(kept))]

    def _kinds(self, pair: tuple[TableName, TableName]) -> tuple[str, str]:
        return self._tables.kind(pair[0]), self._tables.kind(pair[1])

    def _check_rules(self, piece: Piece, pairs: Sequence[tuple[TableName, TableName]]) -> None:
        """RENAME t TO x, y TO t is a tool's: x must be trash and y a ghost, or the rules do not fit the tool."""
        if len(pairs) != 2 or pairs[0][0] != pairs[1][1]:
            return
        (_, aside), (successor, _) = pairs
        trash, ghost = self._tables.kind(aside) == "trash", self._tables.kind(successor) == "ghost"
        if trash != ghost and "real" in (self._tables.kind(aside), self._tables.kind(successor)):
            rules = self._tables.rules_of("ghost" if trash else "trash")
            raise DMError(
                "online-ddl-rule-mismatch",
                table=successor if trash else aside,
                key="shadow-table-rules" if trash else "trash-table-rules",
                rules=", ".join(rules),
                statement=piece.text,
            )

    def _pair(
        self, old: TableName, new: TableName, piece: Piece, steps_of: StepsOf, dumped_after: frozenset[TableName]
    ) -> Sequence[Step]:
        match self._kinds((old, new)):
            case "real", "trash":
                self._draft[new] = OnlineRecord(moved=old)
            case "real", "ghost":
                raise DMError("online-ddl-renamed-to-ghost", table=new, statement=piece.text)
            case _, "ghost":
                raise DMError("online-ddl-ghost-renamed", table=new, statement=piece.text)
            case "ghost", "trash":
                self._forget(old)
            case "trash", "trash":
                record = self._draft.pop(old, None)
                if record is not None:
                    self._draft[new] = record
            case "trash", "real":
                record = self._draft.pop(old, None)
                if (record is None or record.moved != new) and new not in dumped_after:
                    raise DMError("online-ddl-trash-returns", trash=old, real=new, statement=piece.text)
            case "ghost", "real":
                return self._cut_over(old, new, piece, steps_of, dumped_after)
        return ()

    def _cut_over(
        self, ghost: TableName, real: TableName, piece: Piece, steps_of: StepsOf, dumped_after: frozenset[TableName]
    ) -> Sequence[Step]:
        record = self._draft.pop(ghost, None)
        places = [name for name, other in self._draft.items() if other.moved == real]
        for name in places:
            del self._draft[name]
        if real in dumped_after:
            return ()
        if record is None or not record.statements:
            why = "it was created before the task began to read" if record is None else "nothing was"
            raise DMError("online-ddl-unknown", ghost=ghost, real=real, why=why, statement=piece.text)
        known = self._structures.get(ghost) is not None
        pieces = tuple(one.on(ghost, real) for one in record.statements)
        old = real if self._structures.get(real) is not None or not places else places[-1]
        why = copied_otherwise(pieces, self._structures.get(old))
        if why:
            raise DMError("online-ddl-different", ghost=ghost, real=real, why=why, statement=piece.text)
        found: list[Step] = []
        for stored, one in zip(record.statements, pieces, strict=True):
            for step in tracked(steps_of(one, stored.query), "not" if known else "exactly"):
                found.append(replace(step, copied_to=ghost) if isinstance(step, Execute) else step)
        return [CutOver(ghost, real, old, pieces, piece.text), *found] if found and known else found


_LITERALS = ("string", "number", "literal")


def copied_otherwise(pieces: Sequence[Piece], before: TableSchema | None) -> str:
    """Why the copy may hold other values than the table altered in place; empty if it does not."""
    filled = next((column for piece in pieces if (column := _filled_by_row(piece))), None)
    if filled is not None:
        return f"each row of the copy has a value of its own in the new column {filled}"
    columns = _Columns(before)
    for piece in pieces:
        # A server drops columns first.
        for operation in sorted(piece.operations, key=lambda one: not isinstance(one, DropColumn)):
            why = columns.follow(operation)
            if why:
                return why
    return ""


class _Columns:
    """A copy's new and dropped columns, while its statements are followed."""

    def __init__(self, before: TableSchema | None) -> None:
        self._before = before
        self._new: set[str] = set()
        self._gone: set[str] = set()

    def follow(self, operation: Operation) -> str:
        """Why the copy holds other values after the operation; empty if it does not."""
        if isinstance(operation, DropColumn):
            self._drop(operation)
        elif isinstance(operation, AddColumn):
            return self._add(operation)
        elif isinstance(operation, ChangeColumn | RenameColumn):
            return self._rename(operation.column.lower(), operation.name.lower())
        return ""

    def _drop(self, operation: DropColumn) -> None:
        name = operation.column.lower()
        if name in self._new:
            self._new.remove(name)
        elif self._maybe_there(name):
            self._gone.add(name)

    def _maybe_there(self, name: str) -> bool:
        return self._before is None or self._before.column(name) is not None

    def _add(self, operation: AddColumn) -> str:
        name = operation.column.lower()
        if name in self._gone and not _generated(operation.definition):
            return _added_again(name)
        if name in self._gone or not (operation.if_not_exists and self._maybe_there(name)):
            self._new.add(name)
        return ""

    def _rename(self, old: str, new: str) -> str:
        if old == new or (old not in self._new and not self._maybe_there(old)):
            return ""
        if old not in self._new:
            return f"column {old} is called {new}, and whether the tool has copied it is not told"
        if new in self._gone:
            return _added_again(new)
        self._new.remove(old)
        self._new.add(new)
        return ""


def _added_again(column: str) -> str:
    return f"column {column} is dropped and added again, and the copy has its old values"


def _generated(definition: Clause) -> bool:
    """Whether the server computes the column, whatever is copied."""
    depth = 0
    for token, following in pairwise(definition.tokens):
        depth += (token.upper == "(") - (token.upper == ")")
        if depth == 0 and token.kind == "word" and token.upper == "AS" and following.upper == "(":
            return True
    return False


def _filled_by_row(piece: Piece) -> str | None:
    """A column that the piece adds and that the server fills differently in a copy and in place."""
    for operation in piece.operations:
        if isinstance(operation, AddColumn) and _varies(operation.definition, piece.context):
            return operation.column
    return None


def _varies(definition: Clause, context: SourceContext) -> bool:
    words = definition.words
    if numbered(definition):
        return True
    if "DEFAULT" not in words:
        may_be_null = "NULL" in words and "NOT" not in words
        given = not (context.explicit_defaults_for_timestamp or may_be_null)
        return given and defines_moment(definition, context)
    value = [token for token in definition.tokens[words.index("DEFAULT") + 1 :] if token.text not in ("+", "-")]
    literal = bool(value) and (value[0].kind in _LITERALS or value[0].upper in ("NULL", "TRUE", "FALSE"))
    return not literal and not (len(value) > 1 and value[0].kind == "word" and value[1].kind == "string")
