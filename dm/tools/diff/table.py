"""One table of the target, the tables of the sources that are merged into it, and what is compared of their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dm.ident import Ident, TableName
from dm.mysql.dialect import Flavor
from dm.mysql.equality.checksum import (
    BUCKET_DIGITS,
    bucket_of,
    buckets_query,
    checksum_query,
    sequence_queries,
)
from dm.mysql.equality.structure import Structure
from dm.mysql.equality.values import ComparedValue, Side, parts, row_text, text_of
from dm.mysql.schema.table import TableSchema
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, fetch

TARGET = -1  # the place of the target among the servers; those of the sources begin with 0


def role_at(place: int) -> str:
    """How messages call the server at a place."""
    return "target" if place == TARGET else "upstream"


@dataclass(frozen=True, slots=True)
class TableAt:
    """One of the tables, at one of the servers."""

    place: int
    name: TableName
    row: tuple[ComparedValue, ...]
    key: tuple[int, ...]  # indexes into the row; all of it for a table without a key
    shape: str = ""  # of the columns when this was planned; "" where nobody asks
    only: str = ""  # a condition for those of its rows that are compared; empty for all

    @property
    def text(self) -> str | None:
        """SQL of a row's text; None where only a client can compute it."""
        return row_text(self.row)

    def key_text(self, values: Sequence[bytes | None]) -> bytes:
        """The text of the key of a row that was read."""
        return text_of([self.row[at] for at in self.key], [values[at] for at in self.key])

    def _bucket(self, digits: int) -> str | None:
        """SQL of a number that all versions of a row share; None where only a client can compute it."""
        key = row_text([self.row[at] for at in self.key])
        return None if key is None else bucket_of(key, digits)

    def rows(self, condition: str, where: str) -> str:
        """What stands after FROM."""
        conditions = [f"({each})" for each in (self.only, condition, where) if each not in ("", "1")]
        return self.name.sql + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    def checksum_query(self, condition: str, where: str) -> str:
        """The query for the checksum of some rows."""
        assert self.text is not None
        return checksum_query(self.text, self.rows(condition, where))

    def sequence_queries(self, condition: str, where: str) -> tuple[str, str, str]:
        """The statements for the checksum of some rows in the order of the key."""
        return sequence_queries(self.row, self.rows(condition, where))

    def buckets_query(self, condition: str, where: str) -> str:
        """The query for the checksums of the buckets of some rows."""
        bucket = self._bucket(BUCKET_DIGITS)
        assert self.text is not None
        assert bucket is not None
        return buckets_query(bucket, self.text, self.rows(condition, where))

    def rows_query(self, condition: str, where: str, some: Slice | None) -> str:
        """The query for some rows: with a slice those of it, and all others that the server can't tell apart."""
        reads = ", ".join(part.read for part in self.row) or "1"
        bucket = None if some is None else self._bucket(some.digits)
        if some is not None and bucket is not None:
            # A key that is too long for the server has no number there.
            numbers = ", ".join(map(str, some.numbers))
            condition = f"({condition}) AND IFNULL({bucket}, {some.numbers[0]}) IN ({numbers})"
        return f"SELECT {reads} FROM {self.rows(condition, where)}"


@dataclass(frozen=True, slots=True)
class DiffSource:
    """A source's table before it is compared."""

    place: int
    name: TableName
    structure: Structure
    flavor: Flavor
    constants: Mapping[str, str]  # SQL of the columns that only the target has, by name
    shape: str = ""
    only: str = ""  # a condition for the rows that go to this table of the target


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """What a chunk of the comparison needs to know."""

    target: TableAt
    origins: tuple[TableAt, ...]
    keyed: bool
    generated: frozenset[str]  # columns that the target computes
    flavor: Flavor  # of the target
    row_bytes: int = 0  # that a row has on average, as the target says
    ordered: bool = False  # both sides are read in the order of one key, most likely
    whole: bool = True  # every column of the target that takes a value is compared
    unread: bool = False  # a source has values for one that is not
    filtered: bool = False  # only rows are compared for which a person's condition is true
    unique: bool = False  # the target has unique keys besides the primary one
    stamped: tuple[str, ...] = ()  # columns of the target that an UPDATE sets by itself
    zoned: bool = False  # the target computes values of it in the zone of the session, and the sources are not at UTC
    kept: str = ""  # why rows that no source has may be meant to stay (`dm.tools.diff.kept_rows`)

    @property
    def sides(self) -> Iterator[TableAt]:
        """The target first: what is read of it is not newer than what is read of a source."""
        yield self.target
        yield from self.origins

    @property
    def replaces(self) -> bool:
        """Whether rows are written by REPLACE: nothing is lost by it, and all that it removes is compared."""
        return self.keyed and self.unique and self.whole and not self.filtered and not self.kept

    @property
    def computed_by_servers(self) -> bool:
        """Whether the servers can compute the checksums."""
        return all(side.text is not None for side in self.sides)


