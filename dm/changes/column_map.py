"""Maps each column of the source row to a column of the target: how its value is written, and whether it is kept.

Columns are matched by name, ignoring case as the servers do. The target may have more columns (they keep their
defaults) and may compute some (generated columns are never written). A source column without a target column stops the
task, because dropping data silently is not an option.

A MariaDB has no gb18030: such texts go there in UTF-8.

A TiDB has no introducers of other character sets than Unicode's, and keeps latin1 in UTF-8: texts go there in UTF-8. It
takes the number in `UPDATE .. SET tags = 3` for a member called '3', and compares no SET with a number of more than 53
bits: such a SET goes by the names of its members.

Columns that a route adds: parts of the source's names, the same for every row of one source table.

After the decoder such a column is like one of the source's. It is at the end of each row image, takes part in keys,
folds, conditions and statements, and so belongs to a key if the target's table says so. Two source tables whose rows
are otherwise equal then neither collide nor wait for each other.

The value is sent as text, which the target converts to the column's character set. The session is strict: it fails
rather than store another text. BINARY(n) pads and ENUM and SET have members, so these are refused.

**Narrowing**: does a target column hold each value of the source's, or may it silently store another value? A strict
server refuses what is out of range, too long or not of the type. But without an error it rounds fractions, pads bytes,
and cuts white space (line ends and tabs, too) at the end of a text that is too long. It also reads text and numbers its
own way in another kind of type: 2 in an ENUM is its second member, 5 in a YEAR is 2005. It refuses NULL in a column
without NULL, except in two kinds of columns, which store the next number or the present time. So a column may change
values unless it is listed here. This is another question than `faithful` asks of keys, where equal values must stay
equal. The servers' behaviour was measured, each type into each (tests/live/changes/test_narrowing.py), and all of
Unicode into each character set.

Some pairs that would change few values or none are left out on purpose:

- TIMESTAMP and DATETIME: the one is a moment, the other a clock reading in an unknown time zone.
- FLOAT, DOUBLE, BIT, YEAR and INET6 as text, and DECIMAL fractions as DOUBLE: the same value, but written differently.
- Integers of more than six digits as FLOAT, which has room for some, but a server prints no more digits of it.
- Bytes as text (and labels that are bytes), shapes as either, text as numbers or dates: the result is another text.
- Text as MySQL's JSON, also of a MariaDB column with the check `json_valid`. What comes out is another text, and need
  not be equal as a document either: a number of many digits becomes a DOUBLE without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.binlog.charset import decoder_of
from dm.mysql.binlog.decode import RowPair
from dm.mysql.binlog.value import Row, Value
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.schema.show import described
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.json_literal import document_encoder
from dm.mysql.sql.literal import Encoder, Usual, quoted
from dm.mysql.types.members import EXACT_BITS, after, label_of, renumbering
from dm.rules.router import ExtractedColumn
from dm.text import is_decimal


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """One column of the source row and its place at the target."""

    at: int  # index in the row
    source: Column
    target: Column
    sql: bytes  # the quoted name at the target
    encode: Encoder
    usual: tuple[Usual, bytes]  # for the compiled encoder
    moment: bool = False  # a TIMESTAMP that is written for sessions of any zone
    # What rows ask of the target's type.
    equals: Callable[[bytes, bytes], bytes] = field(init=False, repr=False, compare=False)
    document: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "equals", self.target.type.equals)
        object.__setattr__(self, "document", self.target.type.is_document)

    @property
    def written(self) -> bool:
        """Whether the target takes a value for the column instead of computing it."""
        return self.target.generated is None


# Columns that MySQL adds for the parts of a functional index: they exist with the index and need no copy.
_HIDDEN = "!hidden!"
_CALLED = (Usual.CALL, b"")
_UNICODE = frozenset({"utf8", "utf8mb3", "utf8mb4", "binary"})  # and bytes


def map_columns(
    source: TableName,
    wire: Sequence[Column],
    target: TableSchema,
    *,
    json_types: bool,
    flavor: Flavor = "mysql",
    moment: Callable[[Encoder, Column], Encoder] | None = None,
) -> tuple[MappedColumn, ...]:
    """Maps a row of the binlog to the columns of a target; with `json_types` it keeps the types inside documents.

    `flavor` is the target's. `moment` makes of an encoder, and the source's column, that of a TIMESTAMP at
    the target.
    """
    places = {column.name.lower(): column for column in target.columns}
    server = dialect(flavor)
    mapped: list[MappedColumn] = []
    missing: list[str] = []
    for at, column in enumerate(wire):
        place = places.get(column.name.lower())
        if place is not None:
            name = Ident(place.name).sql.encode()
            there = (
                _in_its_words(column, place)
                if server.stores_texts_in_utf8
                else None
                if server.has_gb18030
                else _as_text(column)
            )
            zoned = moment is not None and place.type.is_moment
            if moment is not None and zoned:
                there = moment(column.encoder(), column)
            encoder = _encoder(column, place, json_types=json_types) if there is None else (there, _CALLED)
            mapped.append(MappedColumn(at, column, place, name, *encoder, zoned))
        elif not (column.generated and column.name.startswith(_HIDDEN)):
            missing.append(column.name)
    if missing:
        raise DMError(
            "column-missing",
            source=source,
            target=target.name,
            columns=", ".join(missing),
            first=Ident(missing[0]).sql,
            target_sql=target.name.sql,
        )
    return tuple(mapped)


def _encoder(source: Column, target: Column, *, json_types: bool) -> tuple[Encoder, tuple[Usual, bytes]]:
    of = source.type
    if json_types and of.is_document and target.type.is_document:
        return document_encoder(target.name), of.usual(source.charset)
    into = of.into(source, target)
    return (source.encoder(), of.usual(source.charset)) if into is None else (into, _CALLED)


def _as_text(source: Column) -> Encoder | None:
    """The encoder of a text whose character set a MariaDB has not; None for any other value."""
    return _in_utf8(source) if source.charset == "gb18030" else None


def _in_its_words(source: Column, target: Column) -> Encoder | None:
    """The encoder of a value that a TiDB wants in other words; None where that of every target is right."""
    if target.type.is_text:
        return _in_utf8(source)
    wide = len(target.members) > EXACT_BITS
    if (
        source.type is target.type
        and target.type.several_members
        and (wide or any(is_decimal(label) for label in target.members))
    ):
        return after(renumbering(source, target), _named(target, wide=wide))
    return None


def _named(target: Column, *, wide: bool) -> Encoder:
    """The encoder of a SET by the names of its members."""
    named, numbered = label_of(target), target.encoder()

    def encode(value: Value) -> bytes:
        if not isinstance(value, int):
            return numbered(value)
        names = named(value)
        if isinstance(names, bytes) and (names or (value == 0 and "" not in target.members)):
            return quoted(names)
        # No text tells the empty member from no member.
        if wide or str(value) in target.members:
            raise DMError("member-missing", column=target.name, label="")
        return numbered(value)

    return encode


def _in_utf8(source: Column) -> Encoder | None:
    """The encoder of a text of another character set; None where that of every target is right."""
    charset = source.charset
    decode = None if charset is None or charset in _UNICODE or not source.type.is_text else decoder_of(charset)
    if decode is None:
        return None

    def decoded(value: Value) -> Value:
        text = decode(value) if isinstance(value, bytes) else None
        return value if text is None else text.encode()  # bytes that are no text: the target judges them

    return after(decoded, source.type.encoder("utf8mb4"))


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """A column as if the source had it, with its value for every row."""

    column: Column
    value: bytes


def constant_columns(
    source: TableName, columns: Iterable[str], target: TableSchema, extracted: Sequence[ExtractedColumn]
) -> tuple[ConstantColumn, ...]:
    """The extracted columns for the target's table; raises DMError `extract-column-unfit`. `columns`: the source's."""
    names = {name.lower() for name in columns}
    return tuple(_constant(source, names, target, each) for each in extracted)


def _constant(source: TableName, names: set[str], target: TableSchema, extracted: ExtractedColumn) -> ConstantColumn:
    place = target.column(extracted.column)
    why = "the source has a column of that name" if extracted.column.lower() in names else _unfit(place, extracted)
    if why is not None or place is None:
        raise DMError("extract-column-unfit", table=source, column=extracted.column, target=target.name, why=why)
    text = place.type.without_padding(extracted.value)
    if place.type.is_text:
        length = max(len(text), 1)
        column = Column(place.name, "varchar", length, charset="utf8mb4", collation="utf8mb4_bin")
    else:
        column = Column(place.name, "varbinary", max(len(text.encode()), 1))
    return ConstantColumn(column, text.encode())


def _unfit(place: Column | None, extracted: ExtractedColumn) -> str | None:
    if place is None:
        return "there is no such column"
    if place.generated is not None:
        return "the target computes it"
    of = place.type
    if not of.is_text and (not of.is_bytes or of.pads_with_zeros):
        return f"it is of type {place.base.upper()}"
    length = len(extracted.value) if of.is_text else len(extracted.value.encode())
    limit = 1 if place.length is None else place.length
    if of.most_bytes is None and length > limit:
        return f"`{extracted.value}` is longer than {limit}"
    return None


def with_constants(pairs: Sequence[RowPair], constants: Row) -> list[RowPair]:
    """Row changes as if the source had the columns."""
    return [
        (None if before is None else (*before, *constants), None if after is None else (*after, *constants))
        for before, after in pairs
    ]


def keeps_values(source: Column, target: Column) -> bool:
    """Whether a strict target stores every value but NULL that it accepts from the source unchanged."""
    return source.type.keeps(source, target)


def refuse_narrower(
    source: TableName, target: TableName, columns: Iterable[tuple[Column, Column]], *, null_is_now: bool
) -> None:
    """Raise DMError `columns-narrower` if one of these target columns may change values of the source's.

    `null_is_now`: NULL in a TIMESTAMP without NULL is the present moment there.
    """
    found = [
        (to.name, f"{described(of)} into {described(to)}{null}")
        for of, to in columns
        if to.generated is None and ((null := _of_null(of, to, null_is_now)) or not keeps_values(of, to))
    ]
    if found:
        raise DMError(
            "columns-narrower",
            source=source,
            target=target,
            columns=", ".join(f"{name} ({types})" for name, types in found),
            target_sql=target.sql,
            first=Ident(found[0][0]).sql,
        )


def _of_null(source: Column, target: Column, null_is_now: bool) -> str:
    """What the target makes of the source's NULL without an error, for a person; empty if it refuses."""
    if source.nullable and target.auto_increment:
        return " AUTO_INCREMENT: NULL becomes the next number"
    if source.nullable and not target.nullable and target.type.is_moment and null_is_now:
        return " NOT NULL: NULL becomes the present moment"
    return ""
