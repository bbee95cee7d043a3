"""Members of an ENUM of CHARACTER SET binary may be bytes that are no text.

A MariaDB shows them as question marks, whatever it is asked, and MySQL takes no such SET.
"""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live

MADE = "CREATE TABLE {}.t (id INT AUTO_INCREMENT PRIMARY KEY, b ENUM(x'FF', 'a', x'C3A9') CHARACTER SET binary)"


@pytest.mark.parametrize("flavor", ["mysql"])
def test_they_arrive(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream, target)
    query = f"SELECT id, b + 0, HEX(CAST(b AS BINARY)) FROM {name}.t ORDER BY id"
    for run in range(2):  # the second one reads the structure that the first one has stored
        with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
            sync.wait_synced()
            if run == 0:
                upstream.execute(MADE.format(name))
            upstream.execute(
                f"INSERT INTO {name}.t (b) VALUES (x'C3A9'), (NULL), (1), ('a')",
                f"UPDATE {name}.t SET b = 2",
                f"INSERT INTO {name}.t (b) VALUES (1), (3)",
                f"DELETE FROM {name}.t WHERE id % 5 = 0",
            )
            sync.wait_synced()
        assert target.query(query) == upstream.query(query)
