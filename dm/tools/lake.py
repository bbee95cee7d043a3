"""A dump as typed tables for Spark, without a second copy.

    from dm.tools import lake
    orders = lake.table(spark, "/shared/dump", "shop.orders")  # or ("shop", "orders")

Problem: chunk files hold the server's own bytes, because no type of Parquet or Spark holds all that a column may hold:
zero dates, impossible dates, TIME beyond a day, DECIMAL of 65 digits, texts in any character set. Whoever wants to
count and join needs numbers, dates and strings.

So the types are put on when the files are read, by expressions over the binary columns, as the table's stored
structure says. What a type of Spark can not hold is never bent into it: the whole column becomes a string then
(DECIMAL beyond 38 digits), or the value becomes null and says so in a column of its own (`born` and `born__invalid`: a
zero date, or one that no calendar has; a text with bytes that stand for no character). Rows never pass through Python,
but for texts whose character set is neither ASCII nor a kind of UTF-8.

| column | type in Spark |
|---|---|
| TINYINT to BIGINT, YEAR | the smallest integer type that holds all values; BIGINT UNSIGNED is decimal(20,0) |
| DECIMAL | decimal; string beyond 38 digits |
| FLOAT, DOUBLE | float, double |
| BIT | bigint; decimal(20,0) for BIT(64) |
| DATE, DATETIME, TIMESTAMP | date, timestamp_ntz, timestamp; each with its `__invalid` column |
| TIME | interval day to second |
| CHAR to LONGTEXT, ENUM, SET, JSON, UUID, INET4, INET6 | string |
| BINARY to LONGBLOB, geometries, VECTOR | binary, as the server sends it |

Generated columns are not in the files, and so not in the tables.

A dump is read whole or not at all: it must be finished, each file of the table must be there as long as the manifest
says, Spark must have taken every one of them, and it compares every page with its checksum.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from dm.dumpfiles.chunk_plan import counted
from dm.dumpfiles.dump_files import DumpedTable, DumpPlan, load_plan
from dm.dumpfiles.manifest import read_manifest
from dm.dumpfiles.storage import LocalStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.charset import decoder_of
from dm.mysql.dialect import flavor_named
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column as Field
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.position import Position

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

INVALID = "__invalid"  # the end of the name of a flag column

_COMPLETE = frozenset({"utf8mb4", "utf8mb3", "utf8", "latin1", "binary"})  # whose stored bytes are all texts, or stay
_PATTERN = re.compile(r"[\\{}\[\]*?]")
_WHOLE = {
    "parquet.page.verify-checksum.enabled": "true",  # parquet-java's name (ParquetInputFormat)
    # Whatever the session says: files that can't be read would be left out.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}


def tables(directory: str | Path) -> tuple[str, ...]:
    """The names of the tables in a finished dump, as `schema.table`, in backticks where that may mean several."""
    names = [table.name for table in _plan(Path(directory)).tables]
    meanings = Counter(text for name in names for text in (str(name), name.sql))
    return tuple(str(name) if meanings[str(name)] == 1 else name.sql for name in names)


def table(spark: SparkSession, directory: str | Path, name: str | tuple[str, str]) -> DataFrame:
    """One table of a finished dump, by `schema.table` or (schema, table); DMError when it is not there as a whole."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    directory = Path(directory).absolute()
    plan = _plan(directory)
    dumped = _named(directory, plan, name)
    read_manifest(LocalStorage(directory)).check(LocalStorage(directory), plan.dump_id, dumped.name)
    fields = stored(_structure(plan, dumped))
    binary = StructType([StructField(field.name, BinaryType()) for field in fields])
    # With a scheme, since a cluster's default may be another file system.
    # Spark takes brackets and braces of a name for a pattern, which may fit another table's files.
    files = [
        _PATTERN.sub(r"\\\g<0>", f"file://{directory / dumped.file_name(chunk)}") for chunk in range(dumped.chunks)
    ]
    rows = spark.read.schema(binary).options(**_WHOLE).parquet(*files)
    _check_files(directory, dumped, rows.inputFiles())
    return rows.select(columns(fields, _of_file))


def structure(directory: str | Path, name: str | tuple[str, str]) -> tuple[TableSchema, Position]:
    """A table of a finished dump: its structure, and the place after which its changes continue the dump's rows."""
    directory = Path(directory).absolute()
    plan = _plan(directory)
    dumped = _named(directory, plan, name)
    return _structure(plan, dumped), dumped.point or plan.p0


def stored(schema: TableSchema) -> list[Field]:
    """The columns that a dump holds."""
    return [field for field in schema.columns if field.generated is None]


def _named(directory: Path, plan: DumpPlan, name: str | tuple[str, str]) -> DumpedTable:
    found = [each for each in plan.tables if name in (each.name, str(each.name), each.name.sql)]
    shown = name if isinstance(name, str) else TableName(*name).sql
    if len(found) > 1:
        known = ", ".join(each.name.sql for each in found)
        raise DMError("lake-table-ambiguous", directory=directory, table=shown, known=known)
    if not found:
        known = ", ".join(str(each.name) for each in plan.tables[:10]) or "none"
        raise DMError("lake-table-unknown", directory=directory, table=shown, known=known)
    return found[0]


def _check_files(directory: Path, dumped: DumpedTable, taken: Iterable[str]) -> None:
    """DMError where Spark left a chunk file out: it ignores some names, even those it is told to read."""
    read = {unquote(address).rpartition("/")[2] for address in taken}
    ignored = [name for name in map(dumped.file_name, range(dumped.chunks)) if name not in read]
    if ignored:
        raise DMError(
            "lake-files-ignored",
            directory=directory,
            table=dumped.name,
            read=dumped.chunks - len(ignored),
            chunks=dumped.chunks,
            file=ignored[0],
        )


