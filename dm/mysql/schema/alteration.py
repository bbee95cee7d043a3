"""Applies the operations of an ALTER TABLE to a table structure, as a whole.

Within one statement the servers drop first, then change and add columns, and build indexes at the end, so names mean
the resulting table (mysql_prepare_alter_table in sql/sql_table.cc of both servers). Renames of columns happen at once:
a swap is two of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from dm.mysql.binlog.charset import max_bytes
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.column_definition import Definition, read_default, read_definition, with_implicit_timestamps
from dm.mysql.schema.draft import OperationRefused, TableDraft
from dm.mysql.schema.index_definition import IndexDefinition, read_foreign_key, read_index
from dm.mysql.schema.parse import charset_options, check_name, engine_name, options_of, words_of
from dm.mysql.schema.partition import after_operation
from dm.mysql.schema.table import Column
from dm.mysql.schema.time_default import with_its_digits, with_its_zone
from dm.mysql.sql.cursor import Cursor
from dm.mysql.sql.operation import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterDefault,
    AlterIndex,
    AlterVisibility,
    ChangeColumn,
    ColumnPlace,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropIndex,
    DropPrimaryKey,
    ModifyColumn,
    Operation,
    OtherAlter,
    RenameColumn,
    RenameIndex,
    RenameTable,
    TableOptions,
)
from dm.mysql.types.bytes import sized_by_converting


def _column(draft: TableDraft, name: str) -> Column:
    at = draft.position(name)
    if at is None:
        raise OperationRefused(f"there is no column {name}")
    return draft.columns[at]


def index_of(operation: AddIndex, cursor: Cursor) -> IndexDefinition:
    """The index that an operation adds; CREATE INDEX has its name elsewhere."""
    definition = read_index(operation.definition, cursor)
    if operation.name is not None:
        definition.name = operation.name
    return definition


def _drop(draft: TableDraft, operation: Operation, again: set[str]) -> None:
    if isinstance(operation, DropIndex):
        if not operation.if_exists or draft.index(operation.name) is not None:
            draft.drop_index(operation.name)
    elif isinstance(operation, DropPrimaryKey):
        if not operation.if_exists or draft.index("PRIMARY") is not None:
            draft.drop_index("PRIMARY")
    elif isinstance(operation, DropForeignKey):
        if not operation.if_exists or any(key.name.lower() == operation.name.lower() for key in draft.foreign_keys):
            draft.drop_foreign_key(operation.name)
    elif isinstance(operation, DropConstraint):
        draft.drop_column_check(operation.name)
        if not operation.if_exists or draft.has_constraint(operation.name):
            draft.drop_constraint(operation.name)
    elif isinstance(operation, DropColumn) and (
        not operation.if_exists or draft.position(operation.column) is not None
    ):
        draft.drop_column(operation.column, keep_indexes=operation.column.lower() in again)


def _renames(draft: TableDraft, operations: Sequence[Operation]) -> list[tuple[str, str]]:
    """Old and new names of columns; a MODIFY that writes a name in another case changes the case."""
    respelled = [
        (_column(draft, operation.column).name, operation.column)
        for operation in operations
        if isinstance(operation, ModifyColumn) and draft.position(operation.column) is not None
    ]
    return [(old, new) for old, new in respelled if old != new] + [
        (operation.column, operation.name)
        for operation in operations
        if isinstance(operation, RenameColumn | ChangeColumn)
        and operation.column != operation.name
        and not (operation.if_exists and draft.position(operation.column) is None)
    ]


def _added(draft: TableDraft, operations: Sequence[Operation]) -> set[str]:
    """The columns, in lower case, that the statement adds; MariaDB takes a MODIFY of one of them."""
    added = {one.column.lower() for one in operations if isinstance(one, AddColumn)}
    return {name for name in added if draft.position(name) is None}


def _redefine(
    draft: TableDraft, operation: Operation, cursor: Cursor, added: set[str], before: Mapping[str, Column]
) -> Definition | None:
    """MODIFY and CHANGE: another definition at the column's place; the column has its new name already."""
    if not isinstance(operation, ModifyColumn | ChangeColumn):
        return None
    name = operation.name if isinstance(operation, ChangeColumn) else operation.column
    if name.lower() in added or (operation.if_exists and draft.position(name) is None):
        return None
    definition = read_definition(name, operation.definition, draft.collated, cursor, draft.name)
    old, tokens = before.get(operation.column.lower()), operation.definition.tokens
    written = any(token.text == "(" for token in tokens[1:2])
    if old is not None and draft.conversion is not None and cursor.context.dialect.sizes_by_converting and not written:
        base = sized_by_converting(definition.column, old, max_bytes(draft.conversion.charset))
        definition.column = replace(definition.column, base=base or definition.column.base)
    draft.replace_column(definition.column)
    return definition


