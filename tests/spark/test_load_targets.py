"""A load meets what the target has already: rows, tables of another structure, those of another source."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.target_tables import TargetTables
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, endpoint, rows
from tests.spark.test_load import KEYED
from tests.testbed.fixtures import SchemaFactory, ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mariadb")]


def test_two_sources_fill_one_table(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, full_load: LoadFactory
) -> None:
    one = full_load(upstreams[0], target, *KEYED, "CREATE TABLE z (v INT)", "INSERT INTO z VALUES (1)")
    two = FullLoad(upstreams[1], target, one.schema, one.directory.with_name("two"), one.spark, "source-2", one.schema)
    upstreams[1].execute(
        f"CREATE DATABASE `{one.schema}`",
        f"USE `{one.schema}`",
        KEYED[0],
        "INSERT INTO keyed VALUES (100, 1), (4, 40)",
        "CREATE TABLE z (v INT)",
        "INSERT INTO z VALUES (1)",
    )
    try:
        for load in (one, two):
            load.dump()
            load.load()
    finally:
        upstreams[1].execute(f"DROP DATABASE `{one.schema}`")
    query = f"SELECT id, v FROM `{one.target_schema}`.keyed ORDER BY id"
    assert rows(target, query) == [(1, 1), (2, 2), (3, 3), (4, 40), (100, 1)]
    assert rows(target, f"SELECT v FROM `{one.target_schema}`.z") == [(1,), (1,)]


@pytest.mark.ci_sample(2)
@pytest.mark.parametrize("form", ["parquet", "sql"])
@pytest.mark.parametrize(("mode", "value", "replaced", "ignored"), [("replace", 1, "1", "0"), ("ignore", 77, "0", "1")])
def test_rows_that_are_there_already(
    form: str, mode: str, value: int, replaced: str, ignored: str, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, on_duplicate=mode, dump_format=form)
    load.dump()
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"USE `{load.target_schema}`",
        "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, changed TIMESTAMP DEFAULT 0 ON UPDATE CURRENT_TIMESTAMP)",
        "INSERT INTO keyed (id, v) VALUES (1, 77)",
    )
    status = load.load().status()
    assert (status["replacedRows"], status["ignoredRows"]) == (replaced, ignored)
    assert rows(mariadb, f"SELECT v, changed = 0 FROM `{load.target_schema}`.keyed WHERE id = 1") == [(value, 1)]
    assert rows(mariadb, f"SELECT COUNT(*) FROM `{load.target_schema}`.keyed") == [(4,)]


def test_a_key_of_two_tables_that_are_merged_is_an_error_that_names_both(
    mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    nullable = "CREATE TABLE maybe (v INT, UNIQUE KEY only_once (v))"
    load = full_load(
        mariadb, mariadb, *KEYED, nullable, "INSERT INTO maybe VALUES (1), (NULL), (NULL)", consistency="flush"
    )
    load.settings["on_duplicate"] = "error"
    load.dump()
    load.load()
    assert load.report().identical
    second = FullLoad(
        mariadb, mariadb, load.schema, load.directory.with_name("second"), load.spark, "source-2", load.schema
    )
    second.settings = load.settings
    mariadb.execute(f"DELETE FROM `{load.schema}`.keyed WHERE id < 4", f"DELETE FROM `{load.schema}`.maybe")
    second.dump()
    with pytest.raises(DMError) as caught:
        second.load()
    assert caught.value.name == "load-duplicate"
    assert not caught.value.retryable
    table = TableName(load.schema, "keyed")
    assert f"a row of {table} of source-2" in caught.value.message
    assert f"{table} of source-1" in caught.value.message
    assert caught.value.cause.startswith(("Duplicate entry", "1062 "))
    assert "'4' for key 'PRIMARY'" in caught.value.cause
    mariadb.execute(f"DELETE FROM `{load.schema}`.keyed", f"INSERT INTO `{load.schema}`.maybe VALUES (1), (2)")
    third = FullLoad(
        mariadb, mariadb, load.schema, load.directory.with_name("third"), load.spark, "source-3", load.schema
    )
    third.settings = load.settings | {"on_duplicate": "replace"}
    third.dump()
    status = third.load().status()
    assert status["replacedRows"] == "0"  # the same row
    assert rows(mariadb, f"SELECT COUNT(*), COUNT(v) FROM `{load.target_schema}`.maybe") == [(4, 2)]


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(("strict", "collation"), [(True, "utf8mb4_general_ci"), (False, "utf8mb4_0900_ai_ci")])
def test_a_table_of_an_older_server_keeps_its_collation_if_that_is_asked_for(
    strict: bool, collation: str, mysql: ThrowawayServer, schema: SchemaFactory
) -> None:
    """As MySQL 5.7 shows it, a table of the character set's default collation does not name it."""
    name = schema(mysql)
    older = SourceContext("mysql", 50744, name)
    text = "CREATE TABLE `t` (\n  `v` varchar(9) DEFAULT NULL\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    with TargetConnection(endpoint(mysql)) as connection:
        targets = TargetTables.at(connection, strict_collations=strict)
        targets.create(text, parse_create_table(text, older), older, lambda table: table)
    query = f"SELECT table_collation FROM information_schema.tables WHERE table_schema = '{name}'"
    assert rows(mysql, query) == [(collation,)]


