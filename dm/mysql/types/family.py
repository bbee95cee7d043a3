"""What a family of column types has to say: one descriptor per type, asked by all the rest of `dm`.

A type is asked for what it does, never for its name. So a new type is one file of this package: its descriptors, the
words that spell it, and the functions that are its own. Whatever a descriptor leaves out is what holds of a value that
is bytes to everybody: no key may be made of it, it is compared by its digits in hexadecimal, and a column of another
type does not keep it.

- What depends on one column is a function of it: `parameters`, `implicit_default`.
- What is a matter of two columns, the source's and the target's, is a function of the pair, in the file of the source's
  type: `widens`, `faithful`, `keeps`, `fold`, `into`.
- What a row is asked is prepared: `encodes`, `exact` and `fold` give closures, `wire` and `usual` the steps of the
  compiled loops. They are called once per plan; no descriptor is asked per row.

Descriptors are made once, at import, and compared by identity. `dm.mysql.types.registry` finds the files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from dm.mysql.binlog.table_map import WireColumn, WireForm
from dm.mysql.binlog.value import Value
from dm.mysql.dialect import Dialect
from dm.mysql.sql.cursor import Cursor
from dm.mysql.sql.literal import Encoder, Usual, introduced

Fold = Callable[[Value], Hashable]
"""From a value to its part of a key: equal where the target's column takes two values for the same."""
Comparison = Callable[[Value], bytes]
"""The condition that a column has exactly this value, which is not NULL."""
Compared = Literal["number", "float", "time", "moment", "member", "document", "text", "bytes", "other"]
"""In what way two sides' values are compared (`dm.mysql.equality.values`)."""
Operand = Literal[
    "integer", "decimal", "float", "year", "text", "date", "datetime", "timestamp", "time", "other"
]  # fmt: skip
"""As what the expressions of a row filter take a value (`dm.rules.evaluation`)."""
SparkReading = Literal["cast", "bits", "moment", "duration", "text", "decoded", "bytes"]
"""How a value's text in a dump becomes a typed one (`dm.tools.lake`)."""


class TypedColumn(WireColumn, Protocol):
    """What the types must know of a column; dm.mysql.schema.table.Column has it."""

    @property
    def type(self) -> ColumnType:
        """The descriptor of its type."""

    @property
    def collation(self) -> str | None:
        """Collation of character columns, ENUM and SET."""


@dataclass(slots=True)
class DataType:
    """A data type while its column is being read."""

    base: str
    length: int | None = None
    decimals: int | None = None
    unsigned: bool = False
    members: tuple[str | bytes, ...] = ()  # bytes: in the column's character set
    charset: str | None = None
    collation: str | None = None
    binary: bool = False  # the attribute BINARY: the _bin collation
    serial: bool = False
    document: bool = False  # JSON was written


Spelling = Callable[[Cursor, str], DataType]
"""Reads what follows a type's first word, which is given in upper case; attributes are read by others."""


def nothing(column: TypedColumn) -> str:
    """No parameters."""
    return ""


def no_default(column: TypedColumn) -> str | None:
    """No literal says what a server fills such a column with."""
    return None


def same_text(column: TypedColumn, text: str) -> str:
    """A DEFAULT that every server prints as it was written."""
    return text


def never(source: TypedColumn, target: TypedColumn) -> bool:
    """No column of another type will do."""
    return False


def same_name(source: TypedColumn, target: TypedColumn) -> bool:
    """Any column of the same type will do."""
    return source.type is target.type


def no_fold(source: TypedColumn, target: TypedColumn, prefix: int | None) -> Fold | None:
    """Nothing here tells which values are the same to an index."""
    return None


def no_translation(source: TypedColumn, target: TypedColumn) -> Encoder | None:
    """Every column takes the literal as it is."""
    return None


def by_length(column: TypedColumn) -> tuple[int | None, int | None]:
    """The length limits the values, and the digits after the point."""
    return column.length or 1, column.decimals or 0


def unlimited(column: TypedColumn) -> tuple[int | None, int | None]:
    """Nothing but the type limits the values; a length is a display width."""
    return None, None


def in_hexadecimal(name: str, charset: str | None) -> Encoder:
    """The bytes as a number in hexadecimal digits, which is a binary string."""
    return introduced(name, b"0x")


def in_digits(charset: str | None) -> tuple[Usual, bytes]:
    """The compiled step of `in_hexadecimal`."""
    return Usual.DIGITS, b"0x"


def called(charset: str | None) -> tuple[Usual, bytes]:
    """The compiled step that calls the encoder."""
    return Usual.CALL, b""


