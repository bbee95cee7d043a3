"""The effect of a statement on the target's structures, and whether the target already shows it.

Intents use it (structure before and expected after), and so does the rule that a DDL counts as done if the target
already shows its effect. That rule never claims more than the structure shows: an operation that can be repeated
without harm is simply repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dm.ident import TableName
from dm.mysql.schema.alteration import index_of
from dm.mysql.schema.charset import UNKNOWN, Collated
from dm.mysql.schema.column_definition import Definition, read_definition
from dm.mysql.schema.draft import OperationRefused, without_unknown_charset
from dm.mysql.schema.index_definition import read_foreign_key
from dm.mysql.schema.normal import index_form, key_form, same_column, same_structure
from dm.mysql.schema.parse import check_name, read_create
from dm.mysql.schema.partition import Partitions, after_operation
from dm.mysql.schema.table import Column, ForeignKey, Index, TableSchema
from dm.mysql.schema.tracker import Changes, SchemaState, interpret
from dm.mysql.sql.cursor import Clause, Cursor
from dm.mysql.sql.operation import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterDatabase,
    AlterDefault,
    AlterIndex,
    AlterVisibility,
    ChangeColumn,
    ConvertCharset,
    CreateDatabase,
    CreateTable,
    DropColumn,
    DropConstraint,
    DropDatabase,
    DropForeignKey,
    DropIndex,
    DropPrimaryKey,
    DropTable,
    ExchangePartition,
    ModifyColumn,
    Operation,
    OtherAlter,
    RenameColumn,
    RenameIndex,
    RenameTable,
    TableOptions,
    TruncateTable,
)
from dm.mysql.sql.piece import Piece

__all__ = [
    "already_effective",
    "depends_on_schema_defaults",
    "expected_after",
    "idempotent",
    "same_structure",
    "shows_in_structure",
]

Structures = Mapping[TableName, TableSchema | None]

_KEY_WORDS = frozenset({"UNIQUE", "PRIMARY", "KEY", "REFERENCES", "CHECK"})
_CHANGING_PARTITIONS = frozenset({"ADD", "DROP", "COALESCE", "REORGANIZE", "REMOVE"})


def _database(tables: Structures, schema: str) -> Collated:
    known = tables.get(TableName(schema, ""))
    if known is None or known.charset is None or known.collation is None:
        return UNKNOWN
    return Collated(known.charset, known.collation)


def expected_after(tables: Structures, piece: Piece) -> Changes:
    """The structures of these tables after the piece, all names as at the target.

    If the structures do not allow the piece, they are returned unchanged: the server will report the reason.
    """
    after: Changes = dict(tables)
    try:
        changes = interpret(piece, SchemaState(tables.get, lambda schema: _database(tables, schema)))
    except OperationRefused:
        return after
    after.update((name, schema) for name, schema in changes.items() if name in tables)
    return after


def depends_on_schema_defaults(piece: Piece) -> bool:
    """Whether what the piece does may depend on its schema, that is on the defaults or on whether there is one."""
    kinds = CreateTable | CreateDatabase | AlterDatabase | DropDatabase | TableOptions | ConvertCharset
    return not piece.operations or any(isinstance(operation, kinds) for operation in piece.operations)


def _partition_operation(operation: OtherAlter) -> bool:
    words = [token.upper for token in operation.clause.tokens[:2]]
    return len(words) == 2 and words[0] in _CHANGING_PARTITIONS and words[1] in ("PARTITION", "PARTITIONING")


def _repeatable(operation: Operation) -> bool:
    """Whether doing this twice is the same as doing it once."""
    if isinstance(operation, ModifyColumn):
        return not any(token.upper in _KEY_WORDS for token in operation.definition.tokens)
    if isinstance(operation, ChangeColumn):
        same = operation.column.lower() == operation.name.lower()
        return same and not any(token.upper in _KEY_WORDS for token in operation.definition.tokens)
    if isinstance(operation, OtherAlter):
        return not _partition_operation(operation)
    if isinstance(operation, CreateTable):
        return operation.if_not_exists or operation.or_replace
    if isinstance(operation, CreateDatabase):
        return operation.if_not_exists
    if isinstance(operation, AddIndex):
        return operation.or_replace or operation.if_not_exists
    if isinstance(operation, AddColumn | AddForeignKey):
        return operation.if_not_exists
    if isinstance(
        operation,
        DropTable | DropDatabase | DropColumn | DropIndex | DropPrimaryKey | DropForeignKey | DropConstraint,
    ):
        return operation.if_exists
    return isinstance(
        operation,
        TruncateTable | AlterDatabase | AlterDefault | AlterVisibility | AlterIndex | ConvertCharset | TableOptions,
    )


def idempotent(piece: Piece) -> bool:
    """Whether running the piece twice is the same as running it once."""
    return all(_repeatable(operation) for operation in piece.operations)


def shows_in_structure(piece: Piece) -> bool:
    """Whether the structure shows that the piece was run, for pieces that may not run twice."""
    for operation in piece.operations:
        if isinstance(operation, ExchangePartition):
            return False
        if isinstance(operation, TruncateTable):
            return False
        if isinstance(operation, OtherAlter):
            words = [token.upper for token in operation.clause.tokens[:2]]
            if not _partition_operation(operation) or words[0] == "REORGANIZE":
                return False
    return True


def _shown_column(schema: TableSchema, column: Column) -> bool:
    there = schema.column(column.name)
    if there is None:
        return False
    primary = next((index for index in schema.indexes if index.kind == "primary"), None)
    if primary is not None and column.name.lower() in (name.lower() for name in primary.columns):
        column = replace(column, nullable=False)
    return same_column(there, column)


def _collated(schema: TableSchema) -> Collated:
    return Collated(schema.charset or "", schema.collation or "")


def _named_index(schema: TableSchema, name: str) -> Index | None:
    return next((index for index in schema.indexes if index.name.lower() == name.lower()), None)


def _shown_index(schema: TableSchema, operation: AddIndex, cursor: Cursor, source: TableSchema | None) -> bool:
    definition = index_of(operation, cursor)
    wanted = index_form(definition.named(()), schema)
    if definition.kind != "primary" and definition.name is not None:
        there = _named_index(schema, definition.name)
        return there is not None and index_form(there, schema) == wanted
    return _one_more_index(schema, wanted, source)


def _one_more_index(schema: TableSchema, wanted: tuple[object, ...], source: TableSchema | None) -> bool:
    # The source may have had a similar one before, and numbered the new one's name.
    alike = [index for index in schema.indexes if index_form(index, schema) == wanted]
    before = [] if source is None else [one for one in source.indexes if index_form(one, source) == wanted]
    return len(alike) > len(before)


def _one_more_key(schema: TableSchema, key: ForeignKey, source: TableSchema | None) -> bool:
    alike = [other for other in schema.foreign_keys if key_form(other) == key_form(key)]
    # Here the parent has the target's name, at the source another one.
    known = () if source is None else source.foreign_keys
    before = [other for other in known if key_form(replace(other, parent=key.parent)) == key_form(key)]
    return len(alike) > len(before)


def _checks_about(schema: TableSchema | None, column: str) -> int:
    return 0 if schema is None else sum(column.lower() in words for words in schema.check_words)


def _shown_attached(
    schema: TableSchema, definition: Definition, cursor: Cursor, source: TableSchema | None, *, new: bool
) -> bool:
    """Whether the keys and checks of a column's definition exist; `new`: the column is new."""
    context, name = cursor.context, definition.column.name
    if definition.checks and context.dialect.checks_belong_to_columns and not new:
        return False  # they belong to the column there and are not tracked; a MODIFY replaces them by the same ones
    checks = 0 if context.dialect.checks_belong_to_columns else len(definition.checks)
    references = definition.parent is not None and context.dialect.honours_inline_references
    return (
        all(_one_more_index(schema, index_form(one.named(()), schema), source) for one in definition.indexes())
        and (not references or _one_more_key(schema, definition.foreign_key()[0], source))
        and _checks_about(schema, name) >= _checks_about(source, name) + checks
    )


