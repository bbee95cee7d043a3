"""Cuts a table into chunks: ranges of a unique key with about the same number of rows each.

Problem: chunks are read by different connections, and again after a crash. So their bounds must be plain SQL that
means the same rows everywhere: every row in exactly one chunk, whatever the key's types and collation, and whichever
rows come and go meanwhile.

The bounds are key values of rows that were met while walking the index (`ORDER BY key LIMIT 1 OFFSET n`), so nothing
is assumed about how values spread. That costs up to a quarter of what reading costs. Where the key is one column of
whole numbers with few gaps, every n-th number is a bound instead: between two of them are n rows at most.

A chunk is `lower < key <= upper`; both ends may be open. The comparison is
written out (`k1 > a OR (k1 = a AND k2 > b)`) together with a bound on the leading column: servers make a range scan
of that form, while row constructors cost five times as much. A bound is written so that it compares exactly as the
column sorts: characters in the column's own character set (`_gbk x'..'`: the comparison then uses the column's
collation), numbers as they are, FLOAT as the double that it is, dates as text.

A table without a key to walk (none, or only keys of types whose order can't be written that way) is one chunk.

`dm.dumper.planned_tables` walks the keys with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dm.dumpfiles.text_rows import read_all
from dm.ident import Ident, TableName
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection

_SPARSEST = 2  # numbers per row

Bound = tuple[str, ...]  # one SQL literal per key column

_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})  # no character has one byte


def _columns_of(schema: TableSchema, index: Index) -> tuple[Column, ...] | None:
    """The columns of a unique index that is a row's identity; None when it is not."""
    if not index.unique or index.functional:
        return None
    columns = tuple(column for column in map(schema.column, index.columns) if column is not None)
    primary = index.kind == "primary"
    if len(columns) != len(index.parts) or any(column.nullable and not primary for column in columns):
        return None
    return columns


@dataclass(frozen=True, slots=True)
class WalkedKey:
    """The unique index that cuts a table."""

    index: str
    columns: tuple[Column, ...]

    @property
    def order(self) -> str:
        """The ORDER BY list."""
        return ", ".join(Ident(column.name).sql for column in self.columns)

    @property
    def whole_numbers(self) -> bool:
        """Whether the key is one column of them."""
        return len(self.columns) == 1 and self.columns[0].type.is_integer

    @property
    def values(self) -> str:
        """The SELECT list that gives the values of a bound."""
        return ", ".join(value_expression(column) for column in self.columns)


def in_innodb(engine: str | None) -> bool:
    """Whether a table of this engine is InnoDB's, as those that name none are."""
    return (engine or "InnoDB").lower() == "innodb"


def _has_one_order(column: Column, engine: str | None) -> bool:
    """Whether an index of the column has the order that its comparisons have.

    MariaDB keeps CHAR padded and lets the pad count in NOPAD collations: in an index `ssa` and `ßa` are two values, to
    a comparison they are one, and a row between two bounds would be in neither chunk (seen on 10.11). Engines other
    than InnoDB compare the CHARs of an index in ways of their own: Aria differs in collations of several levels where a
    character has two bytes or more (seen on 10.11), MEMORY in MySQL's UCA 9.0.0 collations, which do not pad (seen on
    9.7).
    """
    if not column.type.ordered:
        return False
    if not column.type.is_text:
        return True
    if column.charset is None:
        return False
    if not column.type.pads_with_spaces:
        return True
    doubtful = ("_nopad_",) if in_innodb(engine) else ("_nopad_", "uca1400", "_0900_", "_w2")
    collation = column.collation or ""
    return not any(word in collation for word in doubtful) and (in_innodb(engine) or column.charset not in _WIDE)


def walked_key(schema: TableSchema) -> WalkedKey | None:
    """The key to walk: the primary key if it can be, else the first other one that FORCE INDEX may name."""
    for index in schema.unique_indexes:
        columns = _columns_of(schema, index)
        if (
            columns is not None
            and not index.invisible
            and all(part.prefix is None for part in index.parts)
            and all(_has_one_order(column, schema.engine) for column in columns)
        ):
            return WalkedKey(index.name, columns)
    return None


def counted(column: Column) -> bool:
    """Whether a member's text does not tell which member it is, so that its number is stored.

    An empty member prints like an ENUM's error value (number 0) and like an empty SET. Members that are equal in the
    column's collation, which a lenient session once let pass, all read back as the first of them; whether letters
    beyond ASCII are equal only the server knows.
    """
    if not column.type.has_members:
        return False
    plain = all(member.isascii() and member.isprintable() for member in column.members)
    distinct = {member.casefold().rstrip(" ") for member in column.members}
    return "" in distinct or not plain or len(distinct) < len(column.members)


def value_expression(column: Column) -> str:
    """How a column is selected so that its text is exact."""
    name = Ident(column.name).sql
    if counted(column):
        return f"{name} | 0"  # `+ 0` makes a double of a SET
    return column.type.selected(name)


def bound_literal(column: Column, value: bytes) -> str:
    """A key value as the text that compares with the column exactly."""
    return column.type.bound(column, value)