def by_digits(name: bytes, encode: Encoder, column: TypedColumn, there: Dialect, indexed: bool) -> Comparison:
    """The same digits in hexadecimal, since `=` compares the values as shapes, or not at all."""
    start = b"HEX(" + name + b")=HEX("

    def compare(value: Value) -> bytes:
        return start + encode(value) + b")"

    return compare


def plainly(name: bytes, encode: Encoder, column: TypedColumn, there: Dialect, indexed: bool) -> Comparison:
    """`=` tells all values apart."""
    start = name + b"="

    def compare(value: Value) -> bytes:
        return start + encode(value)

    return compare


def equals(name: bytes, literal: bytes) -> bytes:
    """The condition by which an index finds a value."""
    return name + b"=" + literal


def no_hash(column: TypedColumn) -> tuple[bytes, bytes] | None:
    """Nothing tells the values apart by a text."""
    return None


def itself(value: Value) -> Hashable:
    """The fold of values that are equal only if they are the same."""
    return value


def as_it_is(name: str) -> str:
    """The column's text is exact."""
    return name


def as_computed(column: TypedColumn, value: str, there: Dialect) -> str:
    """A column stores what its expression gives."""
    return value


def no_bound(column: TypedColumn, value: bytes) -> str:
    """No index that cuts a table has such a column."""
    raise ValueError(f"column {column.name}: no range of keys has a {column.type.name}")


def settled(data_type: DataType, width: int) -> None:
    """A written length is the column's."""


