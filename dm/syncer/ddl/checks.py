"""Checks before a piece is executed: what it would do to the target that it did not do to the source.

Each check decides itself whether it concerns a piece, and raises DMError. `CHECKS` lists all of them, in order.

Values. A statement must not give the target's rows other values than the source's rows got: later rows would be looked
for by values that the target's rows do not have. `dm.mysql.sql.effect_on_rows` says what a statement leaves to the
server.

- Without rows, nothing can differ. Values that depend on the order of rows are harmless with one row, or if both tables
  keep their rows in the same order. InnoDB reads rows by the primary key, or by the only key that can replace it.
  Without such a key the order is that of the inserts, and concurrent sessions of the source are in the binlog in the
  order of their commits. Rows that a filter left out, or that another source table added, also change the order.
- On another kind of server, a column's new type may convert rows in another way (`dm.mysql.schema.table`), and a new
  column's DEFAULT may be computed in another way (`dm.mysql.schema.exact_default`). A conversion is harmless if it
  changes nothing, neither here nor, as far as its table is known, at the source. If the column already has the new type
  here, a person has converted it, which is the way out.
- TRUNCATE, DROP and EXCHANGE PARTITION remove the rows of a partition. The target's partition may hold other rows
  (`dm.mysql.schema.partition_rows`).
- A new column may already exist at the target, with old values: its namesake was dropped at the source only.
- An online DDL tool fills a copy; we alter the table in place. The tools copy with NO_AUTO_VALUE_ON_ZERO, so a 0 stays
  which ALTER TABLE would number. A NULL gets another time in a TIMESTAMP that may not be NULL any more. (Differences
  that the statements alone show are found by `dm.syncer.ddl.online_ddl`.)

Names. Routes gather tables, and servers fold names.

- A target that folds names may take two tables of the source for one.
- A table that an online DDL tool moved away at the source is still at the target under its old name, with its rows.
- DROP DATABASE drops the one schema to which the schema itself is routed. Tables routed elsewhere would stay, and would
  reappear with a table of the same name: nothing in the binlog names them.
- A person makes the table that gathers many, with parts of their names in extra columns. The CREATE TABLE of another
  source table would make it without these columns, so it counts as done if the table exists. A RENAME would move the
  table of all sources, or leave rows with values that no row of the source has any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect.pair import same_family, same_server
from dm.mysql.schema.draft import OperationRefused
from dm.mysql.schema.effect import expected_after
from dm.mysql.schema.exact_default import exact_default, loses_digits
from dm.mysql.schema.partition import losing_rows
from dm.mysql.schema.partition_rows import other_values, placed_otherwise
from dm.mysql.schema.table import Column, Index, TableSchema, same_type, widens
from dm.mysql.schema.tracker import SchemaState, SchemaTracker, interpret
from dm.mysql.schema.translation import charsets
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.effect_on_rows import OwnValues, numbered, own_values
from dm.mysql.sql.operation import (
    AddColumn,
    ChangeColumn,
    ConvertCharset,
    CreateTable,
    DropDatabase,
    ExchangePartition,
    ModifyColumn,
    Operation,
    OtherAlter,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import Token
from dm.mysql.types import defines_moment
from dm.rules.router import table_missing
from dm.rules.table_rules import RowEvent, TableRules
from dm.syncer.ddl.plan import Check, CheckedStep
from dm.syncer.ddl.session import DdlSession

_TAKING: Final = ("TRUNCATE", "DROP")
_KINDS: tuple[RowEvent, ...] = ("insert", "update", "delete")


def refuse_other_values(checked: CheckedStep) -> None:
    """Raise DMError if the target's rows would get other values."""
    piece, target, session = checked.piece, checked.table_now, checked.target.session
    if checked.step.by_hand or checked.effective or target is None:
        return
    tracker, rules = checked.source.tracker, checked.source.rules
    source = tracker.get(piece.table)
    for own in own_values(piece):
        column = None if own.column is None or source is None else source.column(own.column)
        if column is not None and column.auto_increment:
            continue
        if _harmless(own, piece, source, target, tracker, rules):
            continue
        if session.has_rows(target.name, 2 if own.ordered else 1, own.condition):
            raise DMError("ddl-values-differ", what=own.what, statement=piece.text, position=checked.position)
    if same_server(piece.context.flavor, session.context.flavor):
        return
    after = _read_there(checked.target_piece, checked.now, session)
    there, here = session.context.dialect.title, piece.context.dialect.title
    computed = _computed(piece, target, after)
    if computed and session.has_rows(target.name, 1):
        what = f"{there} may compute the DEFAULT of column {computed} in another way than {here}"
        raise DMError("ddl-values-differ", what=what, statement=piece.text, position=checked.position)
    converted = _converted(piece, source, tracker, target, after)
    if converted and session.has_rows(target.name, 1):
        lacking = session.unknown_charsets(charsets(checked.target_piece))
        if lacking:  # else it would be advised to have the target execute the same statement
            cause = f"the target has no character set {lacking[0]}"
            statement = checked.target_piece.text
            raise DMError("ddl-collation-unknown", statement=statement, position=checked.position, cause=cause)
        what = f"{there} may convert column {converted} in another way than {here}"
        raise DMError("ddl-values-differ", what=what, statement=piece.text, position=checked.position)


