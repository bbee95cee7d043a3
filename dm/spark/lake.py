"""A dump as typed tables for Spark, without a second copy.

    from dm.spark import lake
    orders = lake.table(spark, "/shared/dump", "shop.orders")

Problem: chunk files hold the server's own bytes, because no type of Parquet or Spark holds all that a column may hold:
zero dates, impossible dates, TIME beyond a day, DECIMAL of 65 digits, texts in any character set. Whoever wants to
count and join needs numbers, dates and strings.

So the types are put on when the files are read, by expressions over the binary columns, as the table's stored
structure says. What a type of Spark can not hold is never bent into it: the whole column becomes a string then
(DECIMAL beyond 38 digits), or the value becomes null and says so in a column of its own (`born` and `born__invalid`: a
zero date, or one that no calendar has). Rows never pass through Python, but for texts whose character set is not a kind
of UTF-8.

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
says, and Spark compares every page with its checksum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dm.binlog.charset import LATIN1, codec_of
from dm.errors import DMError
from dm.schema.parse import parse_create_table
from dm.schema.table import Column as Field
from dm.schema.table import TableSchema
from dm.spark.chunk_plan import counted
from dm.spark.dump_files import DumpedTable, DumpPlan, load_plan
from dm.spark.manifest import read_manifest
from dm.sql.context import SourceContext

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

INVALID = "__invalid"  # the end of the name of a flag column

_SIGNED = {"tinyint": "tinyint", "smallint": "smallint", "mediumint": "int", "int": "int", "bigint": "bigint"}
_UNSIGNED = {
    "tinyint": "smallint", "smallint": "int", "mediumint": "int", "int": "bigint", "bigint": "decimal(20,0)",
}  # fmt: skip
_NUMBERS = {"float": "float", "double": "double", "year": "smallint"}
_MOMENTS = {"date": "date", "datetime": "timestamp_ntz", "timestamp": "timestamp"}
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_ASCII = frozenset({"json", "uuid", "inet4", "inet6"})  # or UTF-8, which Spark's strings are
_MOST_DIGITS = 38
_PATTERN = re.compile(r"[\\{}\[\]*?]")
_VERIFY_PAGES = "parquet.page.verify-checksum.enabled"  # parquet-java's name (ParquetInputFormat)


def tables(directory: str | Path) -> tuple[str, ...]:
    """The names of the tables in a finished dump, as `schema.table`. DMError when there is no such dump."""
    return tuple(str(table.name) for table in _plan(Path(directory)).tables)


def table(spark: SparkSession, directory: str | Path, name: str) -> DataFrame:
    """One table of a finished dump; `name` is `schema.table`. DMError when it is not there as a whole."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    directory = Path(directory).absolute()
    plan = _plan(directory)
    dumped = next((each for each in plan.tables if str(each.name) == name), None)
    if dumped is None:
        known = ", ".join(str(each.name) for each in plan.tables[:10]) or "none"
        raise DMError("lake-table-unknown", directory=directory, table=name, known=known)
    read_manifest(directory).check(directory, plan.dump_id, dumped.name)
    fields = [field for field in _structure(plan, dumped).columns if field.generated is None]
    binary = StructType([StructField(field.name, BinaryType()) for field in fields])
    # With a scheme, since a cluster's default may be another file system.
    # Spark takes brackets and braces of a name for a pattern, which may fit another table's files.
    files = [
        _PATTERN.sub(r"\\\g<0>", f"file://{directory / dumped.file_name(chunk)}") for chunk in range(dumped.chunks)
    ]
    reader = spark.read.schema(binary).option(_VERIFY_PAGES, "true")
    return reader.parquet(*files).select(_columns(fields))


def _plan(directory: Path) -> DumpPlan:
    """The plan of a finished dump in Parquet, whose files are those of its manifest."""
    plan = load_plan(directory)
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
    context = SourceContext("mariadb" if plan.flavor == "mariadb" else "mysql", plan.version, dumped.name.schema)
    return parse_create_table(dumped.structure, context)


def _columns(fields: Sequence[Field]) -> list[Column]:
    from pyspark.sql import functions

    taken = {field.name.lower() for field in fields}
    columns: list[Column] = []
    for field in fields:
        raw = functions.col("`" + field.name.replace("`", "``") + "`")
        columns.append(_typed(field, raw).alias(field.name))
        if field.base in _MOMENTS:
            flag = field.name + INVALID
            while flag.lower() in taken:
                flag += "_"
            taken.add(flag.lower())
            columns.append((raw.isNotNull() & _moment(field, raw).isNull()).alias(flag))
    return columns


def _typed(field: Field, raw: Column) -> Column:
    text = raw.cast("string")
    if field.base in _SIGNED:
        return text.cast((_UNSIGNED if field.unsigned else _SIGNED)[field.base])
    if field.base in _NUMBERS:
        return text.cast(_NUMBERS[field.base])
    if field.base == "decimal":
        digits, scale = field.length or 10, field.decimals or 0
        return text.cast(f"decimal({digits},{scale})") if digits <= _MOST_DIGITS else text
    if field.base == "bit":
        return _bits(raw).cast("decimal(20,0)" if field.length == 64 else "bigint")
    if field.base in _MOMENTS:
        return _moment(field, raw)
    if field.base == "time":
        return _duration(text)
    if counted(field):
        return _member(field, text)
    if field.base in _ASCII:
        return text
    if field.base in _TEXTS:
        return _decoded(field, raw)
    return raw


def _bits(raw: Column) -> Column:
    """The number whose bytes these are, as a text."""
    from pyspark.sql import functions

    return functions.conv(functions.hex(raw), 16, 10)


def _moment(field: Field, raw: Column) -> Column:
    """A date or time of day on one; null for what no calendar has."""
    from pyspark.sql import functions

    text = raw.cast("string")
    if field.base == "timestamp":
        text = functions.concat(text, functions.lit("+00:00"))  # the dump's sessions speak UTC
    return text.try_cast(_MOMENTS[field.base])


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

    if field.base == "enum":
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
    """A text in the column's character set; binary where nothing here knows that."""
    from pyspark.sql import functions

    def read_by(decode: Callable[[bytes], str]) -> Column:
        # Without Arrow, which Spark refuses to use where there is no pandas.
        return functions.udf(_by(decode), "string", useArrow=False)(raw)

    codec = codec_of(field.charset or "utf8mb4")
    if field.charset == "latin1":
        holes = dict(LATIN1)
        return read_by(lambda value: value.decode("latin-1").translate(holes))
    if field.charset == "binary" or codec is None:
        return raw
    if codec in ("utf-8", "ascii"):
        return raw.cast("string")
    return read_by(lambda value: value.decode(codec))


def _by(decode: Callable[[bytes], str]) -> Callable[[bytearray | None], str | None]:
    # A function inside a function is pickled as a whole: workers need not have this package.
    def decoded(value: bytearray | None) -> str | None:
        return None if value is None else decode(bytes(value))

    return decoded