def compared_table(
    target: TableName,
    structure: Structure,
    flavor: Flavor,
    origins: Sequence[DiffSource],
    ignored: frozenset[str],
    *,
    json_types: bool,
    shape: str = "",
) -> ComparedTable:
    """What is compared: the columns that all sides have, but for the ignored ones."""
    rows: list[list[ComparedValue]] = [[] for _ in range(len(origins) + 1)]
    labels: list[str] = []
    for column in structure.columns:
        name = column.name.lower()
        if name in ignored:
            continue
        sides = [Side(column, target, flavor)]
        for origin in origins:
            theirs = next((each for each in origin.structure.columns if each.name.lower() == name), None)
            constant = origin.constants.get(name, "")
            if theirs is not None and not constant:
                sides.append(Side(theirs, origin.name, origin.flavor))
            elif constant:
                text = replace(column, type="varchar(255)", charset="utf8mb4", generated="")
                sides.append(Side(text, origin.name, origin.flavor, constant))
        if len(sides) <= len(origins):
            continue  # the structures differ, which is told
        made = parts(sides, json_types=json_types)
        labels += [column.name.lower()] * len(made[0])
        for row, some in zip(rows, made, strict=True):
            row += some
    key_names = {name.lower() for name in structure.primary_key}
    keyed = bool(key_names) and key_names <= set(labels)
    key = tuple(at for at, label in enumerate(labels) if not keyed or label in key_names)
    tables = [TableAt(TARGET, target, tuple(rows[0]), key, shape)]
    for each, row in zip(origins, rows[1:], strict=True):
        tables.append(TableAt(each.place, each.name, tuple(row), key, each.shape, each.only))
    generated = frozenset(column.name for column in structure.columns if column.generated)
    names = {name.lower() for name in labels}
    left_out = {column.name.lower() for column in structure.columns if not column.generated} - names
    held = {column.name.lower() for origin in origins for column in origin.structure.columns}
    held.update(name for origin in origins for name in origin.constants)
    return ComparedTable(
        tables[0], tuple(tables[1:]), keyed, generated, flavor,
        whole=not left_out,
        unread=bool(left_out & held),
        unique=any(each.startswith("UNIQUE ") and not each.startswith("UNIQUE PRIMARY ") for each in structure.indexes),
        stamped=tuple(column.name for column in structure.columns if "on update" in column.extra),
    )  # fmt: skip


def sorted_alike(schemas: Sequence[TableSchema], names: Sequence[str], *, one_flavor: bool) -> bool:
    """Whether a range of the key means the same rows on all sides.

    Numbers, dates and bytes have one order. Texts have it where all sides have the same collation, which servers of two
    flavours have not even if they call it the same.
    """
    for name in names:
        columns = [schema.column(name) for schema in schemas]
        if any(column is None for column in columns):
            return False
        types = {column.type for column in columns if column is not None}
        alike = all(each.sorted_alike for each in types)
        if alike and (len(types) == 1 or all(each.is_integer for each in types)):
            continue
        collations = {(column.charset, column.collation) for column in columns if column is not None}
        if not (one_flavor and all(each.is_text for each in types) and len(collations) == 1):
            return False
    return True


def quoted_columns(names: Sequence[str]) -> str:
    """A list of columns."""
    return ", ".join(Ident(name).sql for name in names)


_COLUMNS = (
    "SELECT column_name, column_type, is_nullable, character_set_name, collation_name FROM information_schema.columns"
    " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)


@reads_answers
def shape_of(connection: Connection, table: TableName) -> str:
    """What tells the columns from others; raises DMError.

    A comparison under way reads values by the structure that it has found. After an ALTER the same query may give
    something else: digits where there were none, members of another list.
    """
    known = hashlib.sha256()
    for row in fetch(connection, _COLUMNS, table):
        for value in row:
            known.update(value if isinstance(value, bytes) else str(value).encode())
            known.update(b"\0")
    return known.hexdigest()


_MOST_NUMBERS: Final = 512  # that are named in a condition
_MOST_DIGITS: Final = 12  # what CONV takes exactly, and far more than there are rows


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows with these numbers of so many hexadecimal digits.

    A bucket is a number that all versions of a row share: the first digits of the hash of its key. Numbers of more
    digits cut a bucket into sixteen. In the end a slice is the rows of one key, and of equal rows without a key one is
    kept.
    """

    numbers: tuple[int, ...]
    digits: int = BUCKET_DIGITS

    @property
    def halves(self) -> tuple[Slice, ...]:
        """Two parts of it; none where it can't be cut any more."""
        numbers, digits = self.numbers, self.digits
        if len(numbers) == 1:
            if digits == _MOST_DIGITS:
                return ()
            numbers, digits = tuple(numbers[0] * 16 + digit for digit in range(16)), digits + 1
        half = len(numbers) // 2
        return Slice(numbers[:half], digits), Slice(numbers[half:], digits)


def cut(rows: Mapping[int, int], most: int) -> Iterator[Slice]:
    """Slices of buckets with so many rows each; one that has more than `most` alone is left to `halves`."""
    numbers: list[int] = []
    total = 0
    for number in sorted(rows):
        if numbers and (total + rows[number] > most or len(numbers) == _MOST_NUMBERS):
            yield Slice(tuple(numbers))
            numbers, total = [], 0
        numbers.append(number)
        total += rows[number]
    if numbers:
        yield Slice(tuple(numbers))
