"""`collation-map` and `engine-map` in replicated DDL: the target gets the right-hand names, and rows are the same."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

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
