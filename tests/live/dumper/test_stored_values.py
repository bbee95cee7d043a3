"""A dump notices a row whose stored values are not those of the zone in which the target computes, and no other row."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.dumper.stored_values import StoredValues
from dm.dumpfiles.chunk_plan import range_condition, walked_key
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext, version_number
from dm.sourcelog.upstream.connection import Connection, connect, fetch, read_source_settings
from dm.sourcelog.upstream.facts import row_session
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.zones import BACK, SUMMER, globally, know_summer

pytestmark = [pytest.mark.live]

# By column: its type, and an expression that becomes another value when it is stored.
COLUMNS = {
    "whole": ("SMALLINT", "HOUR(ts)"),
    "rounded": ("INT", "HOUR(ts) * 1.25"),
    "of_text": ("INT UNSIGNED", "DATE_FORMAT(ts, '%H')"),
    "large": ("BIGINT", "ts"),
    "bits": ("BIT(6)", "HOUR(ts)"),
    "exact": ("DECIMAL(6,1)", "HOUR(ts) / 7"),
    "exact_text": ("DECIMAL(8,2)", "CONCAT(HOUR(ts), '.', MINUTE(ts), '51')"),
    "narrow": ("FLOAT", "HOUR(ts) / 7"),
    "narrow_large": ("FLOAT", "TO_SECONDS(ts)"),
    "narrow_rounded": ("FLOAT(9,2)", "HOUR(ts) / 7"),
    "wide": ("DOUBLE", "HOUR(ts) / 7"),
    "wide_rounded": ("DOUBLE(9,2)", "HOUR(ts) / 7"),
    "short": ("VARCHAR(60) CHARACTER SET latin1", "CONCAT('ä', ts)"),
    "padded": ("CHAR(60)", "CONCAT(ts, '   ')"),
    "long_text": ("TEXT", "CONCAT(TIME(ts), ' ')"),
    "hour_text": ("VARCHAR(10)", "HOUR(ts)"),
    "fixed": ("BINARY(60)", "CONCAT(ts)"),
    "bytes": ("VARBINARY(60)", "CONCAT(ts)"),
    "day": ("DATE", "ts"),
    "minute": ("TIME(1)", "ts"),
    "local_time": ("DATETIME(3)", "ts"),
    "plain_time": ("DATETIME", "ts"),
    "moment": ("TIMESTAMP(2)", "local"),
    "year_of": ("YEAR", "YEAR(ts)"),
    "member": ("ENUM('0','1','2','3','4','5','6')", "CONCAT(WEEKDAY(ts))"),
    "members": ("SET('0','1','2','3','4','5','6')", "CONCAT(WEEKDAY(ts))"),
}
OF_MYSQL = {"document": ("JSON", "JSON_OBJECT('h', HOUR(ts))")}
# Which takes few expressions that depend on a session.
NOT_OF_MARIADB = {"of_text", "long_text", "minute", "plain_time", "moment"}
# No computed value there, or the same one in all zones.
SAME = "w INT AS (HOUR(local)) STORED, v INT AS (HOUR(ts)) VIRTUAL"
MOMENTS = (BACK - 1800, BACK + 1800, BACK - 86400 * 120, timegm((2020, 12, 31, 23, 30, 0)))


class Asked:
    """A table, and whether the source notices a row of it."""

    def __init__(self, server: PrivateServer, session: Connection, name: str) -> None:
        self.server, self.session, self.name = server, session, TableName(name, "t")

    def schema(self) -> TableSchema:
        version = version_number(str(self.server.query("SELECT VERSION()")[0][0]))
        text = str(self.server.query(f"SHOW CREATE TABLE {self.name.sql}")[0][1])
        return parse_create_table(text, SourceContext(self.server.flavor, version, self.name.schema))

    def error(
        self, schema: TableSchema | None = None, *, chunk: str = "", where: str = "", zone: str = ""
    ) -> DMError | None:
        with closing(connect(endpoint_of(self.server))) as questions:
            settings = read_source_settings(questions)
        found = StoredValues.of(schema or self.schema(), self.server.flavor, settings, zone=zone, index="", where=where)
        assert found is not None
        try:
            found.demand(self.session, chunk, where)
        except DMError as error:
            fetch(self.session, "SET SESSION time_zone = '+00:00'")
            return error
        assert fetch(self.session, "SELECT @@time_zone = '+00:00'") == ((1,),)
        return None


@pytest.fixture
def asked(upstream: ThrowawayServer, schema: SchemaFactory) -> Iterator[Asked]:
    know_summer(upstream)
    with (
        globally(upstream, time_zone=f"'{SUMMER}'"),
        closing(row_session(endpoint_of(upstream))) as session,
    ):
        yield Asked(upstream, session, schema(upstream))


def write(asked: Asked, zone: str = "") -> None:
    """Rows of these moments and one without, by sessions of the server's zone or another."""
    rows = [f"(FROM_UNIXTIME({moment}.567), '2020-02-03 04:05:06.789')" for moment in MOMENTS]
    asked.server.execute(
        "SET SESSION sql_mode = ''",
        f"SET SESSION time_zone = '{zone or SUMMER}'",
        *(f"INSERT INTO {asked.name.sql} (ts, local) VALUES {row}" for row in (*rows, "(NULL, NULL)")),
    )