def _shown_partitions(schema: TableSchema, operation: OtherAlter, cursor: Cursor) -> bool:
    words = [token.upper for token in operation.clause.tokens[:2]]
    now = {name.lower() for name in schema.partitions}
    if words[0] == "REMOVE":
        return not now
    if words[0] == "ADD":
        new = (after_operation(Partitions(), operation.clause, cursor) or Partitions()).names
        counted = any(token.upper == "PARTITIONS" for token in operation.clause.tokens[2:3])
        return bool(new) and {name.lower() for name in new} <= now and not counted
    if words[0] == "DROP":
        return {token.text.lower() for token in operation.clause.tokens[2:]}.isdisjoint(now)
    return False


def _shown(schema: TableSchema, operation: Operation, cursor: Cursor, source: TableSchema | None) -> bool:
    """Whether the structure looks as after this operation."""
    if isinstance(operation, AddColumn | ModifyColumn | ChangeColumn):
        name = operation.name if isinstance(operation, ChangeColumn) else operation.column
        renamed = isinstance(operation, ChangeColumn) and operation.column.lower() != operation.name.lower()
        if renamed and schema.column(operation.column) is not None:
            return False
        definition = read_definition(name, operation.definition, _collated(schema), cursor, schema.name)
        new = isinstance(operation, AddColumn)
        return _shown_column(schema, without_unknown_charset(definition.column)) and _shown_attached(
            schema, definition, cursor, source, new=new
        )
    if isinstance(operation, DropColumn):
        return schema.column(operation.column) is None
    if isinstance(operation, RenameColumn):
        return schema.column(operation.column) is None and schema.column(operation.name) is not None
    if isinstance(operation, AddIndex):
        return _shown_index(schema, operation, cursor, source)
    if isinstance(operation, DropIndex):
        return _named_index(schema, operation.name) is None
    if isinstance(operation, DropPrimaryKey):
        return _named_index(schema, "PRIMARY") is None
    if isinstance(operation, RenameIndex):
        return _named_index(schema, operation.index) is None and _named_index(schema, operation.name) is not None
    if isinstance(operation, AddForeignKey):
        return _one_more_key(schema, read_foreign_key(operation.definition, cursor)[0], source)
    if isinstance(operation, DropForeignKey | DropConstraint):
        names = [key.name for key in schema.foreign_keys]
        if isinstance(operation, DropConstraint):
            names += [*schema.checks, *(index.name for index in schema.unique_indexes)]
        return operation.name.lower() not in (name.lower() for name in names)
    if isinstance(operation, AddCheck):
        check = check_name(operation.definition)
        return check is not None and check.lower() in (known.lower() for known in schema.checks)
    if isinstance(operation, OtherAlter) and _partition_operation(operation):
        return _shown_partitions(schema, operation, cursor)
    return False


