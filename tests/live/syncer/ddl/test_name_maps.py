"""`collation-map` and `engine-map` in replicated DDL: the target gets the right-hand names, and rows are the same."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live

MAPS = {"collation_map": {"utf8mb4_0900_ai_ci": "utf8mb4_unicode_520_ci"}, "engine_map": {"MyISAM": "InnoDB"}}


def test_ddl_gets_the_names_of_the_maps(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, mariadb)
    subtask = subtask_for(mysql, mariadb, name, task=name).model_copy(update=MAPS)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for statement in (
            "CREATE TABLE {s}.silent (id INT PRIMARY KEY, t CHAR(9)) ENGINE = MyISAM",
            "CREATE TABLE {s}.said (id INT PRIMARY KEY, t CHAR(9) CHARSET utf8mb4) COLLATE utf8mb4_0900_ai_ci",
            "ALTER TABLE {s}.silent ADD u CHAR(9) COLLATE utf8mb4_0900_ai_ci, ADD UNIQUE KEY by_u (u)",
            "INSERT INTO {s}.silent VALUES (1, 'ä', 'ö'), (2, 'A', 'b')",
            "UPDATE {s}.silent SET u = 'B' WHERE id = 2",
            "INSERT INTO {s}.said VALUES (1, 'ß')",
        ):
            mysql.execute(statement.format(s=name))
        sync.wait_synced()
    collations = mariadb.query(
        "SELECT DISTINCT COLLATION_NAME FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA = '{name}' AND COLLATION_NAME IS NOT NULL"
    )
    assert collations == (("utf8mb4_unicode_520_ci",),)
    engines = f"SELECT DISTINCT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{name}'"
    assert mariadb.query(engines) == (("InnoDB",),)
    assert mariadb.query(f"SELECT id, t, u FROM {name}.silent ORDER BY id") == ((1, "ä", "ö"), (2, "A", "B"))


def test_a_collation_that_the_target_lacks_leads_to_the_map(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, mariadb)
    subtask = subtask_for(mysql, mariadb, name, task=name)
    sync = RunningSync(subtask, None)
    try:
        sync.wait_synced()
        mysql.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v CHAR(9) COLLATE utf8mb4_ja_0900_as_cs)",
            f"INSERT INTO {name}.t VALUES (1, 'a')",
        )
        error = sync.wait_ended()
    finally:
        sync.stop()
    assert isinstance(error, DMError)
    assert (error.name, "`collation-map`" in error.workaround) == ("ddl-collation-unknown", True)
    mapped = subtask.model_copy(update={"collation_map": {"utf8mb4_ja_0900_as_cs": "utf8mb4_unicode_520_ci"}})
    with running_sync(mapped) as resumed:
        resumed.wait_synced()
    assert mariadb.query(f"SELECT id, v FROM {name}.t") == ((1, "a"),)
