"""Rows that a MariaDB wrote without a look at its CHECKs: the target's judge them no more, and judge all others."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, subtask_for
from tests.testbed.twins import Twins

pytestmark = pytest.mark.live

TABLES = (
    "CREATE TABLE {}.keyed (id INT PRIMARY KEY, v INT CHECK (v > 0), e ENUM('p', 'q'), CHECK (v < 100))",
    "CREATE TABLE {}.keyless (v INT, w VARCHAR(9), CHECK (v > 0))",
    "CREATE TABLE {}.documents (id INT PRIMARY KEY, j JSON)",
    "CREATE TABLE {}.two_keys (id INT PRIMARY KEY, v INT, UNIQUE (v), CHECK (v > id))",
)
UNCONSTRAINED = (
    "SET check_constraint_checks = 0, sql_mode = ''",
    "INSERT INTO {}.keyed VALUES (11, -1, 'p'), (12, 5, 'q'), (13, 500, 'p'), (14, -2, 'not there')",
    "UPDATE {}.keyed SET v = -v",
    "UPDATE {}.keyed SET id = id + 30, v = v - 1000 WHERE id IN (1, 12)",
    "INSERT INTO {}.keyless VALUES (-1, 'a'), (-1, 'a'), (2, 'b')",
    "UPDATE {}.keyless SET v = -v, w = CONCAT(w, '!') LIMIT 2",
    "DELETE FROM {}.keyless WHERE v = -1 LIMIT 1",
    "INSERT INTO {}.documents VALUES (11, '[1, '), (12, '{{}}')",
    "UPDATE {}.documents SET j = 'none' WHERE id = 1",
    "INSERT INTO {}.two_keys VALUES (11, 1), (12, 2)",
    "REPLACE INTO {}.two_keys VALUES (13, 2)",
)


@pytest.mark.parametrize("flavor", ["mariadb"])
@pytest.mark.parametrize("safe", [False, pytest.param(True, marks=pytest.mark.chaos)])
def test_rows_of_a_session_without_checks_arrive_as_they_are(twins: Twins, safe: bool) -> None:
    twins.create(*TABLES)
    for form, task in twins.tasks.items():
        syncer = task.syncer.model_copy(update={"safe_mode": safe})
        twins.tasks[form] = task.model_copy(update={"syncer": syncer})
    twins.begin()
    twins.upstream.execute(
        f"INSERT INTO {twins.name}.keyed VALUES (1, 1, 'p'), (2, 2, 'q')",
        f"INSERT INTO {twins.name}.documents VALUES (1, '[]')",
        *(statement.format(twins.name) for statement in UNCONSTRAINED),
        "SET check_constraint_checks = 1",
        f"INSERT INTO {twins.name}.keyed VALUES (3, 3, 'p')",
    )
    twins.follow_both()
    assert len(twins.target.query(f"SELECT id FROM {twins.name}.keyed WHERE v <= 0 OR v >= 100")) == 4


@pytest.mark.parametrize("flavor", ["mariadb"])
def test_a_row_that_the_source_has_judged_is_judged_at_the_target(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    target.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT CHECK (v > 0))")
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    try:
        sync.wait_synced()
        upstream.execute("SET check_constraint_checks = 0", f"INSERT INTO {name}.t VALUES (1, -1)")
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t VALUES (2, -2)")
        error = sync.wait_ended()
    finally:
        sync.stop()
    assert isinstance(error, DMError)
    assert (error.name, error.server_errno) == ("row-check-refused", 4025)
    assert target.query(f"SELECT id FROM {name}.t") == ((1,),)
