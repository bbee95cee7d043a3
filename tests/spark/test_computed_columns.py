"""Columns that the target computes: what they lose of their expressions is no change of a row that was sent."""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Iterator
from contextlib import closing

import pyarrow
import pytest
from pydantic import SecretStr

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.literals import STRICT_MODE
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.part_writer import PartWriter
from dm.loader.tally import MOST_WARNINGS, Tally
from dm.mysql.schema.table import Column
from dm.progress.load_parts import LoadRun
from dm.progress.tables import SubtaskKey
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import endpoint, rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.zones import SUMMER, globally, know_summer

pytestmark = [pytest.mark.live, pytest.mark.spark]

PRICES = (
    "CREATE TABLE prices (id INT PRIMARY KEY, price DECIMAL(10,2), e ENUM('a', 'b') NOT NULL,"
    " tax DECIMAL(10,2) AS (price * 0.19) STORED, third DECIMAL(10,2) AS (price / 3) VIRTUAL, KEY (third))"
)
COUNT = 1500  # more than a server shows warnings of, unless it is told


def filled() -> tuple[str, ...]:
    rows = ", ".join(f"({number}, {number}.{number % 100:02d}, 'a')" for number in range(COUNT))
    wrong = "SET sql_mode = ''", "INSERT INTO prices (id, price, e) VALUES (-1, 0.05, 'nothing'), (-2, 0.06, 'a')"
    return PRICES, f"INSERT INTO prices (id, price, e) VALUES {rows}", *wrong


@pytest.fixture(params=["LOAD DATA", "INSERT"])
def way(request: pytest.FixtureRequest, target: ThrowawayServer) -> Iterator[str]:
    ((before,),) = target.query("SELECT @@GLOBAL.local_infile")
    target.execute(f"SET GLOBAL local_infile = {int(request.param == 'LOAD DATA')}")
    yield str(request.param)
    target.execute(f"SET GLOBAL local_infile = {before}")