def renamed(column: TypedColumn, before: int, after: int) -> str:
    """Another character set leaves the type."""
    return column.type.name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnType:
    """One type, by its name in the normal form (`int`, not INTEGER)."""

    name: str

    # What a value is. Questions in these words are asked where several families are treated alike.
    is_integer: bool = False
    is_float: bool = False
    is_single: bool = False  # FLOAT: of 24 bits, and fewer digits in print
    is_text: bool = False  # characters in the column's character set
    is_bytes: bool = False
    is_temporal: bool = False
    is_timed: bool = False  # a day and a time on it
    is_moment: bool = False  # TIMESTAMP: what it reads as depends on the session's time zone
    is_document: bool = False  # JSON
    is_bits: bool = False  # BIT
    fills_64_bits: bool = False  # BIGINT, BIT
    has_members: bool = False
    several_members: bool = False  # a value may have several: SET
    pads_with_spaces: bool = False  # CHAR
    pads_with_zeros: bool = False  # BINARY
    bytes_inside: int | None = None  # UUID and addresses: so many bytes in a row event, a text in ASCII outside

    # Bytes of row events; `dm.mysql.binlog` asks it.
    wire: WireForm

    # DDL.
    parameters: Callable[[TypedColumn], str] = nothing  # what is written after the name: `(10,2)`
    settled: Callable[[DataType, int], None] = settled  # where the length chooses the type; bytes of a character
    renamed: Callable[[TypedColumn, int, int], str] = renamed  # the type in a character set of so many bytes
    binary: str = ""  # the type that CHARACTER SET binary makes of it
    most_bytes: int | None = None  # of a TEXT or BLOB
    needs_prefix: bool = False  # an index has a prefix of it, never the whole
    whole_prefix: Callable[[TypedColumn, int], bool] = field(default=lambda column, prefix: False)
    """Whether an index of so long a prefix is how the server writes one of the whole column."""

    # DEFAULT: its normal text, and what a server fills a column without one with.
    default_text: Callable[[TypedColumn, str], str] = same_text
    default_is_number: bool = False  # also where it is written in bits or hexadecimal digits
    implicit_default: Callable[[TypedColumn], str | None] = no_default
    display_width: bool = False  # the written length only says how a client shows values
    value_size: Callable[[TypedColumn], tuple[int | None, int | None]] = by_length  # what limits the values

    # Pairs: the source's column, of this type, and the target's.
    widens: Callable[[TypedColumn, TypedColumn], bool] = never
    """Whether each old value is the same value in the new type, by no conversion (`dm.mysql.schema.table`)."""
    faithful: Callable[[TypedColumn, TypedColumn], bool] = same_name
    """Whether accepted values stay equal and unequal as they were, so that they find a row again."""
    keeps: Callable[[TypedColumn, TypedColumn], bool] = same_name
    """Whether a strict target stores each accepted value but NULL unchanged (`dm.changes.column_map`)."""
    fold: Callable[[TypedColumn, TypedColumn, int | None], Fold | None] = no_fold
    """How values become parts of a target key, with the length of a prefix; texts ask their collation."""
    into: Callable[[TypedColumn, TypedColumn], Encoder | None] = no_translation
    """The encoder where the target's column wants another literal than the type's own."""

    # SQL of the target.
    encodes: Callable[[str, str | None], Encoder] = in_hexadecimal  # the type's name, the column's character set
    usual: Callable[[str | None], tuple[Usual, bytes]] = in_digits  # of the compiled encoder, by the character set
    equals: Callable[[bytes, bytes], bytes] = equals
    in_lists: bool = True  # in a list of tuples a literal finds what `=` does
    exact: Callable[[bytes, Encoder, TypedColumn, Dialect, bool], Comparison] = by_digits
    """Name, encoder, column, the target's server, and whether an index has the column."""
    hashed: Callable[[TypedColumn], tuple[bytes, bytes] | None] = no_hash
    """What makes a text of a value, before and after it (`dm.changes.row_hash`)."""
    numbered: bool = False  # a literal is a number, and the column's text another thing: ENUM, SET, BIT
    long: bool = False  # a text, bytes or document of more than 255 bytes
    outside: bool = False  # InnoDB may keep the value outside of its row

    # Comparisons of two servers.
    compared: Compared = "other"
    large: bool = False  # servers limit what CONCAT makes of it
    scale_place: int | None = None  # which of the numbers in the type's parentheses is the scale
    reads_as_number: bool = False  # only a sum has the number's plain text: BIT, YEAR
    shown: Callable[[str], str] = field(default=lambda name: f"CAST({name} AS BINARY)")
    shown_as_text: bool = False  # `shown` is characters
    value_of: Callable[[bytes], Value] = field(default=lambda text: text)  # from the text that is compared
    sorted_alike: bool = False  # all servers have the values in one order

    # Dumps and loads.
    ordered: bool = False  # a range of its index is a range of its values
    selected: Callable[[str], str] = as_it_is  # from the quoted name: SQL whose text is exact
    bound: Callable[[TypedColumn, bytes], str] = no_bound  # a key's value, as it is selected, as a literal
    computed: Callable[[TypedColumn, str, Dialect], str] = as_computed  # what the column makes of an expression
    plain_text: bool = False  # its text in a dump needs no escape
    text_charset: str | None = None  # of its text in a dump; None: the column's own, or bytes

    # Expressions and Spark.
    operand: Operand = "other"
    spark: SparkReading = "bytes"
    spark_type: Callable[[TypedColumn], str] = nothing  # of what is cast; empty: none has so many digits

    @property
    def has_charset(self) -> bool:
        """Whether its columns have a character set."""
        return self.is_text or self.has_members

    @property
    def is_enum(self) -> bool:
        """Whether a value is one member, or the error value 0."""
        return self.has_members and not self.several_members

    @property
    def is_fractional(self) -> bool:
        """Whether a value may have fractions of a second."""
        return self.is_timed or self.compared == "time"

    @property
    def padding(self) -> str:
        """What its columns are filled up with, and what tells no values apart at their end; empty for no such type."""
        return " " if self.pads_with_spaces else "\0" if self.pads_with_zeros else ""

    def without_padding(self, text: str) -> str:
        """The text as far as it tells values apart."""
        return text.rstrip(self.padding) if self.padding else text

    @property
    def limits_bytes(self) -> bool:
        """Whether it is BINARY or VARBINARY, whose length is a number of bytes."""
        return self.is_bytes and self.most_bytes is None

    @property
    def limits_characters(self) -> bool:
        """Whether it is CHAR or VARCHAR, whose length is a number of characters."""
        return self.is_text and self.most_bytes is None

    def encoder(self, charset: str | None) -> Encoder:
        """The encoder of values in this character set; create it once, call it per row."""
        return self.encodes(self.name, charset)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TypeFamily:
    """What a file of this package gives to the registry."""

    types: tuple[ColumnType, ...]
    spellings: Mapping[str, Spelling]  # by the first word, in upper case
    printed: Mapping[str, str] = field(default_factory=dict)  # other names in information_schema


def length_of(cursor: Cursor) -> int | None:
    """A number in parentheses, if it comes next."""
    if not cursor.accept("("):
        return None
    number = cursor.number()
    cursor.expect(")")
    return number


def lengths_of(cursor: Cursor) -> tuple[int | None, int | None]:
    """One or two numbers in parentheses, if they come next."""
    if not cursor.accept("("):
        return None, None
    first = cursor.number()
    second = cursor.number() if cursor.accept(",") else None
    cursor.expect(")")
    return first, second


def with_length(cursor: Cursor, word: str) -> DataType:
    """A type of the word's own name, whose length may follow."""
    return DataType(word.lower(), length_of(cursor))


def bare(cursor: Cursor, word: str) -> DataType:
    """A type of the word's own name, without parameters."""
    return DataType(word.lower())


def written_length(column: TypedColumn) -> str:
    """The length, where there is one."""
    return "" if column.length is None else f"({column.length})"
