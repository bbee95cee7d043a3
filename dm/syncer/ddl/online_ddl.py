"""Online DDL: what gh-ost and pt-online-schema-change did to a copy of a table, done to the table itself.

Such a tool makes a ghost table, alters it, copies the rows and lets triggers or its own sessions follow, and then
renames: the real table to a trash name, the ghost to the real one's. At the target none of that is needed. Rows and
statements of ghost and trash tables are left out; the statements on a ghost are kept (`dm.progress.online`) and
are executed on the real table where the source renames. The rows are right without the copy: every change to the real
table was in the binlog under its own name, and at the RENAME the ghost has the same rows.

That holds under conditions, and what can't be seen to hold pauses: all statements on the ghost must have been read,
from its CREATE TABLE on; they must make the real table what the ghost is, which is proved on the structures that are
tracked (the ghost is tracked like any table, so the rows behind the RENAME are read right in any case); and they must
give the table's rows the values that the copy has (`dm.syncer.ddl.checks.copied_rows`). A real table that got a trash
name is still at the target, so until a ghost takes its place nothing else may.

DM's rules for all combinations of names, and its codes, are in `_pair`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dm.binlog.reader import Query
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.online import OnlineRecord, StoredStatement
from dm.rules.online_tables import OnlineTables
from dm.schema.draft import Refused, renamed
from dm.schema.interpretation import Surroundings, interpret
from dm.schema.normal import index_form, same_column
from dm.schema.table import TableSchema
from dm.schema.tracker import SchemaTracker
from dm.sql.operation import CreateTable, DropDatabase, DropTable, RenameTable, TruncateTable
from dm.sql.piece import Piece
from dm.syncer.ddl.checks.copied_rows import copied_otherwise
from dm.syncer.ddl.step import CutOver, Step

StepsOf = Callable[[Piece], Sequence[Step]]


@dataclass(slots=True)
class OnlineDdl:
    """The online DDL under way at the source, as of the event being read.

    `begin` starts from what is stored; an event's steps change a draft of it, which counts when `stored` says so.
    """

    tables: OnlineTables
    records: dict[TableName, OnlineRecord]
    tracker: SchemaTracker
    _draft: dict[TableName, OnlineRecord]

    @classmethod
    def of(cls, tables: OnlineTables, records: Mapping[TableName, OnlineRecord], tracker: SchemaTracker) -> OnlineDdl:
        """With the records of earlier runs."""
        return cls(tables, dict(records), tracker, dict(records))

    def begin(self) -> None:
        """An event is to be looked at."""
        self._draft = dict(self.records)

    @property
    def changes(self) -> dict[TableName, OnlineRecord | None]:
        """What the event's steps change."""
        before, after = self.records, self._draft
        return {name: after.get(name) for name in before | after if before.get(name) != after.get(name)}

    def stored(self) -> None:
        """The changes are stored."""
        self.records = dict(self._draft)

    def concerns(self, piece: Piece) -> bool:
        """Whether a piece is one of an online DDL."""
        return any(self.tables.kind(table) != "real" for table in piece.tables)

    # -- Pieces on real tables

    def guard(self, piece: Piece) -> None:
        """Raise DMError for the end of a table that its ghost may be about to replace."""
        operation = piece.operations[0] if piece.operations else None
        if not isinstance(operation, DropTable):
            return
        for ghost, record in self._draft.items():
            if record.statements and self.tables.real(ghost) == operation.table:
                raise DMError("online-ddl-real-dropped", real=operation.table, ghost=ghost, statement=piece.text)

    def passed(self, piece: Piece) -> None:
        """Forget what ends with a piece on real tables."""
        operation = piece.operations[0] if piece.operations else None
        new = made(piece)
        for name, record in list(self._draft.items()):
            of_schema = isinstance(operation, DropDatabase) and name.schema == operation.name.schema
            if of_schema or record.moved in new:
                del self._draft[name]

    def moved_to(self, piece: Piece) -> tuple[TableName, TableName] | None:
        """A table that the piece brings into being, and the trash name of another that had its name before."""
        moved = {record.moved: name for name, record in self.records.items() if record.moved is not None}
        return next(((table, moved[table]) for table in made(piece) if table in moved), None)

    # -- Pieces on ghost and trash tables

    def dismissed(self, piece: Piece) -> Step:
        """A piece that a person leaves out or replaces: what it ends is not remembered, what it does not at all."""
        operation = piece.operations[0] if piece.operations else None
        if isinstance(operation, RenameTable):
            for pair in operation.pairs:
                for name in pair:
                    self._forget(name)
        elif isinstance(operation, DropTable):
            self._forget(operation.table)
        return Step(piece, execute=False, track="if possible")

    def steps(self, piece: Piece, query: Query, steps_of: StepsOf, behind: frozenset[TableName]) -> list[Step]:
        """What a piece comes to; raises DMError.

        `steps_of` gives the steps of a piece on a real table; `behind`: real tables that the dump read behind it.
        """
        operation = piece.operations[0] if piece.operations else None
        if any(isinstance(one, RenameTable) for one in piece.operations):
            return self._renames(piece, steps_of, behind)
        model = operation.like if isinstance(operation, CreateTable) else None
        subject = piece.table
        if self.tables.kind(subject) == "real" or any(table not in (subject, model) for table in piece.tables):
            raise DMError("online-ddl-several-tables", statement=piece.text)
        tracked = self.tracker.get(subject) is not None
        if self.tables.kind(subject) == "ghost":
            return self._ghost(piece, subject, query, tracked=tracked, ahead=model in behind)
        if isinstance(operation, CreateTable) or not tracked:
            return []
        return [Step(piece, execute=False, track="if possible")]

    def _ghost(self, piece: Piece, ghost: TableName, query: Query, *, tracked: bool, ahead: bool) -> list[Step]:
        operation = piece.operations[0] if piece.operations else None
        known = self._draft.get(ghost)
        if isinstance(operation, CreateTable):
            if operation.if_not_exists:
                # Whether there was one already, the statement does not say; what was seen from its start is known.
                return [] if known is not None else [Step(piece, execute=False, track="forget")]
            self._draft[ghost] = OnlineRecord()
            return [Step(piece, execute=False, track="forget" if ahead else "if possible")]
        if isinstance(operation, DropTable):
            self._forget(ghost)
            return [Step(piece, execute=False)] if tracked or known is not None else []
        if isinstance(operation, TruncateTable):
            return []
        if known is not None:
            statements = (*known.statements, StoredStatement.of(piece, query))
            self._draft[ghost] = replace(known, statements=statements)
        return [Step(piece, execute=False, track="if possible")] if tracked or known is not None else []

    def _forget(self, name: TableName) -> None:
        self._draft.pop(name, None)

    # -- RENAME

    def _renames(self, piece: Piece, steps_of: StepsOf, behind: frozenset[TableName]) -> list[Step]:
        pairs = [pair for one in piece.operations if isinstance(one, RenameTable) for pair in one.pairs]
        self._check_rules(piece, pairs)
        if len(piece.operations) > 1 or any(self._kinds(pair) == ("real", "real") for pair in pairs):
            raise DMError("online-ddl-several-tables", statement=piece.text)
        steps: list[Step] = []
        kept = set(behind)
        for old, new in pairs:
            steps += self._pair(old, new, piece, steps_of, behind)
            if self._kinds((old, new)) == ("ghost", "real") and self.tracker.get(old) is None:
                kept.add(new)  # what is known of it follows the statements that are executed on it
        return [*steps, Step(piece, execute=False, track="if possible", kept=frozenset(kept))]

    def _kinds(self, pair: tuple[TableName, TableName]) -> tuple[str, str]:
        return self.tables.kind(pair[0]), self.tables.kind(pair[1])

    def _check_rules(self, piece: Piece, pairs: Sequence[tuple[TableName, TableName]]) -> None:
        """RENAME t TO x, y TO t is a tool's: then x is trash and y a ghost, or the rules do not fit the tool."""
        if len(pairs) != 2 or pairs[0][0] != pairs[1][1]:
            return
        (_, aside), (successor, _) = pairs
        trash, ghost = self.tables.kind(aside) == "trash", self.tables.kind(successor) == "ghost"
        if trash != ghost and "real" in (self.tables.kind(aside), self.tables.kind(successor)):
            rules = self.tables.rules_of("ghost" if trash else "trash")
            raise DMError(
                "online-ddl-rule-mismatch",
                table=successor if trash else aside,
                key="shadow-table-rules" if trash else "trash-table-rules",
                rules=", ".join(rules),
                statement=piece.text,
            )

    def _pair(
        self, old: TableName, new: TableName, piece: Piece, steps_of: StepsOf, behind: frozenset[TableName]
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
                if (record is None or record.moved != new) and new not in behind:
                    raise DMError("online-ddl-trash-returns", trash=old, real=new, statement=piece.text)
            case "ghost", "real":
                return self._cut_over(old, new, piece, steps_of, behind)
        return ()

    def _cut_over(
        self, ghost: TableName, real: TableName, piece: Piece, steps_of: StepsOf, behind: frozenset[TableName]
    ) -> Sequence[Step]:
        record = self._draft.pop(ghost, None)
        places = [name for name, other in self._draft.items() if other.moved == real]
        for name in places:
            del self._draft[name]
        if real in behind:
            return ()
        if record is None or not record.statements:
            why = "it was created before the task began to read" if record is None else "nothing was"
            raise DMError("online-ddl-unknown", ghost=ghost, real=real, why=why, statement=piece.text)
        known = self.tracker.get(ghost) is not None
        pieces = tuple(one.on(ghost, real) for one in record.statements)
        old = real if self.tracker.get(real) is not None or not places else places[-1]
        why = copied_otherwise(pieces, self.tracker.get(old))
        if why:
            raise DMError("online-ddl-different", ghost=ghost, real=real, why=why, statement=piece.text)
        found: list[Step] = []
        for stored, one in zip(record.statements, pieces, strict=True):
            for step in steps_of(one):
                step.track = "no" if known else "yes"
                step.copied_to = ghost
                found.append(step.within(stored.query))
        if found and known:
            found[0].cut_over = CutOver(ghost, real, old, pieces, piece.text)
        return found

    def prove(self, cut_over: CutOver, position: Position) -> None:
        """Raise DMError where the statements would not make the real table what the ghost is."""
        ghost, real = cut_over.ghost, cut_over.real
        now, aim = self.tracker.get(cut_over.old), self.tracker.get(ghost)
        if now is None or aim is None:
            return  # the structure is found, and compared with the target's, when the next rows come
        tables = {real: renamed(now, real)}
        try:
            for piece in cut_over.pieces:
                changes = interpret(piece, Surroundings(tables.get, self.tracker.database_charset, lenient=True))
                tables.update((name, schema) for name, schema in changes.items() if schema is not None)
            why = _difference(tables[real], renamed(aim, real))
        except Refused as refusal:
            why = str(refusal)
        if why:
            raise DMError(
                "online-ddl-different",
                position=position,
                ghost=ghost,
                real=real,
                why=why,
                statement=cut_over.statement,
            )


def made(piece: Piece) -> frozenset[TableName]:
    """The tables that the piece brings into being."""
    operation = piece.operations[0] if piece.operations else None
    if isinstance(operation, CreateTable):
        return frozenset({operation.table})
    return frozenset(new for each in piece.operations if isinstance(each, RenameTable) for _, new in each.pairs)


def _difference(one: TableSchema, other: TableSchema) -> str:
    """In what two structures differ, as far as statements on them can tell; empty when in nothing."""
    if [column.name.lower() for column in one.columns] != [column.name.lower() for column in other.columns]:
        return "other columns: " + " and ".join(
            ", ".join(column.name for column in schema.columns) for schema in (one, other)
        )
    for left, right in zip(one.columns, other.columns, strict=True):
        if not same_column(left, right):
            return f"another column {left.name}"
    foreign = [sorted(key.name.lower() for key in schema.foreign_keys) for schema in (one, other)]
    if foreign[0] != foreign[1]:
        return "other foreign keys: " + " and ".join(", ".join(names) or "none" for names in foreign)
    indexes = [
        {index.name.lower(): index_form(index, schema) for index in schema.indexes if not one.foreign_keys}
        for schema in (one, other)
    ]
    if indexes[0] != indexes[1]:
        names = {name for name in indexes[0] | indexes[1] if indexes[0].get(name) != indexes[1].get(name)}
        return f"other indexes: {', '.join(sorted(names))}"
    return ""