def _place(draft: TableDraft, operation: Operation, cursor: Cursor, added: set[str]) -> Definition | None:
    """ADD COLUMN, and the move of a changed column, in the order in which they are written.

    MariaDB: a MODIFY of a column that was just added replaces its definition and its place, which is then the end if
    none is named; an index stays. With IF EXISTS it does nothing, since the table has no such column yet.
    """
    if isinstance(operation, AddColumn):
        if operation.if_not_exists and draft.position(operation.column) is not None:
            return None
        definition = read_definition(operation.column, operation.definition, draft.collated, cursor, draft.name)
        draft.insert_column(definition.column, operation.place)
        return definition
    if isinstance(operation, ModifyColumn | ChangeColumn):
        name, place = operation.name if isinstance(operation, ChangeColumn) else operation.column, operation.place
        new = name.lower() in added
        if new and operation.if_exists:
            return None
        if new and draft.position(name) is not None:
            definition = read_definition(name, operation.definition, draft.collated, cursor, draft.name)
            draft.replace_column(definition.column)
            last = draft.columns[-1].name
            to_end = not place.first and place.after is None and last.lower() != name.lower()
            draft.move_column(name, ColumnPlace(after=last) if to_end else place)
            return definition
        if draft.position(name) is not None or not operation.if_exists:
            draft.move_column(name, place)
    return None


def _adjust(draft: TableDraft, operation: Operation, cursor: Cursor, renamed: dict[str, str]) -> None:
    """ALTER COLUMN, which overrides a definition in the same statement."""
    if not isinstance(operation, AlterDefault | AlterVisibility):
        return
    name = renamed.get(operation.column.lower(), operation.column)
    if isinstance(operation, AlterDefault) and operation.if_exists and draft.position(name) is None:
        return
    column = _column(draft, name)
    if isinstance(operation, AlterVisibility):
        draft.replace_column(replace(column, invisible=operation.invisible))
    elif not column.auto_increment:  # which can't have a default
        text = read_default(cursor.within(operation.default)) if operation.default.tokens else None
        default = None if text is not None and text.upper() == "NULL" else text
        column = with_its_digits(replace(column, default=default), cursor.context)
        draft.replace_column(with_its_zone(column, cursor.context))


def _add(draft: TableDraft, operation: Operation, cursor: Cursor) -> None:
    if isinstance(operation, AddIndex):
        definition = index_of(operation, cursor)
        name = "PRIMARY" if definition.kind == "primary" else definition.name
        if name is None and operation.if_not_exists:
            name = definition.parts[0].column  # what the server would call it
        if name is not None and draft.index(name) is not None:
            if operation.if_not_exists:
                return
            if operation.or_replace:
                draft.drop_index(name)
        draft.add_index(definition)
    elif isinstance(operation, AddForeignKey):
        key, index = read_foreign_key(operation.definition, cursor)
        if not (
            operation.if_not_exists and any(other.name.lower() == key.name.lower() for other in draft.foreign_keys)
        ):
            draft.add_foreign_key(key, index)
    elif isinstance(operation, AddCheck):
        name, columns = check_name(operation.definition), words_of(operation.definition)
        if not (operation.if_not_exists and name is not None and name.lower() in map(str.lower, draft.checks)):
            draft.add_check(name, columns, cursor.context.flavor)


