"""Servers that give tables without a key one of their own (`my_row_id`), and those that hide it."""

from __future__ import annotations

from contextlib import closing

import pytest
from pydantic import SecretStr

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.sourcelog.upstream.connection import connect, fetch
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, endpoint, rows
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import running_sync

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(300)]

TABLES = (
    "CREATE TABLE keyless (a INT, t VARCHAR(9))",
    "INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (2, 'y'), (NULL, NULL)",
    "CREATE TABLE keyed (id INT PRIMARY KEY, v INT)",
    "INSERT INTO keyed VALUES (1, 1), (2, 2)",
)
CHANGES = (
    "INSERT INTO keyless VALUES (2, 'y'), (3, 'z')",
    "UPDATE keyless SET t = 'w' WHERE a = 1 LIMIT 1",
    "DELETE FROM keyless WHERE a = 2 LIMIT 1",
    "CREATE TABLE later (a INT)",
    "INSERT INTO later VALUES (1), (1), (2)",
    "DELETE FROM later WHERE a = 1 LIMIT 1",
    "ALTER TABLE keyless ADD COLUMN n INT DEFAULT 4, MODIFY t VARCHAR(20)",
    "INSERT INTO keyless VALUES (9, 'n', 9)",
)
HIDDEN = "show_gipk_in_create_table_and_information_schema"


def everything_comes(load: FullLoad) -> None:
    load.dump()
    load.load()
    load.upstream.execute(f"USE `{load.schema}`", *CHANGES)
    with running_sync(load.subtask(), work_directory=load.directory.with_name("sync")) as sync:
        sync.wait_synced()
    for table, columns in (("keyless", "a, t, n"), ("keyed", "id, v"), ("later", "a")):
        found, there = (
            rows(server, f"SELECT {columns} FROM `{schema}`.{table} ORDER BY {columns}")
            for server, schema in ((load.target, load.target_schema), (load.upstream, load.schema))
        )
        assert found == there, table


@pytest.mark.parametrize("dump_files", ["all", "none"])
def test_a_target_that_makes_keys_of_its_own(
    server: ServerFactory, mysql: ThrowawayServer, full_load: LoadFactory, dump_files: str
) -> None:
    options = {HIDDEN: False}
    target = server("mysql", sql_generate_invisible_primary_key=True, **options)
    everything_comes(full_load(mysql, target, *TABLES, dump_files=dump_files))


@pytest.mark.parametrize("consistency", ["flush", pytest.param("none", marks=pytest.mark.chaos)])
def test_a_source_that_hides_keys_of_its_own(server: ServerFactory, full_load: LoadFactory, consistency: str) -> None:
    options = {HIDDEN: False}
    source = server("mysql", sql_generate_invisible_primary_key=True, **options)
    everything_comes(full_load(source, server("mysql", **options), *TABLES, consistency=consistency))


def test_anybody_may_have_them_shown(server: ServerFactory) -> None:
    source = server("mysql", **{HIDDEN: False})
    source.execute("CREATE USER nobody IDENTIFIED BY 'x'")
    nobody = endpoint(source).model_copy(update={"user": "nobody", "password": SecretStr("x")})
    with closing(connect(nobody)) as session, TargetConnection(nobody) as target:
        assert fetch(session, f"SELECT @@{HIDDEN}")[0] == (1,)
        assert target.query(f"SELECT @@{HIDDEN}")[0] == (1,)
