"""Optimistic shards differ from the target's table while they differ from each other: that is no difference."""

from __future__ import annotations

import threading

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.tools.diff.planner import DiffPlanner, PlannedTable
from dm.tools.errands import DiffRequest
from tests.live.syncer.shards.test_optimistic_shards import optimistic
from tests.live.syncer.shards.test_shards import wait_for_rows
from tests.testbed.diffing import differences
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync

pytestmark = pytest.mark.live

AHEAD = (
    "ALTER TABLE {}.s1 ADD COLUMN w INT NOT NULL COMMENT 'new' FIRST, DROP COLUMN v",
    "ALTER TABLE {}.s1 MODIFY d DECIMAL(12, 4) NOT NULL DEFAULT 1.5, MODIFY e ENUM('p', 'q', 'r'), DROP INDEX by_c",
    "ALTER TABLE {}.s1 ADD INDEX by_w (w), MODIFY c VARCHAR(99) NOT NULL DEFAULT 'x'",
    "ALTER TABLE {}.s1 ADD COLUMN x INT, ADD COLUMN y INT",
    "ALTER TABLE {}.s2 ADD COLUMN y INT, ADD COLUMN x INT",
)
WRONG = (
    "ADD COLUMN nobody INT",
    "DROP COLUMN e",
    "MODIFY id BIGINT, DROP PRIMARY KEY, ADD PRIMARY KEY (id, d)",
    "MODIFY d DECIMAL(10, 1) NOT NULL DEFAULT 1.5",
    "ALTER COLUMN c SET DEFAULT 'y'",
    "ADD UNIQUE INDEX by_e (id, e)",
    "MODIFY c VARCHAR(99) COLLATE utf8mb4_bin NOT NULL DEFAULT 'x'",
)


def planned(subtask: SubtaskConfig) -> PlannedTable:
    (table,) = (one for one in DiffPlanner([subtask], DiffRequest(), threading.Event()).plan() if one.name.table == "t")
    return table


@pytest.mark.ci_flavor("mysql")
def test_only_what_optimistic_shards_may_differ_in_is_no_difference(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    columns = (
        "id INT PRIMARY KEY, v INT, c VARCHAR(10) NOT NULL DEFAULT 'x', d DECIMAL(10, 2) NOT NULL DEFAULT 1.5,"
        " e ENUM('p', 'q'), KEY by_c (c)"
    )
    (subtask,) = optimistic(name, [upstream], target, columns=columns)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s1 (id, v, d, e) VALUES (1, 1, 2.25, 'p')",
            *(statement.format(name) for statement in AHEAD),
            f"INSERT INTO {name}.s1 (id, w, d, e) VALUES (2, 2, 2.1234, 'r')",
            f"INSERT INTO {name}.s2 (id, v, d, e) VALUES (11, 1, 2.25, 'q')",
        )
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    found = planned(subtask)
    assert found.structure == []
    told = {line.partition(": ")[2].split(",")[0] for line in found.allowed}
    assert {"it lacks column w", "it lacks column v", "its columns are in another order"} <= told
    assert {f"column {column}: type is" for column in "cde"} == {line[:17] for line in told if ": type is" in line}
    assert "not all shards have INDEX by_c (`c`)" in told
    assert differences(subtask) == {}
    target.execute(f"UPDATE {name}.t SET d = 2.124 WHERE id = 2")
    assert list(differences(subtask)) == ["t"]
    for statement in WRONG:
        target.execute(
            f"CREATE TABLE {name}.good LIKE {name}.t",
            f"ALTER TABLE {name}.t {statement}",
        )
        assert planned(subtask).structure, statement
        target.execute(f"DROP TABLE {name}.t", f"RENAME TABLE {name}.good TO {name}.t")
    pessimistic = subtask.model_copy(update={"shard_mode": "pessimistic"})
    assert planned(pessimistic).structure, "where all shards are to be alike"
    assert planned(pessimistic).allowed == []
