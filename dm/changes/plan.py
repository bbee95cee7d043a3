"""How the changes of one source table become changes of one target table: worked out once per pair of structures.

Everything that depends on the structures alone is decided here, so that a row needs only a few calls of prepared
functions: which column goes where, which keys order the changes, which key finds a row again, which statements are
allowed.

`keyed` tables have a primary key, or a unique key without NULLs, whose columns all come unchanged from the source row.
Only these can be replayed (safe mode). Everything else is applied exactly once, in order, by comparing whole rows. If
the source does not enforce that key, two source rows may swap its values. Then the source's own key also identifies the
row (`identity`): in a replay another row may hold the key by now.

What is forbidden for a table, and why:

- REPLACE, if the target has columns the source lacks (it would reset them), or if rows of other tables refer to it and
  the target checks that (it would delete the parent). `upsert` says so: UPDATE, and INSERT if there was no row.
  Also if a unique key depends on the time zone of the session, and nothing tells the source's value of it (an index
  over an expression): the row that would go may be another one than at the source. Where such a key is a column, what
  the target has computed is compared with the row's image (`computed`), so REPLACE removes what the source has not.
  And if the target alone has a unique key over a prefix, or over what it computes: another row of the source may have
  it, and nothing here can ask for it (`own_key_check` asks for the others).
- INSERT .. ON DUPLICATE KEY UPDATE, with columns the source lacks (they may have no default), or with triggers, which
  would see an INSERT.
- Changing the order of changes, if triggers or checked foreign keys make one row's change depend on other rows.
- Dropping a value that a later change of the row replaces (`compact`), if the target might have refused it: each column
  must have the source's own type there, and nothing there may judge or compute values.

The one ordered lane applies `ordered` tables, exactly once and in the source's order. These are the tables without a
key. If the target checks foreign keys, they include tables that foreign keys join, over any number of steps,

- to a table without a key, whose rows could not wait for theirs in another lane, or
- through foreign keys that change rows themselves (`cascades`). The effect of such a change depends on all rows at that
  moment. So these are never replayed either.

If several tables are merged into one, a table without a key makes the others ordered, too (`dm.changes.keys`).

The changes of other joined tables carry their parents' keys and are otherwise free. During a replay, rows of two
moments exist together, so nothing is checked then (`RowChange.unchecked`): the source has checked it all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dm.changes.collation import Weights
from dm.changes.column_map import ConstantColumn, MappedColumn, map_columns, refuse_narrower
from dm.changes.computing import NEUTRAL, PLAIN, SESSION_TIME, Computing, LocalTime, OwnColumn, TableSettings
from dm.changes.event_form import EventForm
from dm.changes.keys import Key, KeyFunction, SharedKeys, table_key
from dm.changes.row_hash import RowHash, RowText, listed_text, row_text
from dm.changes.row_keys import NONE_LACKED, LackedKeys, RowKeys, TargetTable, exact, key_functions, row_keys
from dm.config.units import InsertMode, MissingRow, NarrowerColumns
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import Row
from dm.mysql.dialect import Dialect, Flavor, dialect
from dm.mysql.schema.expressions import (
    column_depends_on_zone,
    computes_otherwise,
    is_computed,
    text_depends_on_zone,
    words_of,
)
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.mysql.types.family import Comparison
from dm.session.state import USUAL_MODE

# Beyond this the optimizer may drop the ranges of an IN list; INSERTs gain nothing more either.
STATEMENT_ROWS: Final = 500
_SEVEN_BYTES: Final = 56
# The first character of a number or a string; functions and expressions begin with a word or a parenthesis.
_LITERAL: Final = re.compile(r"[-+]?\.?\d|'|\"|_\w+\s*['\"]|[bxn]'|(?:true|false)$", re.IGNORECASE)


def sees_none(_: TableName) -> bool:
    """Of no table it is known that the account sees its triggers."""
    return False


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What applies to all tables of a subtask."""

    flavor: Flavor  # the target's
    weights: Weights | None = None  # knows collations; None: text keys under collations count as one value
    foreign_key_checks: bool = False
    insert_mode: InsertMode = "insert"
    multiple_rows: bool = True
    compact: bool = False
    missing_row: MissingRow = "pause"
    narrower_columns: NarrowerColumns = "pause"
    local_time: LocalTime = SESSION_TIME
    computing: Computing = NEUTRAL
    no_events: str = "no session takes row events"  # why no table's rows go so; empty: they may
    version: int = 0  # the target's, as executable comments count
    others_alter: str = ""  # why the target's tables may change under the rows; empty: they don't
    sees_triggers: Callable[[TableName], bool] = sees_none  # whether the target shows the account those of its table
    mode: str = USUAL_MODE  # that its sessions usually have

    @property
    def dialect(self) -> Dialect:
        """What all versions of the target have."""
        return dialect(self.flavor)


