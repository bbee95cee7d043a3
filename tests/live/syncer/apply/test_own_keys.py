"""A key that only the target has: at the source two rows may exchange its values, and neither is lost."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("own", ["", ", own INT DEFAULT 7"], ids=["replace", "upsert"])
@pytest.mark.parametrize("compact", [False, True])
def test_rows_that_exchange_the_values_of_the_target_s_own_key_stay_in_safe_mode(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, own: str, compact: bool
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, e CHAR(1) NOT NULL)")
    target.execute(f"CREATE TABLE {name}.t (id INT, e CHAR(1) PRIMARY KEY{own})")
    with running_sync(subtask_for(upstream, target, name, task=name, safe_mode=True, compact=compact)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            f"UPDATE {name}.t SET e = IF(e = 'a', 'b', 'a') WHERE id < 3",
            f"DELETE FROM {name}.t WHERE id = 3",
        )
        sync.wait_synced()
    assert target.query(f"SELECT id, e FROM {name}.t ORDER BY id") == ((1, "b"), (2, "a"))
