"""What a TiDB leaves out of a table that it makes, told by the two structures."""

from __future__ import annotations

from dataclasses import replace

from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.task.precheck.takeable import left_out

MYSQL = SourceContext("mysql", 90704, "s")
SOURCE = parse_create_table(
    "CREATE TABLE `t` (`id` int NOT NULL, `p` int, `note` text, PRIMARY KEY (`id`), KEY `by_p` (`p`),"
    " FULLTEXT KEY `words` (`note`), CONSTRAINT `positive` CHECK ((`p` > 0)),"
    " CONSTRAINT `of_p` FOREIGN KEY (`p`) REFERENCES `u` (`id`))",
    MYSQL,
)


def without(**parts: object) -> TableSchema:
    return replace(SOURCE, **parts)  # type: ignore[arg-type]


def test_nothing_is_left_out_of_what_is_there() -> None:
    assert list(left_out(SOURCE, replace(SOURCE, name=TableName("other", "t")))) == []


def test_each_part_is_named() -> None:
    plain = tuple(index for index in SOURCE.indexes if index.kind != "fulltext")
    assert list(left_out(SOURCE, without(indexes=plain))) == ["fulltext index words"]
    assert list(left_out(SOURCE, without(checks=()))) == ["CHECK constraints"]
    assert list(left_out(SOURCE, without(foreign_keys=()))) == ["foreign keys"]
    partitioned = replace(SOURCE, partitions=("p0", "p1"))
    assert list(left_out(partitioned, SOURCE)) == ["partitions"]
    hidden = replace(SOURCE, columns=(*SOURCE.columns[:2], replace(SOURCE.columns[2], invisible=True)))
    assert list(left_out(hidden, SOURCE)) == ["INVISIBLE of column note"]
    assert list(left_out(hidden, hidden)) == []