@dataclass(frozen=True, slots=True, eq=False)
class TablePlan:
    """The conversion of one source table into one target table."""

    source: TableName
    target: TableName
    flavor: Flavor
    columns: tuple[MappedColumn, ...]  # those that are written
    values: RowText  # of them, in parentheses
    keyed: bool
    ordered: bool  # its changes keep the source's order among each other and with those of all such tables
    linked: bool  # foreign keys that the target checks begin or end here
    cascades: bool  # foreign keys here change rows themselves
    row_key: tuple[MappedColumn, ...]  # finds a row of a keyed table
    identity: tuple[MappedColumn, ...]  # the source's key, if rows of the source may exchange values of the row key
    row_index: str  # the index of the row key, empty without one
    key_values: RowText  # of the row key, as an element of a list
    all_key_values: RowText  # of the row key and the verified columns
    comparisons: tuple[tuple[int, Comparison], ...]  # find a row of a keyless table: index in the row, condition
    other_keys: tuple[tuple[MappedColumn, ...], ...]  # the unique keys besides the row key that can be computed
    verified: tuple[MappedColumn, ...]  # further key columns, compared where the order of changes was altered
    key_functions: tuple[KeyFunction, ...]
    order_key: Key | None  # shared by all changes of a table whose changes must stay in order
    key_columns: frozenset[int]  # indexes in the row of all columns of unique indexes
    unique_indexes: int
    zero_enums: tuple[int, ...]  # indexes in the row of ENUM columns: their error value needs a lenient statement
    insert_replaces: bool  # `insert-mode: replace`
    counts_missing: bool  # `missing-row: count`
    upsert: bool  # REPLACE is not allowed
    updates_by_insert: bool  # INSERT .. ON DUPLICATE KEY UPDATE is allowed
    groupable: bool  # changes may share a statement and move over others
    statement_rows: int  # how many rows may share a statement
    compacts: bool  # changes of one row may become one
    forgets_rows: bool  # INSERT and DELETE of one row may become none
    long_columns: tuple[int, ...]  # indexes in the row of columns that may exceed a packet
    defaults_agree: frozenset[int]  # indexes in the row of columns that may be left out of an INSERT
    constants: Row = ()  # what routes extract: to be put after every row image
    events: EventForm | None = None  # how its rows go as the source's own events, where they may
    row_hash: RowHash | None = None  # how many rows are found together, where they may be
    own: tuple[OwnColumn, ...] = ()  # of the target's, which depend on the time zone
    documents: bool = False  # columns of the target are MySQL's JSON
    namesakes: tuple[MappedColumn, ...] = ()  # two values of them are one to the target
    unconstrained: bool = False  # the target is not to look at CHECKs, since the source has not
    settings: TableSettings = PLAIN  # of the session, for its statements
    mode: str = USUAL_MODE  # the session's sql_mode then
    computed_keys: frozenset[str] = frozenset()  # unique indexes, in lower case, that the target computes
    computed: tuple[tuple[MappedColumn, Comparison], ...] = ()  # what both store, to be compared, and the condition
    computed_of: tuple[tuple[int, Comparison], ...] = ()  # of a keyless table: what finds the rows that are compared
    lacked: LackedKeys = NONE_LACKED  # unique keys that the source lacks, in which its rows may meet

    @property
    def dialect(self) -> Dialect:
        """What all versions of the target have."""
        return dialect(self.flavor)

    @property
    def closing(self) -> bytes:
        """What ends a row of an INSERT of values."""
        return b"".join([b"," + column.inserted for column in self.own if column.inserted is not None]) + b")"