@pytest.mark.ci_flavor("mysql")
def test_digits_that_the_target_computes_away_are_no_changed_values(
    way: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *filled())
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, (way, str(report))


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("files", ["ours", "of another program"])
def test_they_are_none_in_sql_files_either(
    files: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    ours = files == "ours"
    load = full_load(upstream, target, *filled()[: 4 if ours else 2], dump_format="sql", mode="all" if ours else "load")
    if ours:
        load.dump()
    else:
        load.directory.mkdir()
        ((made,),) = [row[1:] for row in upstream.query(f"SHOW CREATE TABLE {load.schema}.prices")]
        rows = ", ".join(f"({number}, {number}.{number % 100:02d}, 'a')" for number in range(COUNT))
        (load.directory / f"{load.schema}-schema-create.sql.gz").write_bytes(
            gzip.compress(f"CREATE DATABASE `{load.schema}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n".encode())
        )
        (load.directory / f"{load.schema}.prices-schema.sql.gz").write_bytes(gzip.compress(f"{made};\n".encode()))
        (load.directory / f"{load.schema}.prices.sql.gz").write_bytes(
            gzip.compress(f"INSERT INTO `prices` (`id`, `price`, `e`) VALUES {rows};\n".encode())
        )
        (load.directory / "metadata").write_text(
            "Started dump at: 2026-11-21 10:00:00\nSHOW MASTER STATUS:\n\tLog: binlog.000001\n\tPos: 99\n\tGTID:\n\n"
            "Finished dump at: 2026-11-21 10:00:01\n"
        )
    load.load()
    report = load.report()
    assert report.identical, str(report)


class Lone:
    """The prices' table alone, and a session that loads it."""

    def __init__(self, target: ThrowawayServer, schema: str) -> None:
        target.execute(f"USE {schema}", PRICES)
        self.target = target
        self.table = TableName(schema, "prices")
        columns = Column("id", "int"), Column("price", "decimal", 10, 2), Column("e", "enum", members=("a", "b"))
        self.destination = Destination(self.table, columns, unique=True, local_data=True, computed=("tax", "third"))
        self.run = LoadRun(SubtaskKey(f"meta_{schema}", "t", "s"), "dump", 1)

    def tally(self, connection: TargetConnection) -> Tally:
        connection.execute(f"SET SESSION sql_mode = '{STRICT_MODE}'")
        into = self.destination
        loaded = tuple(column.name for column in into.columns)
        return Tally(
            connection, self.run, self.table, self.table, True, "replace", loaded=loaded, computed=into.computed
        )


@pytest.fixture
def lone(target: ThrowawayServer, schema: SchemaFactory) -> Lone:
    return Lone(target, schema(target))


def test_a_note_about_a_value_that_was_sent_counts(lone: Lone) -> None:
    with closing(TargetConnection(endpoint(lone.target))) as connection:
        tally = lone.tally(connection)
        head = f"INSERT INTO {lone.table.sql} (id, price, e) VALUES ".encode()
        tally.insert(head + b"(1, 1.01, 'a'), (2, 2.01, 'b')", 2)
        with pytest.raises(DMError) as caught:
            tally.insert(head + b"(3, 1.01, 'a'), (4, 1.005, 'a')", 2)
    assert caught.value.name == "load-values-changed"
    assert "'price'" in (caught.value.cause or "")


def test_an_account_that_may_keep_few_notes_only_loads_in_shorter_statements(way: str, lone: Lone) -> None:
    name = f"few_{secrets.token_hex(4)}"
    lone.target.create_user(name, "canary-0a77", f"SELECT, INSERT, DELETE ON `{lone.table.schema}`.*")
    few = endpoint(lone.target).model_copy(update={"user": name, "password": SecretStr("canary-0a77")})
    columns = {"id": range(COUNT), "price": ["1.01"] * COUNT, "e": "a" * COUNT}
    arrays = [pyarrow.array([str(one).encode() for one in values], pyarrow.binary()) for values in columns.values()]
    batch = pyarrow.record_batch(arrays, names=list(columns))
    with closing(TargetConnection(few, local_data=True)) as connection:
        connection.begin()
        writer = PartWriter(connection, lone.run, "replace", lone.table, lone.destination, few)
        tally = writer.write(lambda names: [batch.select(list(names))], typed=False)
        connection.commit()
        limit = int(connection.query("SELECT @@max_error_count")[0][0])
    assert (way, tally.rows, limit) == (way, COUNT, 1024 if lone.target.flavor == "mysql" else MOST_WARNINGS)


@pytest.mark.ci_flavor("mysql")
def test_more_rows_than_a_server_counts_notes(way: str, lone: Lone) -> None:
    """Each note is seen, however many rows a part has."""
    count = MOST_WARNINGS + 10
    numbers = pyarrow.array([str(number).encode() for number in range(count)], pyarrow.binary())
    prices = pyarrow.array([b"1.01"] * count, pyarrow.binary())
    letters = pyarrow.array([b"a"] * count, pyarrow.binary())
    batch = pyarrow.record_batch([numbers, prices, letters], names=["id", "price", "e"])
    with closing(TargetConnection(endpoint(lone.target), local_data=True)) as connection:
        connection.begin()
        writer = PartWriter(connection, lone.run, "replace", lone.table, lone.destination, endpoint(lone.target))
        tally = writer.write(lambda names: [batch.select(list(names))], typed=False)
        connection.commit()
    assert (way, tally.rows) == (way, count)
    found = lone.target.query(f"SELECT COUNT(*), MIN(tax), MAX(third) FROM {lone.table.sql}")
    assert [tuple(map(str, row)) for row in found] == [(str(count), "0.19", "0.34")]


@pytest.fixture
def contrary(upstream: ThrowawayServer, target: ThrowawayServer) -> Iterator[None]:
    """The source's sessions are in a zone with summers and compute by modes of their own, the target's don't."""
    for server in (upstream, target):
        know_summer(server)
    settings = {
        "time_zone": f"'{SUMMER}'",
        "sql_mode": "'STRICT_TRANS_TABLES,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
        "div_precision_increment": "7",
    }
    with globally(upstream, **settings), globally(target, time_zone="'-05:00'"):
        yield


@pytest.mark.usefixtures("contrary")
@pytest.mark.parametrize("files", ["none", "all"])
def test_a_load_computes_as_the_source_does(
    files: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    """A unique key over the date: in UTC two rows would have one, and one would replace the other."""
    mysql = upstream.flavor == "mysql"
    others = ", m BIGINT AS (a - b) STORED, l INT AS (LENGTH(c)) STORED" if mysql else ", CHECK (a - b < 5)"
    load = full_load(
        upstream,
        target,
        "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP(3) NULL, a INT UNSIGNED, b INT UNSIGNED, c CHAR(5) COLLATE"
        " utf8mb4_general_ci, d DATE AS (DATE(ts)) VIRTUAL, UNIQUE KEY (d),"
        f" h VARCHAR(40) AS (CONCAT(ts)) STORED{others})",
        "INSERT INTO t (id, ts, a, b, c) VALUES (1, '2020-07-01 23:30:00', 1, 3, 'ab'),"
        " (2, '2020-07-02 00:30:00.5', 1, 7, 'b'), (3, NULL, 1, 1, 'c'), (4, '2020-12-02 00:30:00', 0, 1, NULL)",
        dump_files=files,
    )
    load.dump()
    load.load()
    columns = f"id, UNIX_TIMESTAMP(ts), h{', m, l' if mysql else ''}"
    found = rows(target, f"SELECT {columns} FROM `{load.target_schema}`.t ORDER BY id")
    assert found == rows(upstream, f"SELECT {columns} FROM `{load.schema}`.t ORDER BY id")
    assert len(found) == 4


@pytest.mark.usefixtures("contrary")
@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(("key", "form"), [("PRIMARY KEY", "none"), ("", "all"), ("PRIMARY KEY", "sql")])
def test_a_load_takes_no_row_whose_stored_values_are_of_another_zone(
    key: str, form: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(
        upstream,
        target,
        f"CREATE TABLE t (id INT {key}, ts TIMESTAMP NULL, h VARCHAR(40) AS (CONCAT(ts)) STORED)",
        "INSERT INTO t (id, ts) VALUES (1, '2020-07-01 23:30:00'), (2, '2020-07-01 12:30:00'), (3, NULL)",
        "SET SESSION time_zone = '+09:00'",
        "INSERT INTO t (id, ts) VALUES (4, '2020-07-02 07:00:00')",
        rows=2,
        dump_files="all" if form == "sql" else form,
        dump_format="sql" if form == "sql" else "parquet",
    )
    with pytest.raises(DMError) as caught:
        load.dump()
    assert (caught.value.name, caught.value.retryable) == ("dump-computed-otherwise", False)
    assert all(part in caught.value.message for part in (f"{load.schema}.t", SUMMER, "h = '2020-07-02 07:00:00'"))
    # The way out that it names.
    upstream.execute(f"SET SESSION time_zone = '{SUMMER}'", f"ALTER TABLE `{load.schema}`.t FORCE, ALGORITHM=COPY")
    load.dump()
    if form != "sql":
        load.load()
        columns = "id, UNIX_TIMESTAMP(ts), h"
        found = rows(target, f"SELECT {columns} FROM `{load.target_schema}`.t ORDER BY id")
        assert found == rows(upstream, f"SELECT {columns} FROM `{load.schema}`.t ORDER BY id")
        assert len(found) == 4


@pytest.mark.usefixtures("contrary")
@pytest.mark.ci_flavor("mysql")
def test_sql_files_do_not_tell_moments_to_a_session_of_the_sources_zone(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    table = "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL, h INT AS (HOUR(ts)) STORED)"
    load = full_load(upstream, target, table, "INSERT INTO t (id) VALUES (1)", dump_format="sql")
    load.dump()
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "expression-zone-in-files"


@pytest.mark.parametrize("dump_format", ["parquet", "sql"])
def test_a_load_writes_by_the_sql_mode_of_the_task(
    dump_format: str, mysql: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(
        mysql,
        mysql,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT UNSIGNED, b INT UNSIGNED, m BIGINT AS (a - b) VIRTUAL, KEY (m))",
        "SET SESSION sql_mode = 'NO_UNSIGNED_SUBTRACTION'",
        "INSERT INTO t (id, a, b) VALUES (1, 1, 2)",
        dump_format=dump_format,
    )
    load.dump()
    with pytest.raises(DMError) as caught:
        load.load()
    assert (caught.value.name, caught.value.server_errno) == ("row-expression-failed", 1690)
    # The way out that it names.
    load.settings["session"] = {"sql_mode": "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_UNSIGNED_SUBTRACTION"}
    mysql.execute(f"FLUSH TABLES `{load.target_schema}`.t")
    load.load()
    assert rows(mysql, f"SELECT id, a, b FROM `{load.target_schema}`.t") == [(1, 1, 2)]


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_literals_of_other_character_sets_compute_what_they_do_at_the_source(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    """MySQL prints them so that a session of utf8mb4 gets a `?`, or another character (mydumper#1974)."""
    made = "CREATE TABLE {} (id INT PRIMARY KEY, o VARCHAR(9), v VARCHAR(20) AS (CONCAT(o, 'é')), s VARCHAR(20)"
    made += " AS (CONCAT(o, 'Ã©\\'?')) STORED, CHECK (o <> 'ü')) CHARSET {}"
    load = full_load(
        upstream,
        target,
        *("SET NAMES utf8mb4", made.format("western", "latin1"), made.format("chinese", "gbk").replace("Ã©", "中")),
        made.format("wide", "utf8mb4").replace("Ã©", "😀").replace("ü", "w"),
        *(f"INSERT INTO {table} (id, o) VALUES (1, 'u'), (2, NULL)" for table in ("western", "chinese", "wide")),
        *("CREATE INDEX computed ON western (v)", "CREATE INDEX computed ON wide (s)"),
        defer_indexes=True,
    )
    load.dump()
    load.load()
    computed = "SELECT id, HEX(v), HEX(s) FROM `{}`.{} ORDER BY id"
    for table in ("western", "chinese", "wide"):
        there, here = (
            server.query(computed.format(name, table))
            for server, name in ((upstream, load.schema), (target, load.target_schema))
        )
        assert there == here
    report = load.report()
    assert report.identical, str(report)
