"""`collation_compatible` between servers whose defaults differ: MariaDB's utf8mb4_general_ci at MySQL."""

from __future__ import annotations

from typing import Literal

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.parametrize(("mode", "collation"), [("strict", "utf8mb4_general_ci"), ("loose", "utf8mb4_0900_ai_ci")])
def test_a_character_set_without_a_collation(
    mariadb: ThrowawayServer,
    mysql: ThrowawayServer,
    schema: SchemaFactory,
    mode: Literal["strict", "loose"],
    collation: str,
) -> None:
    name = schema(mariadb, mysql)
    subtask = subtask_for(mariadb, mysql, name, task=name).model_copy(update={"collation_compatible": mode})
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for statement in (
            "CREATE TABLE {s}.t (id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET utf8mb4) DEFAULT CHARSET=utf8mb4",
            "ALTER TABLE {s}.t ADD b VARCHAR(9) CHARSET utf8mb4 AFTER id, ADD c CHAR(3) COLLATE utf8mb4_bin",
            "INSERT INTO {s}.t VALUES (1, 'b', 'a', 'c')",
        ):
            mariadb.execute(statement.format(s=name))
        sync.wait_synced()
    columns = mysql.query(
        "SELECT COLUMN_NAME, COLLATION_NAME FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA = '{name}' AND TABLE_NAME = 't' AND COLLATION_NAME IS NOT NULL ORDER BY ORDINAL_POSITION"
    )
    assert columns == (("b", collation), ("a", collation), ("c", "utf8mb4_bin"))
    assert mysql.query(f"SELECT id, b, a, c FROM {name}.t") == ((1, "b", "a", "c"),)