def build_plan(
    source: TableSchema,
    wire: Sequence[Column],
    target: TargetTable,
    options: PlanOptions,
    constants: Sequence[ConstantColumn] = (),
    shared: SharedKeys | None = None,
) -> TablePlan:
    """The plan for rows of `source`, as the binlog holds them, at `target`; raises DMError when columns don't match.

    `shared` is what the plans of all source tables of that target have in common; this plan adds to it.
    """
    shared = SharedKeys() if shared is None else shared
    schema, checked = target.schema, options.foreign_key_checks
    columns = [*wire, *(each.column for each in constants)]
    settings, mapped = _mapped(source.name, columns, target, options)
    if options.narrower_columns == "pause":
        # Columns of routes take the target's type.
        pairs = ((column.source, column.target) for column in mapped if column.at < len(wire))
        refuse_narrower(source.name, schema.name, pairs, null_is_now=target.null_is_now)
    by_name = {column.target.name.lower(): column for column in mapped}
    written = tuple(column for column in mapped if column.written)
    keys = row_keys(source, schema, by_name)
    keyed = bool(keys.row_key)
    _share(shared, target, keyed=keyed)
    own, there = options.local_time.own_columns(schema, by_name) if written else (), options.dialect
    extra = any(c.generated is None and c.name.lower() not in by_name for c in schema.columns)
    namesakes = tuple(column for column in written if there.compares_members_by_name and "" in column.source.members)
    groupable = (options.multiple_rows or options.compact) and not (target.triggers or checked or namesakes)
    compacts = options.compact and groupable and keyed and _same_values(target, mapped, len(wire))
    computed = _computed(source.name, schema, mapped, options, keys.row_key)
    comparisons = _comparisons(source.name, schema, written, options)
    plan = TablePlan(
        source=source.name,
        target=schema.name,
        flavor=options.flavor,
        columns=written,
        values=row_text(written, b"(", b")"),
        keyed=keyed,
        ordered=shared.keyless or target.acting or target.keyless_kin,
        linked=target.linked,
        cascades=target.acting,
        row_key=keys.row_key,
        identity=keys.identity,
        row_index=keys.index,
        key_values=listed_text(keys.row_key),
        all_key_values=listed_text(keys.row_key + keys.verified),
        comparisons=comparisons,
        other_keys=keys.others,
        verified=keys.verified,
        key_functions=key_functions(target, by_name, options.weights, shared, foreign_keys=checked),
        order_key=table_key(schema.name) if shared.keyless else None,
        key_columns=keys.columns,
        unique_indexes=len(schema.unique_indexes),
        zero_enums=tuple(c.at for c in written if c.source.type.is_enum and c.target.type.is_enum),
        insert_replaces=options.insert_mode == "replace" and keyed,
        counts_missing=options.missing_row == "count" and keyed,
        upsert=extra or (checked and bool(target.referenced)) or _untold(schema, computed, keys),
        updates_by_insert=keyed
        and not (extra or any(_lost_by_values(column, there) for column in written))
        and groupable
        and options.multiple_rows,
        groupable=groupable,
        statement_rows=STATEMENT_ROWS if options.multiple_rows else 1,
        compacts=compacts,
        forgets_rows=compacts and len(schema.unique_indexes) == 1 and not (schema.partitions or keys.identity),
        long_columns=tuple(column.at for column in written if column.source.type.long),
        documents=any(column.target.type.is_document for column in written),
        defaults_agree=frozenset(column.at for column in written if _same_default(column)),
        constants=tuple(constant.value for constant in constants),
        own=own,
        namesakes=namesakes,
        settings=settings,
        mode=settings.mode(options.mode),
        computed=computed,
        computed_of=_computed_of(schema, written, comparisons) if computed and not keyed else (),
        computed_keys=frozenset(index.name.lower() for index in schema.unique_indexes if is_computed(index, schema)),
        lacked=keys.lacked,
    )
    return replace(plan, values=row_text(written, b"(", plan.closing)) if own else plan


def _share(shared: SharedKeys, target: TargetTable, *, keyed: bool) -> None:
    shared.plans += 1
    shared.keyless = shared.keyless or not keyed
    if target.linked and not keyed and not target.keyless_kin:
        # Linked tables treated it as a keyed table, as the target's structure says.
        raise DMError("foreign-key-kin-keyless", table=target.schema.name)


def _mapped(
    source: TableName, columns: Sequence[Column], target: TargetTable, options: PlanOptions
) -> tuple[TableSettings, tuple[MappedColumn, ...]]:
    """What the statements' session needs, and the columns as they are written there."""
    computing = options.computing
    settings = computing.settings(target.schema, unread_checks=target.checks and options.dialect.skips_checks)
    mapped = map_columns(
        source,
        columns,
        target.schema,
        json_types=options.dialect.takes_json_types,
        flavor=options.flavor,
        moment=computing.moment if settings.zone else None,
    )
    return settings, mapped


def _comparisons(
    source: TableName, schema: TableSchema, written: Sequence[MappedColumn], options: PlanOptions
) -> tuple[tuple[int, Comparison], ...]:
    indexed = {name.lower() for index in schema.indexes for name in index.columns}
    return tuple(
        (
            column.at,
            exact(column, options.flavor, source, indexed=column.target.name.lower() in indexed),
        )
        for column in written
    )