def refuse_kept_columns(checked: CheckedStep) -> None:
    """Raise DMError if the target still has the column of an ADD COLUMN, and rows."""
    piece, target = checked.piece, checked.table_now
    if checked.step.by_hand or target is None:
        return
    kept = checked.source.tracker.kept_columns(piece.table)
    for each in piece.operations:
        if not isinstance(each, AddColumn) or each.column.lower() not in kept:
            continue
        if target.column(each.column) is not None and checked.target.session.has_rows(target.name, 1):
            raise DMError(
                "ddl-column-kept",
                column=each.column,
                target=target.name,
                statement=piece.text,
                position=checked.position,
            )


def refuse_other_partitions(checked: CheckedStep) -> None:
    """Raise DMError if the target's partition may hold other rows than the source's did."""
    piece, target = checked.piece, checked.table_now
    verb, tables = _taken(checked.target_piece)
    if checked.step.by_hand or target is None or not verb:
        return
    if target.partitions and not checked.effective:
        source, session = checked.source.tracker.get(piece.table), checked.target.session
        other = not same_family(piece.context.flavor, session.context.flavor)
        why = placed_otherwise(source, target, other=other, server=session.context.dialect)
        if not why and source is not None:
            why = other_values(source, target, losing_rows(piece), session.number)
    elif verb == "DROP" and not target.partitions:
        why = "the target's table has none"  # it does not have those that go, so the statement would count as done
    else:
        return
    if why and any(checked.target.session.has_rows(table, 1) for table in tables):
        raise DMError("ddl-partitions-differ", why=why, statement=piece.text, position=checked.position)


def _computed(piece: Piece, target: TableSchema, after: TableSchema | None) -> str | None:
    """A new column whose values in the target's rows are computed by an expression."""
    for operation in piece.operations:
        if isinstance(operation, AddColumn):
            column = None if after is None else after.column(operation.column)
            words, tokens = operation.definition.words, operation.definition.tokens
            exact = "DEFAULT" not in words if column is None else exact_default(column, target)
            if not exact or (column is not None and loses_digits(column, _default_of(tokens))):
                return operation.column
    return None


def _default_of(definition: Sequence[Token]) -> Sequence[Token]:
    """What stands after DEFAULT."""
    return next((definition[at + 1 :] for at, token in enumerate(definition) if token.upper == "DEFAULT"), ())


def _taken(routed: Piece) -> tuple[str, list[TableName]]:
    """The verb of a statement that removes the rows of partitions, and the tables that lose them."""
    for operation in routed.operations:
        if isinstance(operation, ExchangePartition):
            return "EXCHANGE", [routed.table, operation.other]
        if isinstance(operation, OtherAlter):
            words = [token.upper for token in operation.clause.tokens[:2]]
            if words[1:] == ["PARTITION"] and words[0] in _TAKING:
                return words[0], [routed.table]
    return "", []