def test_what_a_column_makes_of_a_value_is_no_other_value(asked: Asked) -> None:
    """Each pair of types: nothing is noticed where the zone is the server's, and each column where it is not."""
    mysql = asked.server.flavor == "mysql"
    columns = {**COLUMNS, **OF_MYSQL} if mysql else {name: COLUMNS[name] for name in COLUMNS.keys() - NOT_OF_MARIADB}
    texts = [f"{name} {kind} AS ({expression}) STORED" for name, (kind, expression) in columns.items()]
    asked.server.execute(
        "SET SESSION sql_mode = ''",
        f"CREATE TABLE {asked.name.sql} (ts TIMESTAMP(3) NULL, local DATETIME(3), {', '.join(texts)}, {SAME})",
    )
    whole = asked.schema()
    alone = {
        name: replace(
            whole, columns=tuple(each for each in whole.columns if each.name not in columns or each.name == name)
        )
        for name in columns
    }
    write(asked)
    found = asked.error()
    assert found is None, str(found)
    write(asked, "-03:30")
    for name, schema in alone.items():
        found = asked.error(schema)
        assert found is not None, name
        assert found.name == "dump-computed-otherwise", found
        assert f"{name} = " in found.message
        assert SUMMER in found.message


@pytest.mark.ci_flavor("mysql")
def test_all_chunks_together_are_about_all_rows(asked: Asked) -> None:
    """Bounds of a TIMESTAMP mean other moments in the zone that is asked in; a condition on one is left out."""
    name = asked.name.sql
    asked.server.execute(f"CREATE TABLE {name} (ts TIMESTAMP NOT NULL PRIMARY KEY, h INT AS (HOUR(ts)) STORED)")
    for moment in MOMENTS:
        asked.server.execute(
            f"DELETE FROM {name}",
            "SET SESSION time_zone = '-03:30'",
            f"INSERT INTO {name} (ts) VALUES (FROM_UNIXTIME({moment}))",
        )
        key = walked_key(asked.schema())
        assert key is not None
        inner = sorted(at + step for at in MOMENTS for step in (-7200, 0, 5400))
        bounds = [None, *((f"'{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}'",) for at in inner), None]
        chunks = [range_condition(key, *pair) for pair in pairwise(bounds)]
        assert any(asked.error(chunk=chunk) for chunk in chunks)
        assert asked.error(where="ts < '2000-01-01'")
    asked.server.execute(f"ALTER TABLE {name} ADD id INT NOT NULL DEFAULT 7")
    assert asked.error(where="id < 7") is None
    assert asked.error(where="id = 7")


def test_the_ways_out(asked: Asked) -> None:
    name = asked.name.sql
    asked.server.execute(f"CREATE TABLE {name} (ts TIMESTAMP(3) NULL, local DATETIME(3), h INT AS (HOUR(ts)) STORED)")
    write(asked, "-03:30")
    assert asked.error() is not None
    assert asked.error(zone="-03:30") is None
    asked.server.execute(f"SET SESSION time_zone = '{SUMMER}'", f"ALTER TABLE {name} FORCE, ALGORITHM=COPY")
    assert asked.error() is None
