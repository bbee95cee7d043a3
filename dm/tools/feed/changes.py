"""The changes of one table with the types of the lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dm.mysql.schema.table import Column as Field
from dm.tools import lake
from dm.tools.feed.options import FeedOptions
from dm.tools.feed.source import RelayDataSource
from dm.type_family import MEMBERED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def changes(
    spark: SparkSession,
    relay: str | Path,
    table: str,
    *,
    dump: str | Path | None = None,
    structure: str | None = None,
    **options: str | int,
) -> DataFrame:
    """A stream with one row for each change of the table; raises DMError.

    Its structure is that of a finished dump, where the stream then begins, or the text of SHOW CREATE TABLE. Options
    are those of the format: `start`, `batchBytes`, `taskBytes`, `memoryBytes`.
    """
    given = {name: str(value) for name, value in options.items()} | {"path": str(relay), "table": table}
    given |= {} if dump is None else {"dump": str(dump)}
    given |= {} if structure is None else {"structure": structure}
    (schema,) = FeedOptions.of(given).structures.values()
    _register(spark)
    rows = spark.readStream.format(RelayDataSource.name()).options(**given).load()
    fields = lake.stored(schema)
    images = [_image(name, fields).alias(name) for name in ("before", "after")]
    return rows.select(*(name for name in rows.columns if name not in ("before", "after")), *images)


def _register(spark: SparkSession) -> None:
    """Make the format known to this session.

    Spark asks the active session whether the name is taken. If another session is active and has the feed already,
    Spark does not register it in this one (DATA_SOURCE_ALREADY_EXISTS). So this session becomes the active one first.
    """
    spark.createDataFrame([], "nothing int")  # no other call of PySpark's own makes a session active
    spark.dataSource.register(RelayDataSource)


def _image(name: str, fields: list[Field]) -> Column:
    """An image as a structure of typed columns; null where there is none."""
    from pyspark.sql import functions

    def raw(field: Field) -> Column:
        return functions.element_at(functions.col(name), functions.lit(field.name))

    image = functions.struct(*lake.columns(fields, raw, numbered=MEMBERED))
    return functions.when(functions.col(name).isNotNull(), image)
