"""What tells of two live owners does tell."""

from __future__ import annotations

import pytest

from dm.config.subtask import RunBy
from dm.demo.servers import ThrowawayServer
from tests.testbed.committed_runs import binlog_names, committed_runs
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live


def test_a_commit_of_a_run_after_a_newer_one_is_seen(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    target.execute("FLUSH BINARY LOGS")
    first = binlog_names(target)[-1]
    owned = RunBy(host="h", home="/o'h", member="a-1", cluster="c").model_dump_json().replace("'", "''")
    target.execute(
        f"CREATE TABLE {name}.t_syncer_worker (id VARCHAR(32), lane VARCHAR(32), epoch BIGINT UNSIGNED, batch BIGINT)",
        f"CREATE TABLE {name}.t_owner (id VARCHAR(32), unit VARCHAR(16), epoch BIGINT UNSIGNED, run_by LONGTEXT)",
        f"INSERT INTO {name}.t_syncer_worker VALUES ('one', '0', 0, 0), ('two', '0', 7, 0)",
        f"INSERT INTO {name}.t_owner VALUES ('one', 'Sync', 1, '{owned}'), ('two', 'Sync', 7, '{owned}')",
        f"INSERT INTO {name}.t_owner VALUES ('one', 'Sync', 2, '{{\"member\": \"b\"}}')",
        *(f"UPDATE {name}.t_syncer_worker SET epoch = {epoch} WHERE id = 'one'" for epoch in (1, 2)),
    )
    runs = committed_runs(target, first, name, "t")
    assert runs.commits == {"one": [0, 1, 2], "two": [7]}
    assert runs.members == {("one", 1): {"a-1"}, ("two", 7): {"a-1"}, ("one", 2): {"b"}}
    assert (runs.late(), runs.unowned(), runs.changes("one"), runs.changes("two")) == ([], [], 1, 0)
    target.execute(f"UPDATE {name}.t_syncer_worker SET epoch = 1 WHERE id = 'one'")
    target.execute(f"UPDATE {name}.t_syncer_worker SET epoch = 3 WHERE id = 'one'")
    runs = committed_runs(target, first, name, "t")
    assert runs.late() == [("one", 1, 2)]
    assert runs.unowned() == [("one", 3)]
