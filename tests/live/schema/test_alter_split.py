"""An ALTER TABLE in pieces does what it does as a whole: random ones, the server compares."""

from __future__ import annotations

import random

import pymysql
import pytest

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.schema.normal import same_structure
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.split import split
from tests.live.schema.session import session
from tests.live.schema.test_ddl_corpus import in_schema
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live

_TABLE = (
    "CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT, a INT NOT NULL, b VARCHAR(10), c INT, d INT, PRIMARY KEY (id),"
    " KEY ka (a), UNIQUE KEY ub (b), KEY kd (d), CONSTRAINT f FOREIGN KEY (d) REFERENCES p (id)) CHARSET utf8mb4"
)
_PARENT = "CREATE TABLE p (id INT PRIMARY KEY)"
_COLUMNS = ("id", "a", "b", "c", "d", "e")
_INDEXES = ("ka", "ub", "kd", "kn")
_TYPES = ("INT", "BIGINT", "VARCHAR(12)", "INT DEFAULT 3", "CHAR(3) CHARACTER SET latin1", "INT NOT NULL")


def _operation(draw: random.Random) -> str:
    column, other, kind = draw.choice(_COLUMNS), draw.choice(_COLUMNS), draw.choice(_TYPES)
    index, other_index = draw.choice(_INDEXES), draw.choice(_INDEXES)
    place = draw.choice(["", "", " FIRST", f" AFTER {other}"])
    return draw.choice(
        [
            f"ADD COLUMN {column} {kind}{place}",
            f"ADD {column} {kind}{place}",
            f"DROP COLUMN {column}",
            f"MODIFY {column} {kind}{place}",
            f"CHANGE {column} {other} {kind}{place}",
            f"RENAME COLUMN {column} TO {other}",
            f"ADD INDEX {index} ({column})",
            f"ADD UNIQUE {index} ({column}, {other})",
            f"ADD INDEX ({column})",
            f"DROP INDEX {index}",
            f"RENAME INDEX {index} TO {other_index}",
            f"ALTER INDEX {index} {{hidden}}",
            "DROP PRIMARY KEY",
            f"ADD PRIMARY KEY ({column})",
            f"MODIFY {column} INT NOT NULL AUTO_INCREMENT",
            "DROP FOREIGN KEY f",
            f"ADD CONSTRAINT g FOREIGN KEY ({column}) REFERENCES p (id)",
            f"ALTER COLUMN {column} SET DEFAULT 5",
            f"ALTER COLUMN {column} DROP DEFAULT",
            "DEFAULT CHARSET latin1",
            "CONVERT TO CHARACTER SET utf8mb4",
            "COMMENT 'x'",
        ]
    )


@pytest.mark.ci_flavor("mariadb")
def test_pieces_in_order_equal_the_whole(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    source, target = schema(upstream), schema(upstream)
    draw = random.Random(20261121)
    accepted = several = 0
    with session(upstream) as server:
        for name in (source, target):
            server.run(name, _PARENT)
        hidden = "INVISIBLE" if server.flavor == "mysql" else "IGNORED"
        while accepted < 25:
            operations = ", ".join(_operation(draw) for _ in range(draw.randint(2, 4)))
            statement = f"ALTER TABLE t {operations.format(hidden=hidden)}"
            server.run(source, "DROP TABLE IF EXISTS t", _TABLE)
            try:
                server.run(source, statement)
            except pymysql.Error:
                continue
            accepted += 1
            server.run(target, "DROP TABLE IF EXISTS t", _TABLE)
            tracker = SchemaTracker(server.flavor)
            tracker.set(in_schema(server.structure(TableName(target, "t")), source))
            pieces = split(statement, server.context(source))
            several += len(pieces) > 1
            for piece in pieces:
                tracker.apply(piece)
                server.run(target, piece.routed(lambda name: TableName(target, name.table)))
            whole = server.structure(TableName(source, "t"))
            parts = in_schema(server.structure(TableName(target, "t")), source)
            tracked = tracker.get(TableName(source, "t"))
            assert tracked is not None
            assert same_structure(whole, parts), (statement, [piece.text for piece in pieces], whole, parts)
            assert [column.name for column in tracked.columns] == [column.name for column in whole.columns], statement
            assert same_structure(tracked, whole), (statement, tracked, whole)
            indexes = [{one.name: one.invisible for one in each.indexes} for each in (whole, parts, tracked)]
            assert indexes[1:] == [indexes[0]] * 2, (statement, indexes)
    assert several > 5