@pytest.mark.parametrize("server", ["mysql", "mariadb"])
def test_a_schema_of_an_older_server_keeps_its_collation_under_the_new_name(
    server: str, mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    """Before MySQL 8.0.30 and MariaDB 10.6 it is called utf8_unicode_ci."""
    at: ThrowawayServer = {"mysql": mysql, "mariadb": mariadb}[server]
    name = schema(at)
    at.execute(f"DROP DATABASE `{name}`")
    with TargetConnection(endpoint(at)) as connection:
        source = SourceContext(at.flavor, 50744 if server == "mysql" else 100500, name)
        TargetTables.at(connection).create_schemas({name: ("utf8", "utf8_unicode_ci")}, source)
    query = "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name"
    assert rows(at, f"{query} = '{name}'") == [("utf8mb3_unicode_ci",)]


def test_a_schema_has_the_collation_that_stands_for_the_source_s(
    mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mariadb)
    mariadb.execute(f"DROP DATABASE `{name}`")
    with TargetConnection(endpoint(mariadb)) as connection:
        source = SourceContext("mysql", 90704, name)
        TargetTables.at(connection).create_schemas({name: ("utf8mb4", "utf8mb4_0900_as_cs")}, source)
    query = "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name"
    assert rows(mariadb, f"{query} = '{name}'") == [("utf8mb4_uca1400_nopad_as_cs",)]


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("id INT PRIMARY KEY", "it has no column v"),
        ("id INT PRIMARY KEY, v BIGINT", "column v is bigint"),
        ("id INT PRIMARY KEY, v INT NOT NULL", "column v is NOT NULL there"),
        ("id INT PRIMARY KEY, v INT AS (1)", "column v is generated there"),
        ("id INT PRIMARY KEY, v INT, w INT NOT NULL", "its column w demands a value"),
        ("id INT PRIMARY KEY, v INT, made INT", "column made is generated at the source only"),
    ],
)
def test_a_table_that_rows_do_not_fit_into_is_refused(
    definition: str, why: str, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, "ALTER TABLE keyed ADD made INT AS (v + 1)")
    load.dump()
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`", f"CREATE TABLE `{load.target_schema}`.keyed ({definition})"
    )
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-table-differs"
    assert why in caught.value.message


def test_a_target_table_with_columns_and_indexes_of_its_own_is_used(
    mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED)
    load.dump()
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"CREATE TABLE `{load.target_schema}`.keyed (n BIGINT AUTO_INCREMENT UNIQUE, v INT(5), w INT DEFAULT 9,"
        " id INT PRIMARY KEY, KEY (v))",
    )
    load.load()
    query = f"SELECT id, v, w FROM `{load.target_schema}`.keyed ORDER BY id"
    assert rows(mariadb, query) == [(1, 1, 9), (2, 2, 9), (3, 3, 9), (4, 4, 9)]


def test_rows_of_several_moments_need_a_key_at_the_target(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    """The dump has seen no table there; in a merge another source's table without a key may have made it meanwhile."""
    load = full_load(mariadb, mariadb, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    load.dump()
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`", f"CREATE TABLE `{load.target_schema}`.t (id INT NOT NULL, v INT)"
    )
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-key-missing"
    assert rows(mariadb, f"SELECT * FROM `{load.target_schema}`.t") == []
    mariadb.execute(f"ALTER TABLE `{load.target_schema}`.t ADD PRIMARY KEY (id)")
    load.load()
    assert load.report().identical


@pytest.mark.chaos
def test_tables_that_would_be_one_at_the_target_are_not_loaded(
    mariadb: ThrowawayServer, server: ServerFactory, full_load: LoadFactory
) -> None:
    target = server("mariadb", lower_case_table_names=1)
    load = full_load(mariadb, target, *(text.replace("keyed", name) for name in ("T", "t") for text in KEYED))
    load.dump()
    with pytest.raises(DMError) as refused:
        load.load()
    assert refused.value.name == "target-names-alike"


@pytest.mark.parametrize(
    ("form", "files", "on_duplicate"),
    [
        ("parquet", "all", "replace"),
        ("parquet", "all", "ignore"),
        ("sql", "all", "replace"),
        ("parquet", "none", "replace"),
    ],
)
def test_columns_of_optimistic_shards_may_be_wider_at_the_target(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, form: str, files: str, on_duplicate: str
) -> None:
    """Another shard is further on: its characters are more, its bits and its members."""
    narrow = (
        "id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET ascii, u VARCHAR(20) CHARACTER SET utf8mb3,"
        " x TEXT CHARACTER SET utf8mb3, e ENUM('\u00e4', 'b') CHARACTER SET utf8mb3, b BIT(1), c BIT(9)"
    )
    wide = (
        "id INT PRIMARY KEY, a VARCHAR(30) CHARACTER SET utf8mb4, u VARCHAR(20) CHARACTER SET utf8mb4,"
        " x LONGTEXT CHARACTER SET utf8mb4, e ENUM('\u00e4', 'b', 'c') CHARACTER SET utf8mb4, b BIT(8), c BIT(17)"
    )
    load = full_load(
        upstream,
        target,
        f"CREATE TABLE t ({narrow})",
        "INSERT INTO t VALUES (1, 'plain', '\u20ac\u00e4', '\u65e5\u672c', '\u00e4', b'1', b'100000001'),"
        " (2, '', '', '', 'b', b'0', b'1'), (3, NULL, NULL, NULL, NULL, NULL, NULL)",
        shard_mode="optimistic",
        dump_format=form,
        dump_files=files,
        on_duplicate=on_duplicate,
    )
    target.execute(
        f"CREATE DATABASE `{load.target_schema}` CHARACTER SET utf8mb4",
        f"CREATE TABLE `{load.target_schema}`.t ({wide})",
    )
    load.dump()
    load.load()
    values = "SELECT id, HEX(a), HEX(u), HEX(x), HEX(e), e + 0, b + 0, c + 0 FROM `{}`.t ORDER BY id"
    there = rows(target, values.format(load.target_schema))
    assert there == rows(upstream, values.format(load.schema))
    assert there[0][1:] == ("706C61696E", "E282ACC3A4", "E697A5E69CAC", "C3A4", 1.0, 1, 257)
