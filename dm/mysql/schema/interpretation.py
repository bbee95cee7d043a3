"""What a statement does to the tables it names.

One function serves two sides: the tracker follows the source's structures with it, and `effect` computes the target's
structures. So both sides agree by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.schema.alteration import alter
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.draft import OperationRefused, TableDraft, renamed
from dm.mysql.schema.parse import charset_options, options_of, read_create, server_collation
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.cursor import Clause, Cursor
from dm.mysql.sql.operation import (
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    ExchangePartition,
    Operation,
    RenameTable,
    TruncateTable,
)
from dm.mysql.sql.piece import Piece

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
