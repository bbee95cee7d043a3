"""From an older MariaDB into the system's: what its binlog does not say, and what newer servers do otherwise.

`make test-mariadb MARIADB=10.5` names the older one; without it there is nothing to be seen here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from dm.demo.installation import MARIADB_VARIABLE, find
from dm.demo.servers import ThrowawayServer
from tests.live.syncer.test_follow import identical
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.parametrize("flavor", ["mariadb"])]


@pytest.fixture
def newer(park: ServerPark, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThrowawayServer]:
    """The system's MariaDB, where the others are older."""
    if MARIADB_VARIABLE not in os.environ:
        pytest.skip("all servers have one version: make test-mariadb")
    older = find("mariadb").release
    monkeypatch.delenv(MARIADB_VARIABLE)
    if find("mariadb").release <= older:
        pytest.skip("the system's MariaDB is not newer")
    created = park.own("mariadb", gtid=True, options={})
    created.start()
    yield created
    created.destroy()


def test_an_older_mariadb_is_followed_into_a_newer_one(
    upstream: ThrowawayServer, newer: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, newer)
    with running_sync(subtask_for(upstream, newer, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            # Without explicit_defaults_for_timestamp, which MariaDB before 10.10 has not and does not log, the first
            # TIMESTAMP is filled and kept up to date, and no other one may be NULL.
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, first TIMESTAMP, second TIMESTAMP, third TIMESTAMP(3) NULL,"
            " d DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, u CHAR(9) CHARACTER SET utf8)",
            f"INSERT INTO {name}.t (id, u) VALUES (1, 'müde'), (2, NULL)",
            f"UPDATE {name}.t SET u = 'x' WHERE id = 2",
            f"ALTER TABLE {name}.t ADD COLUMN fourth TIMESTAMP, ADD COLUMN n INT DEFAULT 5",
            f"INSERT INTO {name}.t (id, fourth, third) VALUES (3, '2026-01-02 03:04:05', '2026-01-02 03:04:05.678')",
            f"ALTER TABLE {name}.t MODIFY COLUMN d TIMESTAMP",
            f"UPDATE {name}.t SET n = n + 1",
            f"CREATE TABLE {name}.keyless (a INT, at TIMESTAMP)",
            f"INSERT INTO {name}.keyless (a) VALUES (1), (1), (NULL)",
            f"DELETE FROM {name}.keyless WHERE a = 1 LIMIT 1",
            f"CREATE TABLE {name}.copied AS SELECT * FROM {name}.t",
        )
        sync.wait_synced()
    identical(upstream, newer, name)
