"""Keys that look like any other and can't be walked like any other; asked of the servers."""

from __future__ import annotations

from contextlib import closing
from itertools import count

import pytest

from dm.demo.servers import ThrowawayServer
from dm.dumpfiles.chunk_plan import KeyWalk, WalkResult, find_bounds
from dm.errors import DMError
from dm.ident import TableName
from dm.sourcelog.upstream.facts import question_session, row_session
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import endpoint, rows
from tests.spark.key_walks import chunk_sizes, key_of
from tests.spark.test_fidelity import LENIENT
from tests.testbed.fixtures import SchemaFactory

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql")]

NUMBERED = "n INT NOT NULL AUTO_INCREMENT, KEY (n)"
MOST_STEPS = 1000


def cut(server: ThrowawayServer, table: TableName, size: int) -> tuple[WalkResult, list[int]]:
    """Walk the table's key; also how many rows are in each chunk."""
    with closing(question_session(endpoint(server))) as questions, closing(row_session(endpoint(server))) as reader:
        key = key_of(questions, table)
        assert key is not None
        steps = count()
        result = find_bounds(reader, KeyWalk(table, key, size), lambda: next(steps) == MOST_STEPS)
        assert next(steps) < MOST_STEPS, "the walk does not end"
        assert result.bounds is not None
        return result, chunk_sizes(reader, table, key, result.bounds)


@pytest.mark.parametrize(
    "kind",
    ["DOUBLE(20,2)", "DOUBLE(30,15)", "REAL(12,1)", "FLOAT(10,2)", "FLOAT(20,8)", "DOUBLE", "FLOAT", "DOUBLE ZEROFILL"],
)
def test_bounds_are_exact_whatever_decimals_a_column_shows(
    kind: str, upstream: ThrowawayServer, schema: SchemaFactory
) -> None:
    table = TableName(schema(upstream), "t")
    prices = ["-0.0", "-1.36", "-0.1", "0.7", "1234567.8"]  # -1.36 is -2 + 0.64 in a DOUBLE(20,2)
    values = ", ".join(f"({price}e0, {order})" for price in prices for order in range(7))
    upstream.execute(
        LENIENT,
        f"CREATE TABLE {table.sql} (price {kind} NOT NULL, k INT NOT NULL, {NUMBERED}, PRIMARY KEY (price, k))",
        f"INSERT IGNORE INTO {table.sql} (price, k) VALUES {values}",
    )
    ((stored,),) = rows(upstream, f"SELECT COUNT(*) FROM {table.sql}")
    result, sizes = cut(upstream, table, 2)
    assert result.counted
    assert sizes == [2] * (stored // 2) + [stored % 2]


def test_a_table_whose_walk_does_not_get_on_is_one_chunk(
    flavor: str, upstream: ThrowawayServer, schema: SchemaFactory
) -> None:
    table = TableName(schema(upstream), "t")
    # As a FLOAT the least value of the type is less than the type allows; MySQL takes it to be beyond itself.
    upstream.execute(
        LENIENT,
        f"CREATE TABLE {table.sql} (k FLOAT(10,2) NOT NULL PRIMARY KEY, {NUMBERED})",
        f"INSERT IGNORE INTO {table.sql} (k) VALUES (-1e9), (-2), (3), (1e9)",
    )
    result, sizes = cut(upstream, table, 1)
    assert (result.counted, sizes) == ((False, [4]) if flavor == "mysql" else (True, [1, 1, 1, 1, 0]))


@pytest.mark.parametrize("consistency", ["none", "flush"])
@pytest.mark.parametrize("unwalked", ["", "keyless", "streamed"])
def test_a_condition_that_a_table_lacks_a_column_for_is_told_in_the_servers_words(
    consistency: str, unwalked: str, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    key = "" if unwalked == "keyless" else "PRIMARY KEY"
    files = "none" if unwalked == "streamed" and consistency == "none" else "all"
    load = full_load(
        mariadb,
        mariadb,
        f"CREATE TABLE t (id INT NOT NULL {key}, v INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "CREATE TABLE other (id INT PRIMARY KEY, w INT)",
        where="w > 1",
        consistency=consistency,
        dump_files=files,
        rows=1,
    )
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-where-refused"
    assert caught.value.cause.startswith("1054: ")
    assert f"{load.schema}.t" in caught.value.message
    assert "`where: w > 1`" in caught.value.message


@pytest.mark.parametrize(
    ("where", "error"), [("id >", "1064: "), ("SUM(id) > 1", "1111: "), ("id > nothing()", "1305: ")]
)
def test_a_condition_that_is_none_is_told_in_the_servers_words(
    where: str, error: str, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", where=where)
    with pytest.raises(DMError) as caught:
        load.dump()
    assert (caught.value.name, caught.value.cause[:6]) == ("dump-where-refused", error)


def test_a_key_that_no_statement_may_name_is_passed_over(
    flavor: str, upstream: ThrowawayServer, full_load: LoadFactory
) -> None:
    hidden = "INVISIBLE" if flavor == "mysql" else "IGNORED"
    columns = "e ENUM('x', 'y') NOT NULL, id INT NOT NULL, v INT NOT NULL, PRIMARY KEY (e, id)"
    load = full_load(
        upstream,
        upstream,
        f"CREATE TABLE t ({columns}, UNIQUE KEY u (id) COMMENT 'VISIBLE' {hidden})",
        f"CREATE TABLE w ({columns}, UNIQUE KEY u (id) {hidden}, UNIQUE KEY v (v) COMMENT '{hidden}')",
        *(f"INSERT INTO {table} VALUES ('x', 1, 5), ('y', 2, 6), ('x', 3, 7)" for table in "tw"),
        rows=1,
    )
    plan = load.dump()
    assert {table.name.table: table.chunks > 1 for table in plan.tables} == {"t": False, "w": True}
    assert not any(table.keyless for table in plan.tables), "it still is a row's identity"
    load.load()
    assert load.report().identical


@pytest.mark.parametrize(
    ("flavor_of", "engine", "collation"),
    [
        ("mariadb", "Aria", "ucs2_uca1400_spanish2_as_cs"),
        ("mariadb", "Aria", "utf8mb4_uca1400_ai_ci"),
        ("mariadb", "Aria", "utf32_thai_520_w2"),
        ("mysql", "MEMORY", "utf8mb4_tr_0900_ai_ci"),
    ],
)
@pytest.mark.ci_flavor("mysql", "mariadb")  # engines that only one of them has
def test_characters_that_an_engine_sorts_otherwise_than_it_compares_are_not_walked(
    flavor_of: str, engine: str, collation: str, mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    server = mysql if flavor_of == "mysql" else mariadb
    name = schema(server)
    for kind, of, walked in (("CHAR", engine, False), ("VARCHAR", engine, True), ("CHAR", "InnoDB", True)):
        table = TableName(name, f"{kind}_{of}".lower())
        charset = collation.partition("_")[0]
        server.execute(
            f"CREATE TABLE {table.sql} (k {kind}(8) CHARACTER SET {charset} COLLATE {collation} NOT NULL,"
            f" PRIMARY KEY USING BTREE (k)) ENGINE={of}"
        )
        with closing(question_session(endpoint(server))) as questions:
            assert (key_of(questions, table) is not None) is walked, table.table