def make_bound(key: WalkedKey, row: Sequence[bytes | None]) -> Bound:
    """The bound at a row's key values."""
    literals = []
    for column, value in zip(key.columns, row, strict=True):
        if value is None:
            raise ValueError(f"column {column.name} of a key is NULL")
        literals.append(bound_literal(column, value))
    return tuple(literals)


def _compared(names: Sequence[str], bound: Bound, strict: str) -> str:
    """`names` beyond `bound`: strictly in the columns before the last, `strict` (>, <=) says how in the last."""
    direction = strict[0]
    text = f"{names[-1]} {strict} {bound[-1]}"
    for name, literal in zip(reversed(names[:-1]), reversed(bound[:-1]), strict=True):
        text = f"{name} {direction} {literal} OR ({name} = {literal} AND ({text}))"
    return text


def range_condition(key: WalkedKey, lower: Bound | None, upper: Bound | None) -> str:
    """The WHERE text of `lower < key <= upper`; "1" when both ends are open."""
    names = [Ident(column.name).sql for column in key.columns]
    parts = []
    composite = len(names) > 1
    if lower is not None:
        if composite:
            parts.append(f"{names[0]} >= {lower[0]}")
        parts.append(f"({_compared(names, lower, '>')})")
    if upper is not None:
        if composite:
            parts.append(f"{names[0]} <= {upper[0]}")
        parts.append(f"({_compared(names, upper, '<=')})")
    return " AND ".join(parts) or "1"


def step_query(table: TableName, key: WalkedKey, lower: Bound | None, rows: int) -> str:
    """The query for the last key of the next `rows` rows after `lower`; no row when fewer are left."""
    return (
        f"SELECT {key.values} FROM {table.sql} FORCE INDEX ({Ident(key.index).sql})"
        f" WHERE {range_condition(key, lower, None)} ORDER BY {key.order} LIMIT 1 OFFSET {rows - 1}"
    )


def ends_query(table: TableName, key: WalkedKey) -> str:
    """The query for the least and the greatest key of one column."""
    name = Ident(key.columns[0].name).sql
    return f"SELECT MIN({name}), MAX({name}) FROM {table.sql}"


def even_bounds(lowest: int, highest: int, rows: int, estimate: int) -> tuple[Bound, ...] | None:
    """Every so many numbers a bound; None where the numbers have more gaps than rows, by the estimate of these."""
    if highest - lowest >= _SPARSEST * estimate:
        return None
    return tuple((str(number),) for number in range(lowest + rows - 1, highest + 1, rows))


def conditions(key: WalkedKey | None, bounds: Sequence[Bound]) -> list[str]:
    """The WHERE texts of all chunks that the bounds cut, in key order; together they are every row once."""
    if key is None:
        return ["1"]
    edges: list[Bound | None] = [None, *bounds, None]
    return [range_condition(key, lower, upper) for lower, upper in pairwise(edges)]


def rows_per_chunk(rows: int, largest: int, average_row: int) -> int:
    """How many rows a chunk gets: as many as asked for, fewer where wide rows would pass `largest` bytes (0: any)."""
    return max(1, min(rows, largest // average_row if largest and average_row else rows))


# Finding the bounds at a server.


@dataclass(frozen=True, slots=True)
class KeyWalk:
    """A table whose chunk bounds are wanted."""

    table: TableName
    key: WalkedKey
    rows: int  # of a chunk
    estimate: int = 0  # rows of the table


@dataclass(frozen=True, slots=True)
class WalkResult:
    """The bounds of one table; None when it is gone or changed."""

    table: TableName
    bounds: tuple[Bound, ...] | None
    counted: bool = True  # whether just so many rows are between two bounds; else it is no more than that
    words: str = ""  # of the server that refused it as changed


@reads_answers
def find_bounds(connection: Connection, walk: KeyWalk, stopped: Callable[[], bool]) -> WalkResult:
    """Cut a table; when stopped, somewhere."""
    if walk.key.whole_numbers:
        lowest, highest = read_all(connection, ends_query(walk.table, walk.key))[0]
        if lowest is not None and highest is not None:
            bounds = even_bounds(int(lowest), int(highest), walk.rows, walk.estimate)
            if bounds is not None:
                return WalkResult(walk.table, bounds, counted=False)
    bounds = _walked(connection, walk, stopped)
    return WalkResult(walk.table, bounds or (), counted=bounds is not None)


@reads_answers
def _walked(connection: Connection, walk: KeyWalk, stopped: Callable[[], bool]) -> tuple[Bound, ...] | None:
    """Step through the key from bound to bound; None where the server does not get beyond one.

    MySQL takes every value of a FLOAT(M,D) to be beyond a literal that is, for it, outside of the type; where
    10^(M-D) - 10^-D is no FLOAT, what is stored there is (seen on 9.7 with FLOAT(10,2), -100000000). Then no condition
    of the key is to be trusted, and the table is one chunk.
    """
    bounds: dict[Bound, None] = {}
    last: Bound | None = None
    while not stopped():
        found = read_all(connection, step_query(walk.table, walk.key, last, walk.rows))
        if not found:
            break
        last = make_bound(walk.key, found[0])
        if last in bounds:
            return None
        bounds[last] = None
    return tuple(bounds)
