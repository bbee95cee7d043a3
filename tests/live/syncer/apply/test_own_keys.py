"""A key that only the target has: at the source two rows may exchange its values, or share one; neither is lost."""

from __future__ import annotations

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
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


ID, E = "id INT PRIMARY KEY", "e VARCHAR(9)"
MET = {
    "another key": f"{ID}, {E}, UNIQUE KEY by_e (e)",
    "a prefix": f"{ID}, e TEXT, UNIQUE KEY by_e (e(2))",
    "the key that finds rows": f"id INT NOT NULL, {E} NOT NULL, PRIMARY KEY (e)",
    "a computed key": f"{ID}, {E}, k CHAR(2) AS (LEFT(e, 2)) STORED, UNIQUE KEY by_e (k)",
    "a column besides": f"{ID}, {E}, own INT DEFAULT 7, UNIQUE KEY by_e (e)",
}


def refused(task: SubtaskConfig, upstream: ThrowawayServer, *rows: str) -> DMError:
    """The error at which the task pauses, as the source writes these rows one after the other."""

    def follow() -> None:
        with running_sync(task) as sync:
            sync.wait_synced()
            for some in rows:
                upstream.execute(f"INSERT INTO {task.task}.t VALUES {some}")
                sync.wait_synced()

    with pytest.raises(DMError) as caught:
        follow()
    return caught.value


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    "met",
    [*list(MET)[:3], *(pytest.param(met, marks=pytest.mark.chaos) for met in list(MET)[3:])],
)
def test_safe_mode_lets_no_row_go_for_another_one_by_a_key_that_the_source_has_not(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, met: str
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, e VARCHAR(9) NOT NULL)")
    target.execute(f"CREATE TABLE {name}.t ({MET[met]})")
    task = subtask_for(upstream, target, name, task=name, safe_mode=True)
    error = refused(task, upstream, "(1, 'p'), (2, 'xx')", "(3, 'q'), (4, 'xx')")
    index = "PRIMARY" if "PRIMARY KEY (e)" in MET[met] else "by_e"
    assert (error.name, error.retryable) == ("own-key-met", False)
    assert all(part in error.message for part in (index, f"{name}.t")), error.message
    assert target.query(f"SELECT id FROM {name}.t WHERE id <> 3 ORDER BY id") == ((1,), (2,))
    # The way out that it names.
    drop = "PRIMARY KEY, ADD PRIMARY KEY (id)" if index == "PRIMARY" else "INDEX by_e"
    target.execute(f"ALTER TABLE {name}.t DROP {drop}")
    with running_sync(task) as sync:
        sync.wait_synced()
    assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == ((1,), (2,), (3,), (4,))


@pytest.mark.ci_flavor("mysql")
def test_two_rows_of_one_batch_do_not_meet_by_such_a_key_either(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, e VARCHAR(9) NOT NULL)")
    target.execute(f"CREATE TABLE {name}.t ({MET['another key']})")
    task = subtask_for(upstream, target, name, task=name, safe_mode=True)
    error = refused(task, upstream, "(1, 'p'), (2, 'xx'), (4, 'xx')")
    assert error.name == "own-key-met"
    assert all(part in error.message for part in ("by_e", "id = 2", "id = 4")), error.message
    assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == ()