def _create_effective(tables: Structures, operation: CreateTable, cursor: Cursor) -> bool:
    there = tables.get(operation.table)
    if there is None or operation.or_replace:
        return False
    if operation.like is not None:
        model = tables.get(operation.like)
        if model is None:
            return False
        wanted = replace(model, name=operation.table, foreign_keys=(), checks=there.checks)
        return same_structure(wanted, there)
    return same_structure(read_create(operation, _database(tables, operation.table.schema), cursor), there)


def already_effective(tables: Structures, piece: Piece, source: TableSchema | None = None) -> bool:
    """Whether the target's structures already match the piece's result, so that it need not run.

    `source` is the source's table before the piece, if known.
    """
    cursor = Cursor(Clause(piece.text), piece.context)
    first = piece.operations[0] if piece.operations else None
    if isinstance(first, CreateTable):
        return _create_effective(tables, first, cursor)
    if isinstance(first, DropTable):
        return tables.get(first.table) is None
    if isinstance(first, CreateDatabase):
        return tables.get(first.name) is not None
    if isinstance(first, DropDatabase):
        return first.name in tables and tables[first.name] is None
    if isinstance(first, RenameTable) and len(piece.operations) == 1:
        if all(old == new for old, new in first.pairs):
            return True  # routes map both names to one
        return len(first.pairs) == 1 and all(
            tables.get(old) is None and tables.get(new) is not None for old, new in first.pairs
        )
    schema = tables.get(piece.table)
    if schema is None or not piece.operations or idempotent(piece):
        return False
    return all(_shown(schema, operation, cursor, source) for operation in piece.operations)
