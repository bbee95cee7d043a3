"""The structures of a source's tables at the point of the binlog being read, and what a statement does to them.

Every DDL is followed, even one that filters keep from the target: later rows have the new structure. An untracked table
stays untracked when it is altered. Its structure is found when its first rows come (see the syncer), and a guess made
here would count as knowledge there.

A source may have ten thousand tables, and a statement changes one. So what changes is noted down while a statement is
followed (`changing`); no list of all tables is compared with another one.

What a statement does to the tables it names.

One function serves two sides: the tracker follows the source's structures with it, and `effect` computes the target's
structures. So both sides agree by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.schema.alteration import alter
from dm.mysql.schema.charset import Collated, collated, default_collation
from dm.mysql.schema.draft import OperationRefused, TableDraft, renamed
from dm.mysql.schema.parse import charset_options, options_of, read_create, server_collation
from dm.mysql.schema.table import ForeignKey, TableSchema, schema_from_json, schema_to_json
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor
from dm.mysql.sql.operation import (
    AlterDatabase,
    ChangeColumn,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    ExchangePartition,
    Operation,
    RenameColumn,
    RenameTable,
    TruncateTable,
)
from dm.mysql.sql.piece import Piece


class SchemaTracker:
    """Structures by name, followed through DDL."""

    def __init__(self, flavor: Flavor, databases: Mapping[str, Collated] | None = None) -> None:
        self._context = SourceContext(flavor, dialect(flavor).newest, "")
        self._tables: dict[TableName, TableSchema] = {}
        self._databases: dict[str, Collated] = dict(databases or {})
        self._kept: dict[TableName, tuple[str, ...]] = {}  # of tables not tracked yet
        self._was: dict[TableName, TableSchema | None] | None = None  # of those that change within `changing`
        self._listeners: list[Callable[[TableName], None]] = []

    def listen(self, listener: Callable[[TableName], None]) -> None:
        """Have `listener` told of each table that is tracked from now on, or no longer."""
        self._listeners.append(listener)

    @contextmanager
    def changing(self) -> Iterator[Mapping[TableName, TableSchema | None]]:
        """What the tables that change within were before; None for those that were not tracked."""
        outer, was = self._was, dict[TableName, TableSchema | None]()
        self._was = was
        try:
            yield was
        finally:
            self._was = outer
            if outer is not None:
                outer.update({name: schema for name, schema in was.items() if name not in outer})

    def _put(self, name: TableName, schema: TableSchema | None) -> None:
        """The only place that changes what is tracked."""
        was = self._tables.get(name)
        if self._was is not None:
            self._was.setdefault(name, was)
        if schema is not None:
            self._tables[name] = schema
        elif was is not None:
            del self._tables[name]
        if (was is None) is not (schema is None):
            for listener in self._listeners:
                listener(name)

    def set(self, schema: TableSchema) -> None:
        """Track this structure from now on."""
        self._put(schema.name, schema)
        self.keep_dropped(schema.name, self._kept.pop(schema.name, ()))

    def keep_dropped(self, table: TableName, columns: Iterable[str]) -> None:
        """Remember that the target still has columns that this table has lost."""
        names = {name.lower() for name in columns}.union(self.kept_columns(table))
        schema = self._tables.get(table)
        if schema is None:
            self._kept[table] = tuple(sorted(names))
        elif names:
            kept = tuple(sorted(name for name in names if schema.column(name) is None))
            self._put(table, replace(schema, kept=kept))

    def kept_columns(self, table: TableName) -> tuple[str, ...]:
        """The columns, in lower case, that the target still has as far as is known."""
        schema = self._tables.get(table)
        return self._kept.get(table, ()) if schema is None else schema.kept

    def forget(self, table: TableName) -> None:
        """Stop tracking the table."""
        self._put(table, None)

    def get(self, table: TableName) -> TableSchema | None:
        """The structure of a table; None when it is not tracked."""
        return self._tables.get(table)

    def tables(self) -> tuple[TableName, ...]:
        """The names of all tables that are tracked."""
        return tuple(self._tables)

    def structures(self) -> dict[TableName, TableSchema]:
        """The structures of all tables that are tracked."""
        return dict(self._tables)

    def with_other_keys(self, before: Mapping[TableName, TableSchema | None]) -> dict[TableName, TableSchema]:
        """Those of `changing` whose foreign keys are not what they were: of children without a statement, too."""
        return {
            name: was
            for name, was in before.items()
            if was is not None
            and (schema := self._tables.get(name)) is not None
            and was.foreign_keys != schema.foreign_keys
        }

    def set_database(self, schema: str, charset: str | None, collation: str | None) -> None:
        """Set the default character set and collation of a schema of the source."""
        self._databases[schema] = collated(charset, collation, server_collation(self._context), self._context)

    def database_charset(self, schema: str) -> Collated:
        """The default of a schema; the servers' own default if unknown."""
        return self._databases.get(schema, server_collation(self._context))

    def told_charset(self, schema: str) -> Collated | None:
        """The default of a schema; None if unknown."""
        return self._databases.get(schema)

    def drop_schema(self, name: str) -> None:
        """Forget a schema with all its tables."""
        self._databases.pop(name, None)
        for table in [table for table in self._tables if table.schema == name]:
            self._put(table, None)

    def apply(self, piece: Piece) -> None:
        """Follow one statement; raises DMError if the tracked structures do not allow it."""
        operation = piece.operations[0] if piece.operations else None
        if isinstance(operation, DropDatabase):
            self.drop_schema(operation.name.schema)
            return
        if isinstance(operation, DropTable):
            self.forget(operation.table)
            return
        if (
            isinstance(operation, CreateDatabase)
            and operation.if_not_exists
            and operation.name.schema in self._databases
        ):
            return  # a new schema has its own statement in the binlog, with its own defaults
        if isinstance(operation, CreateTable):
            if operation.like is not None and operation.like not in self._tables:
                if not operation.if_not_exists:
                    self.forget(operation.table)
                return
        elif isinstance(operation, RenameTable) and len(piece.operations) == 1:
            self._rename(operation)
            return
        elif piece.table.table and piece.table not in self._tables:
            for old, new in (pair for one in piece.operations if isinstance(one, RenameTable) for pair in one.pairs):
                self.forget(old)
                self.forget(new)
            self._follow_columns(piece)
            return
        try:
            changes = interpret(piece, SchemaState(self._now, self.database_charset, lenient=True))
        except OperationRefused as refusal:
            raise untrackable(piece, str(refusal)) from None
        for name, schema in changes.items():
            self._keep(name, schema)
        self._follow_columns(piece)
        for one in piece.operations:
            if isinstance(one, RenameTable):
                self._follow_parents(one)

    def _now(self, name: TableName) -> TableSchema | None:
        # A schema counts as absent: its existence makes no difference to what is tracked.
        return self._tables.get(name)

    def _keep(self, name: TableName, schema: TableSchema | None) -> None:
        if schema is None:
            self.forget(name)
        elif name.table:
            self._put(name, schema)
        else:
            assert schema.charset is not None
            assert schema.collation is not None
            self._databases[name.schema] = Collated(schema.charset, schema.collation)

    def _rename(self, operation: RenameTable) -> None:
        """RENAME TABLE pair by pair; an untracked table may replace a tracked one."""
        for old, new in operation.pairs:
            if operation.if_exists and old not in self._tables:
                continue
            schema = self._tables.get(old)
            self.forget(old)
            self._put(new, None if schema is None else renamed(schema, new))
        self._follow_parents(operation)

    def _follow_parents(self, operation: RenameTable) -> None:
        """Foreign keys of other tables follow their parent when it is renamed."""
        for old, new in operation.pairs:
            for name, schema in self._tables.items():
                if any(key.parent == old for key in schema.foreign_keys):
                    keys = (replace(key, parent=new) if key.parent == old else key for key in schema.foreign_keys)
                    self._put(name, replace(schema, foreign_keys=tuple(keys)))

    def _follow_columns(self, piece: Piece) -> None:
        """Foreign keys of other tables follow the columns of their parent, of a swap both at once.

        Servers rename no such column in a copy of the table, so a rename that was logged is one that keys followed.
        """
        names = {
            one.column.lower(): one.name for one in piece.operations if isinstance(one, RenameColumn | ChangeColumn)
        }
        for name, schema in self._tables.items() if names else ():
            if name != piece.table and any(key.parent == piece.table for key in schema.foreign_keys):
                keys = (key if key.parent != piece.table else _following(key, names) for key in schema.foreign_keys)
                self._put(name, replace(schema, foreign_keys=tuple(keys)))

    def to_json(self) -> dict[TableName, str]:
        """Every tracked structure in its stored form."""
        return {name: schema_to_json(schema) for name, schema in self._tables.items()}

    @classmethod
    def from_json(cls, flavor: Flavor, stored: Iterable[str]) -> SchemaTracker:
        """A tracker that knows stored structures."""
        tracker = cls(flavor)
        for text in stored:
            tracker.set(schema_from_json(text))
        return tracker