def _converted(
    piece: Piece, source: TableSchema | None, tracker: SchemaTracker, target: TableSchema, after: TableSchema | None
) -> str | None:
    """A column whose values the piece may convert at the target, or converted at the source."""
    changed = [pair for operation in piece.operations for pair in _redefined(operation, target)]
    followed = _followed(piece, tracker) if changed and source is not None else None
    for old, new in changed:
        here = target.column(old)
        if here is None:
            continue  # the target will refuse it
        then = None if after is None else after.column(new)
        if then is not None and same_type(here, then):
            continue
        if then is None or not widens(here, then):
            return old
        before, following = (
            None if one is None else one.column(name) for one, name in ((source, old), (followed, new))
        )
        if before is not None and following is not None and not widens(before, following):
            return old
    return None


def _read_there(
    target_piece: Piece, now: Mapping[TableName, TableSchema | None], session: DdlSession
) -> TableSchema | None:
    """The target's table after the piece, as its flavour reads it: MariaDB takes JSON for a LONGTEXT."""
    there = session.context
    context = replace(target_piece.context, flavor=there.flavor, version=there.version)
    try:
        return expected_after(now, replace(target_piece, context=context)).get(target_piece.table)
    except DMError:
        return None  # the target may refuse it, or read it in a way unknown here


def _redefined(operation: Operation, target: TableSchema) -> list[tuple[str, str]]:
    """The columns that get another type, by their old and their new names."""
    if isinstance(operation, ModifyColumn):
        return [(operation.column, operation.column)]
    if isinstance(operation, ChangeColumn):
        return [(operation.column, operation.name)]
    return [(one.name, one.name) for one in target.columns] if isinstance(operation, ConvertCharset) else []


def _followed(piece: Piece, tracker: SchemaTracker) -> TableSchema | None:
    """The source's table after the piece; None if its structure can't be followed."""
    try:
        return interpret(piece, SchemaState(tracker.get, tracker.database_charset, lenient=True)).get(piece.table)
    except OperationRefused:
        return None


def _harmless(
    own: OwnValues,
    piece: Piece,
    source: TableSchema | None,
    target: TableSchema,
    tracker: SchemaTracker,
    rules: TableRules,
) -> bool:
    if not own.ordered or source is None:
        return False
    gathered = [table for table in tracker.tables() if rules.wanted(table) and target.name in rules.destinations(table)]
    all_here = rules.scattered(source.name) is None and not rules.filters_rows(source.name)
    whole = all_here and all(rules.row_event(source.name, kind) == "do" for kind in _KINDS)
    return whole and gathered == [piece.table] and _order(source) is not None and _order(source) == _order(target)


def _order(schema: TableSchema) -> tuple[object, ...] | None:
    """What decides the order in which a server meets the rows; None if the structure does not show it."""
    index = _clustered(schema)
    if index is None or (schema.engine or "innodb").lower() != "innodb":
        return None
    parts = [(part, schema.column(part.column or "")) for part in index.parts]
    return schema.partitions, *(
        (column.name.lower(), _compared(column), part.prefix, part.descending)
        for part, column in parts
        if column is not None
    )


def _clustered(schema: TableSchema) -> Index | None:
    primary = [index for index in schema.indexes if index.kind == "primary"]
    whole = [index for index in schema.unique_indexes if _stands_in(index, schema)]
    # If there are several, the structure does not show which one the server uses.
    return primary[0] if primary else whole[0] if len(whole) == 1 else None


def _stands_in(index: Index, schema: TableSchema) -> bool:
    columns = [schema.column(part.column or "") for part in index.parts]
    return all(column is not None and not column.nullable for column in columns) and all(
        part.prefix is None for part in index.parts
    )


def _compared(column: Column) -> tuple[object, ...]:
    kind = "integer" if column.type.is_integer else column.base
    return kind, column.collation, column.members


def refuse_other_copy(checked: CheckedStep) -> None:
    """Raise DMError if the piece gives rows of the target other values than the copy has."""
    piece, ghost, target = checked.piece, checked.step.copied_to, checked.table_now
    if ghost is None or target is None or checked.effective:
        return
    for operation in piece.operations:
        found = _rows_otherwise(operation, target, piece.context)
        if found is not None and checked.target.session.has_rows(target.name, 1, found[0]):
            raise DMError(
                "online-ddl-different",
                position=checked.position,
                ghost=ghost,
                real=piece.table,
                why=found[1],
                statement=piece.text,
            )


