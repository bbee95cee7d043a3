"""What follows a source into a TiDB in which collations have no meaning: a validator, and a merge of shards.

`new_collations_enabled_on_first_bootstrap = false`: keys that are one at the source are two there. Rows of a plain
stream: test_tidb.py; a load and a comparison: tests/spark/test_tidb_old_collations.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.syncer.shards.test_optimistic_shards import optimistic
from tests.live.syncer.shards.test_shards import merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until
from tests.testbed.tidb import TidbServer
from tests.testbed.validation import errors_of, running_validator, validated

pytestmark = [pytest.mark.live, pytest.mark.tidb, pytest.mark.chaos]

OF_TEXTS = "id VARCHAR(20) PRIMARY KEY, v INT"
COLLATED = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"


@pytest.fixture
def old(tmp_path: Path) -> Iterator[TidbServer]:
    """Such a TiDB."""
    with TidbServer(tmp_path / "tidb", new_collations_enabled_on_first_bootstrap=False) as server:
        yield server


@pytest.fixture
def name(upstream: ThrowawayServer, old: TidbServer, schema: SchemaFactory) -> str:
    """A schema of both."""
    found = schema(upstream, old)
    for server in (upstream, old):
        server.execute(f"ALTER DATABASE {found} {COLLATED}")
    return found


def test_a_validator_asks_for_each_key_as_it_is_stored(upstream: ThrowawayServer, old: TidbServer, name: str) -> None:
    for server in (upstream, old):
        server.execute(f"CREATE TABLE {name}.t ({OF_TEXTS}, w VARCHAR(20) UNIQUE)")
    subtask = validated(subtask_for(upstream, old, name, task=name))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
            upstream.execute(
                f"INSERT INTO {name}.t VALUES ('a', 1, 'x'), ('ß', 2, 'ä'), ('c', 3, NULL), ('d', 4, 'D')",
                f"UPDATE {name}.t SET id = 'A' WHERE id = 'a'",
                f"UPDATE {name}.t SET w = UPPER(w) WHERE v = 2",
                f"DELETE FROM {name}.t WHERE id = 'C'",
                f"INSERT INTO {name}.t VALUES ('C', 5, 'y')",
            )
            sync.wait_synced()
            validator.wait("6/1/2")  # a row whose key changes goes and comes
        assert errors_of(subtask) == []
        upstream.execute(f"INSERT INTO {name}.t VALUES ('E', 6, 'e'), ('f', 7, 'f')")
        sync.wait_synced()
        old.execute(f"UPDATE {name}.t SET w = 'E' WHERE id = 'E'", f"UPDATE {name}.t SET id = 'F' WHERE id = 'f'")
        with running_validator(subtask) as validator:
            validator.wait("8/1/2")
            wait_until(lambda: len(errors_of(subtask)) == 2, "the spoiled rows are found")
    assert sorted(each.row.message.partition(":")[0] for each in errors_of(subtask)) == ["id=E", "id=f"]


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_shards_are_merged(upstream: ThrowawayServer, old: TidbServer, name: str, mode: str) -> None:
    """Rows of two shards whose keys are equal in their collation are two rows there."""
    made = subtasks_of if mode == "pessimistic" else optimistic
    (subtask,) = made(name, [upstream], old, columns=OF_TEXTS)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for table, own, shared in (("s1", "a", "both"), ("s2", "b", "BOTH")):
            upstream.execute(
                f"INSERT INTO {name}.{table} VALUES ('{own}', 1), ('{shared}', 2), ('{own}{own}', 3)",
                f"UPDATE {name}.{table} SET id = UPPER(id) WHERE v = 1",
                f"ALTER TABLE {name}.{table} ADD COLUMN w VARCHAR(9) NOT NULL DEFAULT 'W', ADD UNIQUE KEY by_w (w, id)",
                f"UPDATE {name}.{table} SET w = 'w' WHERE id = '{shared.swapcase()}'",
                f"DELETE FROM {name}.{table} WHERE id = '{(own * 2).upper()}'",
                f"INSERT INTO {name}.{table} VALUES ('{own * 2}', 4, 'w')",
            )
        wait_for_rows(old, name, 6, sync)
        sync.wait_synced()
    merged([upstream], old, name)
    assert sorted(old.query(f"SELECT id FROM {name}.t")) == [("A",), ("B",), ("BOTH",), ("aa",), ("bb",), ("both",)]
