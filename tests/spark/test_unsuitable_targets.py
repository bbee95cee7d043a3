"""Targets that rows can't be committed to together with the record of them."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import rows
from tests.testbed.fixtures import ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.spark]


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("where", ["to be made", "there"])
def test_tables_without_transactions_are_refused(
    where: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    engine = "MyISAM" if where == "to be made" else "InnoDB"
    load = full_load(
        upstream,
        target,
        f"CREATE TABLE t (id INT PRIMARY KEY) ENGINE={engine}",
        "INSERT INTO t VALUES (1), (2)",
        engine_map={"MyISAM": "MyISAM"},
    )
    load.dump()
    table = f"`{load.target_schema}`.t"
    if where == "there":
        target.execute(
            f"CREATE DATABASE `{load.target_schema}`", f"CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE=MEMORY"
        )
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-table-unsuitable"
    made = rows(target, f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{load.target_schema}'")
    assert len(made) == (where == "there")
    target.execute(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE=InnoDB")
    load.load()
    assert rows(target, f"SELECT id FROM {table} ORDER BY id") == [(1,), (2,)]


def test_a_view_where_a_table_should_be_is_refused(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    load.dump()
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`", f"CREATE VIEW `{load.target_schema}`.t AS SELECT 1 AS id"
    )
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-table-unsuitable"


DEMAND = {"mysql": "sql_require_primary_key", "mariadb": "innodb_force_primary_key"}


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("dump_files", ["all", "none"])
def test_a_target_that_demands_keys_is_told_before_any_row_comes(
    dump_files: str, flavor: Flavor, upstream: ThrowawayServer, server: ServerFactory, full_load: LoadFactory
) -> None:
    target = server(flavor, **{DEMAND[flavor]: True})
    load = full_load(
        upstream,
        target,
        "CREATE TABLE keyed (id INT PRIMARY KEY)",
        "INSERT INTO keyed VALUES (1)",
        "CREATE TABLE plain (id INT)",
        "INSERT INTO plain VALUES (1), (1)",
        dump_files=dump_files,
    )
    if dump_files == "all":
        load.dump()
    with pytest.raises(DMError) as caught:
        load.load() if dump_files == "all" else load.dump()
    assert caught.value.name == "load-key-demanded"
    assert str(TableName(load.schema, "plain")) in caught.value.message
    filled = f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{load.target_schema}'"
    for (name,) in rows(target, filled):
        assert rows(target, f"SELECT * FROM `{load.target_schema}`.{name}") == []
    key = "dm_row BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY INVISIBLE"
    assert key in caught.value.workaround
    target.execute(f"CREATE DATABASE IF NOT EXISTS `{load.target_schema}`")
    target.execute(f"CREATE TABLE `{load.target_schema}`.plain (id INT, {key})")
    load.dump()
    load.load()
    assert rows(target, f"SELECT id FROM `{load.target_schema}`.plain") == [(1,), (1,)]