def _plan(directory: Path) -> DumpPlan:
    """The plan of a finished dump in Parquet, whose files are those of its manifest."""
    plan = load_plan(LocalStorage(directory))
    if plan is None:
        raise DMError("lake-dump-missing", directory=directory)
    if not plan.finished:
        raise DMError("lake-dump-unfinished", directory=directory, task=plan.task)
    if plan.streamed:
        raise DMError("lake-dump-streamed", directory=directory)
    if any(table.form != "parquet" for table in plan.tables):
        raise DMError("lake-dump-sql", directory=directory)
    return plan


def _structure(plan: DumpPlan, dumped: DumpedTable) -> TableSchema:
    context = SourceContext(flavor_named(plan.flavor), plan.version, dumped.name.schema)
    return parse_create_table(dumped.structure, context)


def columns(fields: Sequence[Field], raw_of: Callable[[Field], Column], *, numbered: bool = False) -> list[Column]:
    """The typed columns, and their flags, from those that have the bytes of a dump.

    With `numbered`, members are always numbers.
    """
    taken = {field.name.lower() for field in fields}
    found: list[Column] = []
    for field in fields:
        raw = raw_of(field)
        value = _member(field, raw.cast("string")) if numbered and field.type.has_members else _typed(field, raw)
        found.append(value.alias(field.name))
        if _may_be_invalid(field):
            flag = field.name + INVALID
            while flag.lower() in taken:
                flag += "_"
            taken.add(flag.lower())
            found.append((raw.isNotNull() & value.isNull()).alias(flag))
    return found


def _of_file(field: Field) -> Column:
    from pyspark.sql import functions

    return functions.col("`" + field.name.replace("`", "``") + "`")


def _may_be_invalid(field: Field) -> bool:
    if field.type.spark == "moment":
        return True
    charset = field.charset or "utf8mb4"
    if not field.type.is_text:
        return False
    return charset not in _COMPLETE and decoder_of(charset) is not None


def _typed(field: Field, raw: Column) -> Column:
    text = raw.cast("string")
    if counted(field):
        return _member(field, text)
    to = field.type.spark_type(field)
    match field.type.spark:
        case "cast":
            return text.cast(to) if to else text
        case "bits":
            return _bits(raw).cast(to)
        case "moment":
            return _moment(field, text, to)
        case "duration":
            return _duration(text)
        case "text":
            return text
        case "decoded":
            return _decoded(field, raw)
        case "bytes":
            return raw


def _bits(raw: Column) -> Column:
    """The number whose bytes these are, as a text."""
    from pyspark.sql import functions

    return functions.conv(functions.hex(raw), 16, 10)


def _moment(field: Field, text: Column, to: str) -> Column:
    """A date or time of day on one; null for what no calendar has."""
    from pyspark.sql import functions

    if field.type.is_moment:
        text = functions.concat(text, functions.lit("+00:00"))  # the dump's sessions speak UTC
    return text.try_cast(to)


def _duration(text: Column) -> Column:
    """-838:59:59.999999 and the like."""
    from pyspark.sql import functions

    def part(group: int) -> Column:
        return functions.regexp_extract(text, r"^(-?)(\d+):(\d+):(\d+(?:\.\d+)?)$", group)

    sign = functions.when(part(1) == "-", functions.lit(-1)).otherwise(functions.lit(1))
    zero = functions.lit(0)
    hours, minutes = sign * part(2).cast("int"), sign * part(3).cast("int")
    seconds = (sign * part(4).cast("decimal(8,6)")).cast("decimal(18,6)")
    # A null text has no parts, and empty ones are no numbers.
    return functions.when(text.isNotNull(), functions.make_dt_interval(zero, hours, minutes, seconds))


def _member(field: Field, number: Column) -> Column:
    """An ENUM's or SET's text from the number that is stored where some member's text is empty."""
    from pyspark.sql import functions

    if field.type.is_enum:
        members = functions.array(*map(functions.lit, ("", *field.members)))  # 0 is the error value, which reads ''
        # Of a null position Spark gives some member.
        return functions.when(number.isNotNull(), functions.element_at(members, number.cast("int") + 1))
    bits = functions.lpad(functions.conv(number, 10, 2), 64, "0")
    chosen = [
        functions.when(functions.substring(bits, 64 - position, 1) == "1", functions.lit(member))
        for position, member in enumerate(field.members)
    ]
    return functions.when(number.isNotNull(), functions.concat_ws(",", *chosen))


def _decoded(field: Field, raw: Column) -> Column:
    """A text in the column's character set; binary where nothing here knows that, null where bytes are no character."""
    from pyspark.sql import functions

    charset = field.charset or "utf8mb4"
    text = raw.cast("string")
    if charset in ("utf8mb4", "utf8mb3", "utf8"):
        return text
    if charset == "ascii":
        # MariaDB stores any byte there. In UTF-8 what is not ASCII has more bytes than characters.
        return functions.when(functions.length(text) == functions.length(raw), functions.try_validate_utf8(text))
    decode = decoder_of(charset)
    if charset == "binary" or decode is None:
        return raw
    # Without Arrow, which Spark refuses to use where there is no pandas.
    return functions.udf(_by(decode), "string", useArrow=False)(raw)


def _by(decode: Callable[[bytes], str | None]) -> Callable[[bytearray | None], str | None]:
    # A function inside a function is pickled as a whole: workers need not have this package.
    def decoded(value: bytearray | None) -> str | None:
        return None if value is None else decode(bytes(value))

    return decoded
