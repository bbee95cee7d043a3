"""Loads into TiDB: what it keeps in another form than its source, and its limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.changes.computing import moment_parts
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.literals import STRICT_MODE
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.tally import Tally
from dm.progress.load_parts import LoadRun
from dm.progress.tables import SubtaskKey
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import endpoint
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.tidb import TidbServer
from tests.testbed.zones import globally

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.tidb]

OF_TEXTS = (
    "CREATE TABLE words (id INT PRIMARY KEY, l VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin,"
    " e ENUM('ä', 'b') CHARACTER SET latin1 COLLATE latin1_bin, g VARCHAR(20) CHARACTER SET gbk COLLATE gbk_bin,"
    " u VARCHAR(40) COLLATE utf8mb4_bin, b VARBINARY(20), m SET('y\\\\', 'q''r\\\\z') COLLATE utf8mb4_bin)"
    " DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin",
    "INSERT INTO words VALUES (1, 'Müller € (a, ''b'')', 'ä', '中文', 'ü', x'fc27', 3),"
    " (2, 'plain', 'b', 'x', '', x'00', 1), (3, NULL, NULL, NULL, NULL, NULL, NULL)",
)


@pytest.mark.parametrize("form", ["sql", pytest.param("parquet", marks=pytest.mark.chaos)])
def test_texts_of_latin1_arrive(form: str, mysql: ThrowawayServer, tidb: TidbServer, full_load: LoadFactory) -> None:
    load = full_load(mysql, tidb, *OF_TEXTS, dump_format=form)
    load.dump()
    load.load()
    report = load.report(structures=False)
    assert report.identical, str(report)
    assert tidb.query(f"SELECT l FROM `{load.target_schema}`.words WHERE id = 1") == (("Müller € (a, 'b')",),)


@pytest.mark.chaos
def test_a_transaction_beyond_its_limit_is_named_and_the_load_goes_on_when_the_limit_is_raised(
    mysql: ThrowawayServer, tmp_path: Path, full_load: LoadFactory
) -> None:
    """A load writes parts of 16 MiB, each in one transaction."""
    numbers = "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
    limit = {"txn-total-size-limit": 1 << 20}
    with TidbServer(tmp_path / "tidb", performance=limit) as small:
        load = full_load(
            mysql, small, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9000))",
            f"INSERT INTO t {numbers} SELECT i, REPEAT('x', 8000) FROM n",
        )  # fmt: skip
        load.dump()
        with pytest.raises(DMError) as refused:
            load.load()
        assert refused.value.code == 36962, refused.value
        assert "txn-total-size-limit" in refused.value.workaround
        limit["txn-total-size-limit"] = 100 << 20
        small.restart()
        load.load()
        report = load.report(structures=False)
        assert report.identical, str(report)


def test_columns_that_it_computes_are_as_the_source_has_them(
    mysql: ThrowawayServer, tidb: TidbServer, full_load: LoadFactory
) -> None:
    """In the source's zone and by its modes, and digits that an expression loses are no changed values."""
    settings = {"time_zone": "'+05:00'", "sql_mode": "'STRICT_TRANS_TABLES,NO_UNSIGNED_SUBTRACTION'"}
    rows = ", ".join(
        f"({number}, {number}.{number % 100:02d}, 1, 3, '2020-07-01 {number % 24:02d}:30:00')" for number in range(1500)
    )
    with globally(mysql, **settings):
        load = full_load(
            mysql, tidb,
            "CREATE TABLE t (id INT PRIMARY KEY, price DECIMAL(10,2), a INT UNSIGNED, b INT UNSIGNED,"
            " ts TIMESTAMP(3) NULL, tax DECIMAL(10,2) AS (price * 0.19) STORED,"
            " third DECIMAL(10,2) AS (price / 3) VIRTUAL, KEY (third),"
            " h INT AS (HOUR(ts)) STORED, d DATE AS (DATE(ts)) VIRTUAL, KEY (d), m BIGINT AS (a - b) STORED)",
            "SET time_zone = '+05:00', sql_mode = 'STRICT_TRANS_TABLES,NO_UNSIGNED_SUBTRACTION'",
            f"INSERT INTO t (id, price, a, b, ts) VALUES {rows}",
        )  # fmt: skip
        load.dump()
        load.load()
    columns = "SELECT id, price, tax, third, h, m FROM `{}`.t ORDER BY id"
    assert tidb.query(columns.format(load.target_schema)) == mysql.query(columns.format(load.schema))


def test_a_moment_of_an_hour_that_a_clock_shows_twice_is_named_and_its_way_out_helps(
    tidb: TidbServer, schema: SchemaFactory
) -> None:
    name = schema(tidb)
    tidb.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, ts TIMESTAMP NULL, h INT AS (HOUR(ts)) STORED)")
    target, run = TableName(name, "t"), LoadRun(SubtaskKey(f"meta_{name}", "t", "s"), "dump", 1)
    first, later = "2021-10-31 00:30:00", "2021-10-31 03:30:00"  # UTC
    with TargetConnection(endpoint(tidb)) as session:
        session.execute(f"SET SESSION sql_mode = '{STRICT_MODE}'")

        def tally() -> Tally:
            return Tally(session, run, target, target, True, "replace", loaded=("id", "ts"), computed=("h",))

        def literal(moment: str) -> str:
            return "".join(part or moment for part in moment_parts(offsets=False))

        session.set({"time_zone": "Europe/Berlin"})
        session.begin()
        with pytest.raises(DMError) as refused:
            tally().insert(f"INSERT INTO {target.sql} (id, ts) VALUES (1, {literal(first)})".encode(), 1)
        assert (refused.value.name, refused.value.code) == ("load-moment-ambiguous", 34939)
        session.rollback()
        tally().insert(f"INSERT INTO {target.sql} (id, ts) VALUES (2, {literal(later)})".encode(), 1)
        session.commit()
        assert "DROP COLUMN" in refused.value.workaround
        session.execute(f"ALTER TABLE {target.sql} DROP COLUMN h")
        session.set({"time_zone": "+00:00"})
        tally().insert(f"INSERT INTO {target.sql} (id, ts) VALUES (1, '{first}')".encode(), 1)
        session.commit()
        found = session.query(f"SELECT ts FROM {target.sql} ORDER BY id")
    assert [str(moment) for (moment,) in found] == [first, later]
