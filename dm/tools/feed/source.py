"""The format `dm-relay`: the changes of one table in a relay, as a stream of Spark.

One row is one change. Both images are maps from a column's name to the bytes that the server would send for its value,
as in a dump's files; `dm.tools.feed.source` gives them the types that `dm.tools.lake` gives a dump.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from dm.mysql.schema.table import Column as Field
from dm.position import Position
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.tools import lake
from dm.tools.feed.options import FeedOptions, offset_of, position_of
from dm.tools.feed.reading import FeedBatch, FeedReading, FeedRow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


SCHEMA: Final = (
    "server string, file string, position bigint, number int, gtid string, committed timestamp,"
    " `schema` string, `table` string, op string, before map<string, binary>, after map<string, binary>"
)

Offset = dict[str, Any]


class RelayDataSource(DataSource):
    """What `spark.dataSource.register` takes."""

    @classmethod
    def name(cls) -> str:
        """The name for `readStream.format`."""
        return "dm-relay"

    def schema(self) -> str:
        """The columns of every table's changes."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader of one query."""
        del schema
        return RelayStreamReader(self.options)


class _FeedPartition(InputPartition):
    """What one task reads."""

    def __init__(self, begin: Offset, end: Offset) -> None:
        super().__init__(None)
        self.begin = begin
        self.end = end


class RelayStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in the driver, reads in the workers; nothing is kept from one batch to the next but the cuts."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = FeedOptions.of(options)
        self._limit: Position | None = None
        self._planned: tuple[Position, FeedBatch] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Where a query without a checkpoint begins."""
        return offset_of(self._options.first())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The size of a batch."""
        return ReadMaxBytes(self._options.batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is in the relay now is the end of the query."""
        sub = RelayDirectory(self._options.relay).last()
        if sub is not None and sub.files():
            name = sub.files()[-1]
            self._limit = Position(sub.server_uuid, name, sub.file(name).stat().st_size)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Where the batch that begins at `start` ends."""
        begin = position_of(start)
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        batch = FeedReading(self._options).batch(begin, size, self._limit)
        self._planned = (begin, batch)
        return offset_of(batch.end)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch; one, where it was planned by an earlier run."""
        begin, to = position_of(start), position_of(end)
        if begin == to:
            return []
        cuts: tuple[Position, ...] = ()
        if self._planned is not None and self._planned[0] == begin and self._planned[1].end == to:
            cuts = self._planned[1].cuts
        places = [start, *map(offset_of, cuts), end]
        return [_FeedPartition(one, other) for one, other in itertools.pairwise(places)]

    def read(self, partition: InputPartition) -> Iterator[FeedRow]:
        """The rows of a task's part."""
        assert isinstance(partition, _FeedPartition)
        return FeedReading(self._options).changes(position_of(partition.begin), position_of(partition.end))


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

    image = functions.struct(*lake.columns(fields, raw, numbered=True))
    return functions.when(functions.col(name).isNotNull(), image)
