"""Random tables: every column type, and keys of every kind that decides how dm treats a table.

A table knows for each column the SQL of values worth writing, from lists of edge cases, few of them for columns of
keys, so that rows meet. What a server refuses of this (a row too long, a default it does not take) is drawn again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dm.ident import Ident
from dm.mysql.dialect import Flavor
from tests.live.binlog.types import MARIADB_TYPES, MYSQL_TYPES, TYPES

_LONG = re.compile(r"\d{4,}\)")  # REPEAT('x', 17000000) has tests of its own
_LONG_TYPE = re.compile(r"TEXT|BLOB|JSON|GEOMETRY|POINT|POLYGON")
_PLAIN = re.compile(r"'[ -~]*'|-?\d+(\.\d+)?")
_WIDE_UNITS = re.compile(r"CHARACTER SET (?:ucs2|utf16|utf16le|utf32)\b")
_NAMES = ("c{}", "c{}", "c{}", "Ä {}", "a`{}", "per%s{}", "group {}", "q'\"{}")

_WORDS = ("''", "'a'", "'A'", "'b'", "'B '", "'ß'", "'ss'", "'ä'", "'Ä'", "'a '", "'ab'", "'aB'", "'z%'", "'\\\\'")
_LONG_WORDS = ("'abcdef1'", "'abcdef2'", "'ABCDEF1'", "'abc'", "'äöüx'", "'äöüy'", "''", "'x'", "'abcde'")
_BYTES = ("x''", "x'00'", "x'0000'", "x'61'", "x'41'", "x'6100'", "x'ff'", "x'5c27'", "x'20'", "x'c3a4'")
_NUMBERS = tuple(str(number) for number in range(24))
_MANY = ", ".join(f"'m{number}'" for number in range(64))
KEY_TYPES: dict[str, Sequence[str]] = {
    "INT": (*_NUMBERS, "-1", "2147483647"),
    "BIGINT UNSIGNED": (*_NUMBERS[:10], "18446744073709551615", "9223372036854775808"),
    "TINYINT": ("-128", "127", "0", *_NUMBERS[:12]),
    "DECIMAL(10,3)": ("0", "-0.001", "1.5", "-1.5", "9999999.999", "0.1", "2", "3", "4"),
    "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci": _WORDS,
    "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci": _WORDS,
    "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin": _WORDS,
    "VARCHAR(20) CHARACTER SET latin1": _WORDS,
    "CHAR(8) CHARACTER SET gbk": (*_WORDS, "'中'", "'文'"),
    "CHAR(12)": _WORDS,
    "VARBINARY(6)": _BYTES,
    "BINARY(3)": _BYTES,
    "DATE": ("'0000-00-00'", "'2024-01-01'", "'2024-02-31'", "'9999-12-31'"),
    "DATETIME(3)": ("'0000-00-00'", "'2024-01-01 00:00:00.001'", "'2024-01-01'", "'9999-12-31 23:59:59.999'"),
    "TIMESTAMP(6) NULL": ("'2024-01-01 00:00:00.000001'", "'2030-01-01'", "'1970-01-02 00:00:01'", "'2000-02-29'"),
    "TIME(2)": ("'-00:00:00.25'", "'00:00:00'", "'838:59:59'", "'-838:59:59'", "'-01:00:00'", "'12:00:00.5'"),
    "YEAR": ("0", "1901", "2155", "2000"),
    "ENUM('x','y','z','ä')": ("'x'", "'y'", "'z'", "''", "'ä'"),
    "SET('a','b','','c')": ("''", "'a'", "'a,c'", "'b'", "4", "5"),
    f"SET({_MANY})": ("''", "'m0'", "'m0,m60'", "'m60'", "'m63'", "'m0,m63'", "'m5,m59'"),
    "BIT(9)": ("0", "1", "256", "511", "7"),
    "BIT(64)": ("0", "1", "9223372036854775808", "18446744073709551615", "9007199254740993", "9007199254740992"),
    "DOUBLE": ("0", "0.1", "-0.1", "1e300", "0.3333333333333333", "5e-324"),
    "FLOAT": ("0", "0.1", "1.1", "16777217", "-3.4e38"),
}
PREFIX_TYPES: dict[str, Sequence[str]] = {
    "VARCHAR(60)": _LONG_WORDS,
    "TEXT CHARACTER SET utf8mb4": _LONG_WORDS,
    "BLOB": (*_BYTES, "'abcdef1'", "'abcdef2'"),
    "VARBINARY(40)": (*_BYTES, "'abcdef1'", "'abcdef2'"),
}


def _wide(flavor: Flavor) -> dict[str, tuple[str, ...]]:
    types = {**TYPES, **(MYSQL_TYPES if flavor == "mysql" else MARIADB_TYPES)}
    found = {name: tuple(value for value in values if not _LONG.search(value)) for name, values in types.items()}
    return {name: values for name, values in found.items() if values}


WIDE_TYPES = {"mysql": _wide("mysql"), "mariadb": _wide("mariadb")}
_OPTIONS = ("", "", "DEFAULT CHARSET=latin1", "ROW_FORMAT=COMPACT")


@dataclass(frozen=True)
class Dialect:
    """What is drawn; the defaults are all that a source has. `shared_dialect.py` has what two servers share."""

    types: Mapping[str, Sequence[str]]
    key_types: Mapping[str, Sequence[str]] = field(default_factory=lambda: KEY_TYPES)
    prefix_types: Mapping[str, Sequence[str]] = field(default_factory=lambda: PREFIX_TYPES)
    options: tuple[str, ...] = _OPTIONS  # of tables
    table_names: tuple[str, ...] = ()  # each with a place for a number; without any, the usual ones
    converts: bool = True  # a MODIFY may change the type
    only_numbers: bool = False  # generated columns are computed from numbers only
    defaults_of_long_types: bool = True
    alters_keys: bool = True  # a primary key may go, and a column of an index of several
    whole_long_keys: bool = True  # a KEY may name a long column without a length, which a MariaDB adds


NATIVE = {"mysql": Dialect(WIDE_TYPES["mysql"]), "mariadb": Dialect(WIDE_TYPES["mariadb"])}
# Names that are words, or end where a name begins, and tables of which one in two has partitions, where it can.
HOSTILE = {
    flavor: replace(
        dialect,
        table_names=("select {}", "`x{}", "a b{}", "ü{}", "q'{}\"", "per%s{}", "{}", "--{}"),
        options=("", "DEFAULT CHARSET=latin1", "PARTITION BY KEY () PARTITIONS 3", "PARTITION BY KEY () PARTITIONS 5"),
    )
    for flavor, dialect in NATIVE.items()
}


@dataclass(frozen=True)
class Column:
    """One column; `values` are what is written to it, as SQL, none for a generated one."""

    name: str
    type: str
    values: tuple[str, ...]
    nullable: bool = True
    default: str = ""
    generated: str = ""  # (expression) STORED
    extra: str = ""

    @property
    def sql(self) -> str:
        """Its definition."""
        if self.generated:
            return f"{Ident(self.name).sql} {self.type} GENERATED ALWAYS AS {self.generated}"
        null = "NULL" if self.nullable else "NOT NULL"
        kind = self.type.removesuffix(" NULL")
        default = f" DEFAULT {self.default}" if self.default else ""
        return f"{Ident(self.name).sql} {kind} {null}{default}{self.extra}"

    @property
    def without_text(self) -> bool:
        """Whether only functions give its values: geometries and vectors."""
        return bool(self.values) and self.values[0].startswith(("POINT", "ST_", "TO_V"))

    def draw(self, chance: random.Random) -> str:
        """A value to write."""
        if self.nullable and chance.random() < 0.15:
            return "NULL"
        if chance.random() < 0.03:
            return "DEFAULT"
        return chance.choice(self.values)


@dataclass(frozen=True)
class Index:
    """One index; parts are (column, length of the prefix or 0)."""

    name: str
    kind: str  # PRIMARY KEY, UNIQUE KEY, KEY
    parts: tuple[tuple[str, int], ...]

    @property
    def sql(self) -> str:
        """Its definition."""
        parts = ", ".join(Ident(name).sql + (f"({length})" if length else "") for name, length in self.parts)
        name = "" if self.kind == "PRIMARY KEY" else f" {Ident(self.name).sql}"
        return f"{self.kind}{name} ({parts})"


@dataclass
class Table:
    """A table as the generator knows it."""

    name: str
    columns: list[Column]
    indexes: list[Index] = field(default_factory=list)
    options: str = ""
    serial: int = 0  # for names that were never used

    @property
    def writable(self) -> list[Column]:
        """The columns that a statement may set."""
        return [column for column in self.columns if not column.generated]

    @property
    def bases(self) -> list[Column]:
        """The columns that others are computed from."""
        expressions = " ".join(column.generated for column in self.columns)
        return [column for column in self.columns if Ident(column.name).sql in expressions]

    @property
    def key_columns(self) -> list[Column]:
        """Those of unique keys."""
        names = {name for index in self.indexes if index.kind != "KEY" for name, _ in index.parts}
        return [column for column in self.writable if column.name in names]

    def copy(self) -> Table:
        """One that can be changed without changing this one."""
        return replace(self, columns=list(self.columns), indexes=list(self.indexes))

    def next_name(self, chance: random.Random) -> str:
        """A name for a column or an index."""
        self.serial += 1
        return chance.choice(_NAMES).format(self.serial)

    def create(self, schema: str) -> str:
        """CREATE TABLE."""
        body = ", ".join([column.sql for column in self.columns] + [index.sql for index in self.indexes])
        return f"CREATE TABLE {Ident(schema).sql}.{Ident(self.name).sql} ({body}) {self.options}".rstrip()


def draw_column(table: Table, flavor: Flavor, chance: random.Random, dialect: Dialect | None = None) -> Column:
    """A column of any type."""
    dialect = dialect or NATIVE[flavor]
    kind = chance.choice(list(dialect.types))
    column = _with_attributes(Column(table.next_name(chance), kind, tuple(dialect.types[kind])), chance)
    if column.default and not dialect.defaults_of_long_types and _LONG_TYPE.search(kind):
        column = replace(column, default="")
    if flavor == "mariadb" and kind == "JSON":
        # Rows that are there before ADD COLUMN .. NOT NULL get an empty text, which the column's own CHECK refuses.
        return replace(column, nullable=True)
    return column


def draw_key_column(table: Table, chance: random.Random, dialect: Dialect, *, nullable: bool) -> Column:
    """A column with few values."""
    kind = chance.choice(list(dialect.key_types))
    return Column(table.next_name(chance), kind, tuple(dialect.key_types[kind]), nullable=nullable)


def draw_generated(table: Table, chance: random.Random, dialect: Dialect) -> Column | None:
    """A column computed from another one, if there is one to compute from."""
    # MySQL and TiDB compute nothing from an AUTO_INCREMENT.
    columns = [one for one in table.columns if not (dialect.only_numbers and "AUTO_INCREMENT" in one.extra)]
    found = [pair for pair in _expressions(columns) if pair[0] == "BIGINT" or not dialect.only_numbers]
    if not found:
        return None
    kind, expression = chance.choice(found)
    return Column(table.next_name(chance), kind, (), generated=f"({expression}) {chance.choice(('STORED', 'VIRTUAL'))}")


def draw_table(name: str, flavor: Flavor, chance: random.Random, dialect: Dialect | None = None) -> Table:
    """A table with one of all kinds of keys, or none."""
    dialect = dialect or NATIVE[flavor]
    table = Table(name, [], options=chance.choice(dialect.options))
    kind = chance.choice(
        ("single", "single", "auto", "composite", "composite", "prefix", "unique", "nullable", "keyless", "keyless")
    )
    match kind:
        case "single":
            _add_key(table, [draw_key_column(table, chance, dialect, nullable=False)], "PRIMARY KEY", chance)
        case "auto":
            column = Column("id", "INT", KEY_TYPES["INT"][1:20], nullable=False, extra=" AUTO_INCREMENT")  # type: ignore[arg-type]
            _add_key(table, [column], "PRIMARY KEY", chance)
        case "composite":
            columns = [draw_key_column(table, chance, dialect, nullable=False) for _ in range(chance.choice((2, 2, 3)))]
            _add_key(table, columns, chance.choice(("PRIMARY KEY", "UNIQUE KEY")), chance)
        case "prefix":
            _add_prefix_key(table, chance.choice(("PRIMARY KEY", "UNIQUE KEY")), chance, dialect, nullable=False)
        case "unique":
            _add_key(table, [draw_key_column(table, chance, dialect, nullable=False)], "UNIQUE KEY", chance)
        case "nullable":
            columns = [draw_key_column(table, chance, dialect, nullable=True) for _ in range(chance.choice((1, 1, 2)))]
            _add_key(table, columns, "UNIQUE KEY", chance)
        case _:
            table.columns.append(draw_key_column(table, chance, dialect, nullable=True))
    if kind != "keyless" and chance.random() < 0.6:
        if chance.random() < 0.3:
            _add_prefix_key(table, "UNIQUE KEY", chance, dialect, nullable=True)
        else:
            _add_key(
                table, [draw_key_column(table, chance, dialect, nullable=chance.random() < 0.6)], "UNIQUE KEY", chance
            )
    for _ in range(chance.choice((1, 2, 4, 7))):
        table.columns.append(draw_column(table, flavor, chance, dialect))
    if chance.random() < 0.3 and (generated := draw_generated(table, chance, dialect)) is not None:
        table.columns.append(generated)
        if kind != "keyless" and chance.random() < 0.5:
            table.indexes.append(Index(table.next_name(chance), "UNIQUE KEY", ((generated.name, 0),)))
    if chance.random() < 0.4:
        column = table.columns[0]
        length = 0 if dialect.whole_long_keys or not _LONG_TYPE.search(column.type) else 6
        table.indexes.append(Index(table.next_name(chance), "KEY", ((column.name, length),)))
    if chance.random() < 0.5:
        chance.shuffle(table.columns)
    return table


def _add_key(table: Table, columns: Sequence[Column], kind: str, chance: random.Random) -> None:
    table.columns += columns
    table.indexes.append(Index(table.next_name(chance), kind, tuple((column.name, 0) for column in columns)))


def _add_prefix_key(table: Table, kind: str, chance: random.Random, dialect: Dialect, *, nullable: bool) -> None:
    type_name = chance.choice(list(dialect.prefix_types))
    column = Column(table.next_name(chance), type_name, tuple(dialect.prefix_types[type_name]), nullable=nullable)
    table.columns.append(column)
    table.indexes.append(Index(table.next_name(chance), kind, ((column.name, chance.choice((1, 3, 6))),)))


def _with_attributes(column: Column, chance: random.Random) -> Column:
    plain = [value for value in column.values if _PLAIN.fullmatch(value)]
    # What a geometry or a vector has by default, where NULL is not allowed, no statement can write.
    nullable = chance.random() < 0.6 or column.without_text
    default = chance.choice(plain) if plain and chance.random() < 0.4 else ""
    return replace(column, nullable=nullable, default=default)


def _expressions(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    for column in columns:
        name = Ident(column.name).sql
        kind = column.type.split("(")[0].split(" ")[0]
        if column.generated:
            continue
        if kind in ("INT", "TINYINT", "SMALLINT"):
            yield "BIGINT", f"{name} * 2 + 1"
        elif kind in ("VARCHAR", "CHAR"):
            # Once a table was altered, MySQL keeps literals beside such a column as `_utf16'\\0<'`, and sessions with
            # NO_BACKSLASH_ESCAPES compute something else from them (seen with 9.7.4).
            if not _WIDE_UNITS.search(column.type):
                yield "VARCHAR(300) CHARACTER SET utf8mb4", f"CONCAT('<', {name}, '>')"
            yield "BINARY(16)", f"UNHEX(MD5({name}))"
        elif kind == "DECIMAL":
            yield "INT", f"SIGN({name})"
        elif kind in ("DATE", "DATETIME"):
            yield "INT", f"MONTH({name})"