def _following(key: ForeignKey, names: Mapping[str, str]) -> ForeignKey:
    """The key after columns of its parent were renamed; `names` has their old names in lower case."""
    return replace(key, parent_columns=tuple(names.get(column.lower(), column) for column in key.parent_columns))


Changes = dict[TableName, TableSchema | None]


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The state before a statement: tables (a schema is a table without a name) and the character sets of schemas."""

    table: Callable[[TableName], TableSchema | None]
    database: Callable[[str], Collated]
    lenient: bool = False  # see TableDraft


def database_schema(name: TableName, text: Collated) -> TableSchema:
    """A schema as an entry among tables: a name without a table, no columns."""
    return TableSchema(name, (), charset=text.charset, collation=text.collation)


def _like(operation: CreateTable, around: SchemaState, flavor: Flavor) -> TableSchema:
    assert operation.like is not None
    model = around.table(operation.like)
    if model is None:
        raise OperationRefused(f"the structure of {operation.like} is not known")
    checks = model.checks
    if dialect(flavor).names_checks_after_table:  # Reference Manual, "CREATE TABLE ... LIKE Statement"
        checks = tuple(f"{operation.table.table}_chk_{number + 1}" for number in range(len(checks)))
    return replace(model, name=operation.table, foreign_keys=(), checks=checks, kept=())


def _create(operation: CreateTable, around: SchemaState, cursor: Cursor) -> Changes:
    if around.table(operation.table) is not None:
        if operation.if_not_exists:
            return {}
        if not operation.or_replace:
            raise OperationRefused(f"there is a table {operation.table} already")
    if operation.like is not None:
        return {operation.table: _like(operation, around, cursor.context.flavor)}
    return {operation.table: read_create(operation, around.database(operation.table.schema), cursor)}


def _rename(operation: RenameTable, around: SchemaState) -> Changes:
    changes: Changes = {}

    def now(name: TableName) -> TableSchema | None:
        return changes[name] if name in changes else around.table(name)

    for old, new in operation.pairs:
        schema = now(old)
        if schema is None:
            if operation.if_exists:
                continue
            raise OperationRefused(f"the structure of {old} is not known")
        if old != new and now(new) is not None:
            raise OperationRefused(f"there is a table {new} already")
        changes[old] = None
        changes[new] = renamed(schema, new)
    return changes


def _database(operation: CreateDatabase | AlterDatabase, around: SchemaState, cursor: Cursor) -> Changes:
    there = around.table(operation.name)
    if isinstance(operation, CreateDatabase):
        if there is not None and operation.if_not_exists:
            return {}
        told = cursor.context.server_collation is not None
        inherited = server_collation(cursor.context) if told else around.database("")
    else:
        inherited = around.database(operation.name.schema)
    inner = cursor.within(operation.options)
    if inner.word() == "READ":  # READ ONLY: whether it can be written, not its structure
        return {operation.name: database_schema(operation.name, inherited)}
    options, _ = options_of(operation.options, cursor)
    if any(option.name == "CHARSET" and option.value.lower() == "default" for option in options):
        inherited = server_collation(cursor.context)  # MariaDB: of a schema, DEFAULT is the server's
        if cursor.context.dialect.default_has_no_collation:
            inherited = Collated(inherited.charset, default_collation(inherited.charset, cursor.context))
    return {operation.name: database_schema(operation.name, charset_options(options, inherited, cursor.context))}


def _alter(piece: Piece, operations: tuple[Operation, ...], around: SchemaState, cursor: Cursor) -> Changes:
    name = piece.table
    schema = around.table(name)
    if schema is None:
        raise OperationRefused(f"the structure of {name} is not known")
    draft = TableDraft(schema, lenient=around.lenient)
    alter(draft, operations, cursor, around.database(name.schema))
    changed = draft.freeze()
    return {name: changed} if changed.name == name else {name: None, changed.name: changed}


def interpret(piece: Piece, around: SchemaState) -> Changes:
    """The tables that a piece changes, as they are after it; raises `OperationRefused` or DMError."""
    cursor = Cursor(Clause(piece.text), piece.context).using(piece.table.schema)  # the schema of unqualified parents
    first = piece.operations[0] if piece.operations else None
    if isinstance(first, CreateTable):
        return _create(first, around, cursor)
    if isinstance(first, DropTable):
        if around.table(first.table) is None and not first.if_exists:
            raise OperationRefused(f"there is no table {first.table}")
        return {first.table: None}
    if isinstance(first, RenameTable) and len(piece.operations) == 1:
        return _rename(first, around)
    if isinstance(first, CreateDatabase | AlterDatabase):
        return _database(first, around, cursor)
    if isinstance(first, DropDatabase):
        return {first.name: None}
    if first is None or isinstance(first, TruncateTable | ExchangePartition):
        return {}
    return _alter(piece, piece.operations, around, cursor)


def untrackable(piece: Piece, why: str) -> DMError:
    """The pause for a statement whose effect cannot be told."""
    return DMError("ddl-untrackable", statement=piece.text, why=why)