def recoded(column: Column, text: Collated) -> Column:
    """A character column in another character set."""
    if not column.type.has_charset:
        return column
    return replace(column, charset=text.charset, collation=text.collation)


def converted(column: Column, text: Collated) -> Column:
    """A column after CONVERT TO CHARACTER SET: TEXT types grow so that no character is lost."""
    if not column.type.has_charset:
        return column
    base = column.type.renamed(column, max_bytes(column.charset), max_bytes(text.charset))
    return recoded(replace(column, base=base), text)


def _to_default(operation: TableOptions) -> bool:
    words = [token.upper for token in operation.options.tokens if token.upper != "="]
    return any(word in ("SET", "CHARSET") and following == "DEFAULT" for word, following in pairwise(words))


def _table_options(draft: TableDraft, operation: Operation, cursor: Cursor, database: Collated) -> None:
    if isinstance(operation, ConvertCharset):
        options, _ = options_of(operation.options, cursor)
        text = charset_options(options, database, cursor.context)
        draft.columns = [converted(column, text) for column in draft.columns]
        draft.conversion = text
        draft.charset, draft.collation = text
    elif isinstance(operation, TableOptions):
        options, _ = options_of(operation.options, cursor)
        inherited = database if _to_default(operation) else draft.collated
        draft.charset, draft.collation = charset_options(options, inherited, cursor.context)
        for option in options:
            if option.name in ("ENGINE", "TYPE"):
                draft.engine = engine_name(option.value)


def alter(draft: TableDraft, operations: Sequence[Operation], cursor: Cursor, database: Collated) -> None:
    """Apply the operations of one statement; raises `OperationRefused` if the structure does not allow one."""
    before = {column.name.lower(): column for column in draft.columns}
    again = {operation.column.lower() for operation in operations if isinstance(operation, AddColumn)}
    for kinds in (DropIndex | DropPrimaryKey | DropForeignKey | DropConstraint, DropColumn):
        for operation in operations:
            if isinstance(operation, kinds):
                _drop(draft, operation, again)
    # MariaDB keeps a DEFAULT CHARSET whatever CONVERT TO says with it; in MySQL the later of the two counts.
    own = cursor.context.dialect.converts_with_own_default
    first = [one for one in operations if own and isinstance(one, ConvertCharset)]
    for operation in [*first, *(one for one in operations if one not in first)]:
        _table_options(draft, operation, cursor, database)
    renames = _renames(draft, operations)
    draft.rename_columns(renames)
    renamed = {old.lower(): new for old, new in renames}
    added = _added(draft, operations)
    found = [_redefine(draft, operation, cursor, added, before) for operation in operations]
    found += [_place(draft, operation, cursor, added) for operation in operations]
    if any(isinstance(one, AddColumn | ModifyColumn | ChangeColumn) for one in operations):
        draft.columns = with_implicit_timestamps(draft.columns, cursor)
    for operation in operations:
        _adjust(draft, operation, cursor, renamed)
    if draft.conversion is not None:  # it overrides the columns' own character sets in the same statement
        draft.columns = [recoded(column, draft.conversion) for column in draft.columns]
    for operation in operations:
        if isinstance(operation, AlterIndex):
            draft.hide_index(operation.index, operation.invisible)
    indexes = [
        (operation.index, operation.name)
        for operation in operations
        if isinstance(operation, RenameIndex) and not (operation.if_exists and draft.index(operation.index) is None)
    ]
    draft.rename_indexes(indexes)
    for definition in found:
        if definition is not None:
            draft.add_attached(definition, cursor.context.flavor)
    for operation in operations:
        _add(draft, operation, cursor)
        if isinstance(operation, OtherAlter):
            partitions = after_operation(draft.partitions, operation.clause, cursor)
            if partitions is not None:
                draft.partitions = partitions
        elif isinstance(operation, RenameTable):
            draft.rename_table(operation.pairs[-1][1])
    if not draft.columns:
        raise OperationRefused("a table must keep a column")