def _rows_otherwise(operation: Operation, target: TableSchema, context: SourceContext) -> tuple[str, str] | None:
    """A condition for the rows that get another value in place than in a copy, and why."""
    if not isinstance(operation, ModifyColumn | ChangeColumn):
        return None
    name, column = Ident(operation.column).sql, target.column(operation.column)
    if numbered(operation.definition):
        if column is not None and column.auto_increment:
            return None  # both servers keep its zeros
        return f"{name} IS NULL OR {name} = 0", f"the copy has other numbers in column {operation.column}"
    words = operation.definition.words
    never_null = ("NOT", "NULL") in pairwise(words)
    if not context.explicit_defaults_for_timestamp:
        never_null = never_null or "NULL" not in words
    if never_null and defines_moment(operation.definition, context):
        return f"{name} IS NULL", f"the copy has other times in column {operation.column} where there was NULL"
    return None


def refuse_folded(checked: CheckedStep) -> None:
    """Raise DMError if two followed tables would be one at the target."""
    checked.target.names.demand_apart(checked.piece.tables, checked.piece.made, checked.position)


def refuse_successor(checked: CheckedStep) -> None:
    """Raise DMError if another table would get the name of one that still exists."""
    moved = checked.step.moved_away
    if moved is None:
        return
    target = checked.source.rules.route(moved.real)
    if checked.now.get(target) is not None:
        raise DMError(
            "online-ddl-table-moved",
            position=checked.position,
            real=moved.real,
            trash=moved.trash,
            target=target,
            target_sql=target.sql,
            statement=checked.piece.text,
        )


def refuse_leaving_tables(checked: CheckedStep) -> None:
    """Raise DMError if the target would keep tables of the schema that the piece drops."""
    operation, rules = checked.piece.operation, checked.source.rules
    if checked.step.by_hand or not isinstance(operation, DropDatabase):
        return
    gone = rules.route(operation.name).schema
    routed = {
        name
        for table in checked.source.tracker.tables()
        if table.schema == operation.name.schema and rules.wanted(table)
        for name in rules.destinations(table)
    }
    read_target = checked.target.schemas.read
    left = [table for table in sorted(routed) if table.schema != gone and read_target(table) is not None]
    if left:
        tables = ", ".join(table.sql for table in left)
        raise DMError("ddl-schema-elsewhere", tables=tables, statement=checked.piece.text, position=checked.position)


def creates_shard(piece: Piece, rules: TableRules) -> bool:
    """Whether the piece creates a source table whose rows go into a table that gathers them."""
    operation = piece.operation
    return isinstance(operation, CreateTable) and not operation.or_replace and bool(rules.extracted(operation.table))


def refuse_missing_target(checked: CheckedStep) -> None:
    """Raise DMError if the table that gathers the rows of a new table does not exist."""
    piece, rules = checked.piece, checked.source.rules
    if not creates_shard(piece, rules):
        return
    target = rules.route(piece.table)
    if checked.now.get(target) is None:
        error = table_missing(piece.table, target, rules.extracted(piece.table))
        error.position = str(checked.position)
        raise error


def refuse_renaming(checked: CheckedStep) -> None:
    """Raise DMError `extract-renamed` if the new name yields other extracted values than the old one."""
    rules = checked.source.rules
    for old, new in checked.piece.renames:
        before, after = rules.extracted(old), rules.extracted(new)
        if before != after:
            raise DMError(
                "extract-renamed",
                position=checked.position,
                statement=checked.piece.text,
                target=rules.route(old if before else new),
                old=old,
                new=new,
            )


# All checks, in the order in which they run.
CHECKS: Final[tuple[Check, ...]] = (
    refuse_renaming,
    refuse_missing_target,
    refuse_leaving_tables,
    refuse_folded,
    refuse_successor,
    refuse_kept_columns,
    refuse_other_copy,
    refuse_other_values,
    refuse_other_partitions,
)