def _computed(
    source: TableName,
    schema: TableSchema,
    mapped: Sequence[MappedColumn],
    options: PlanOptions,
    row_key: Sequence[MappedColumn],
) -> tuple[tuple[MappedColumn, Comparison], ...]:
    """The columns that both sides compute by expressions that depend on the time zone, and store, or have in a key."""
    in_keys = {name.lower() for index in _zoned_keys(schema, row_key) for name in index.columns}
    return tuple(
        (column, exact(column, options.flavor, source, indexed=False))
        for column in mapped
        if column.source.generated is not None
        and column.target.generated is not None
        and (column.source.generated == column.target.generated == "stored" or column.target.name.lower() in in_keys)
        and column_depends_on_zone(column.target, schema)
        and not computes_otherwise(column.source.expression or "", column.target.expression or "", comparable=True)
    )


def _computed_of(
    schema: TableSchema, written: Sequence[MappedColumn], comparisons: Sequence[tuple[int, Comparison]]
) -> tuple[tuple[int, Comparison], ...]:
    """The conditions for rows of these values: of all columns but long ones that no expression reads."""
    words = frozenset[str]().union(*(words_of(column.expression or "") for column in schema.columns))
    left_out = {column.at for column in written if column.source.type.long and column.target.name.lower() not in words}
    return tuple((at, compare) for at, compare in comparisons if at not in left_out)


def _zoned_keys(schema: TableSchema, row_key: Sequence[MappedColumn]) -> Iterator[Index]:
    """The unique indexes over expressions that depend on the time zone, in which rows of two row keys may meet."""
    found_by = {column.target.name.lower() for column in row_key}
    for index in schema.unique_indexes:
        columns = [schema.column(name) for name in index.columns]
        over = any(c is not None and c.generated is not None and column_depends_on_zone(c, schema) for c in columns)
        expressions = [part.expression for part in index.parts if part.expression is not None]
        if (over or any(text_depends_on_zone(text, schema) for text in expressions)) and not (
            found_by <= {part.column.lower() for part in index.parts if part.column is not None and part.prefix is None}
        ):
            yield index


def _untold(schema: TableSchema, computed: Sequence[tuple[MappedColumn, Comparison]], keys: RowKeys) -> bool:
    """Whether some key depends on the time zone, or is the target's alone, and nothing tells the source's value."""
    zoned = _zoned_keys(schema, keys.row_key)
    return bool(keys.lacked.refusing) or any(not _told(index, computed, schema) for index in zoned)


def _told(index: Index, computed: Sequence[tuple[MappedColumn, Comparison]], schema: TableSchema) -> bool:
    """Whether what the target computes of the key is compared with the source's."""
    compared = {column.target.name.lower() for column, _ in computed}
    zoned = (column for column in schema.columns if column.name.lower() in {name.lower() for name in index.columns})
    return not index.functional and all(
        column.name.lower() in compared
        for column in zoned
        if column.generated is not None and column_depends_on_zone(column, schema)
    )


def _lost_by_values(column: MappedColumn, there: Dialect) -> bool:
    """Whether VALUES() may give another value.

    It gives the empty SET for its empty member; at a TiDB a BIT's bytes reversed; of a TIMESTAMP the session's local
    time, which may stand for two moments.
    """
    target = column.target
    reversed_bytes = there.reverses_bits_of_values and target.type.is_bits and (target.length or 1) > _SEVEN_BYTES
    return column.moment or "" in target.members or reversed_bytes


def _same_default(column: MappedColumn) -> bool:
    return column.source.default == column.target.default and _constant(column.source)


def _same_values(table: TargetTable, mapped: Sequence[MappedColumn], constant_from: int) -> bool:
    """Whether the target accepts every row that the source had, as far as the row alone decides."""
    schema = table.schema
    if table.checks or schema.checks or len(mapped) != len(schema.columns):
        return False
    if any(part.column is None for index in schema.unique_indexes for part in index.parts):
        return False
    return all(
        column.written and (column.at >= constant_from or _same_type(column.source, column.target)) for column in mapped
    )


def _same_type(source: Column, target: Column) -> bool:
    if (source.nullable and not target.nullable) or (target.json_checked and not source.json_checked):
        return False
    one, other = (
        (column.type, column.type.value_size(column), column.unsigned, column.charset, column.members)
        for column in (source, target)
    )
    return one == other


def _constant(column: Column) -> bool:
    """Whether the column's default is the same in every row: a literal, or NULL."""
    return column.nullable if column.default is None else bool(_LITERAL.match(column.default))
