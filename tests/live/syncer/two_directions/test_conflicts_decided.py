"""Where one side wins: what that alone does not decide is exact, or pauses by name."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest

from dm.changes.row_change import RowChange
from dm.changes.statement import find
from dm.config.rules import BlockAllowList
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.written_at_both import others_at
from dm.progress.conflict_record import clear_conflicts, read_conflicts
from dm.task.progress import key_of
from dm.unit import JSON
from tests.live.syncer.two_directions.test_conflicts import paused, unseen
from tests.live.syncer.two_directions.test_two_directions import both_ways, checked, limited, looking, settle
from tests.testbed.sync import running_sync

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

Servers = tuple[ThrowawayServer, ThrowawayServer]


@pytest.fixture
def name(upstreams: Servers) -> Iterator[str]:
    name = f"wins_{secrets.token_hex(3)}"
    for server in upstreams:
        server.execute(
            f"CREATE DATABASE {name}",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT, u INT UNIQUE)",
            f"CREATE TABLE {name}.keyless (v INT)",
            f"CREATE TABLE {name}.large (id INT PRIMARY KEY, v LONGTEXT)",
        )
    yield name
    for server in upstreams:
        server.execute(*(f"DROP DATABASE IF EXISTS {each}" for each in (name, f"meta_{name}", f"meta_{name}_back")))


def pair(upstreams: Servers, name: str, **syncer: object) -> tuple[SubtaskConfig, SubtaskConfig]:
    """The first server wins."""
    forward, back = both_ways(upstreams, name)
    return (
        looking(forward, conflicts="source-wins", **syncer),
        looking(back, conflicts="target-wins", ddl="pause", **syncer),
    )


def begun(tasks: tuple[SubtaskConfig, SubtaskConfig]) -> tuple[SubtaskConfig, SubtaskConfig]:
    """Both have run, the winning one first."""
    forward, back = tasks
    with running_sync(forward) as onwards:
        onwards.wait_synced()
        with running_sync(back) as home:
            settle(onwards, home)
    return tasks


def run_both(tasks: tuple[SubtaskConfig, SubtaskConfig]) -> None:
    """Until each has what the other side had."""
    with running_sync(tasks[0]) as onwards, running_sync(tasks[1]) as home:
        settle(onwards, home)
        settle(onwards, home)


def recorded(task: SubtaskConfig) -> list[dict[str, JSON]]:
    with closing(TargetConnection(task.target)) as connection:
        return read_conflicts(connection, key_of(task), 100)[1]


def same(upstreams: Servers, table: str) -> tuple[tuple[object, ...], ...]:
    first, second = (server.query(f"SELECT * FROM {table} ORDER BY 1") for server in upstreams)
    assert first == second
    return first


def test_tasks_that_resolve_otherwise_do_not_run_together(upstreams: Servers, name: str) -> None:
    forward, back = pair(upstreams, name)
    assert paused(back).name == "conflicts-not-begun"
    begun((forward, back))
    with running_sync(forward) as onwards:
        onwards.wait_synced()
        for wrong in ("source-wins", "pause", "ignore"):
            other = looking(back, conflicts=wrong)
            error = paused(other)
            assert (error.name, f"`conflicts: {wrong}`" in error.message) == ("conflicts-contradict", True)
            found = checked(other)
            assert (found.state, "is running with `conflicts: source-wins`" in found.message) == ("failure", True)
        with limited(upstreams[0], f"{name}.*", f"{back.meta_schema}.*") as few:
            found = checked(back.model_copy(update={"target": few}))
        assert (found.state, "lacks REPLICATION SLAVE" in found.message) == ("failure", True)
        assert checked(back).state != "failure"
    with running_sync(looking(back, conflicts="source-wins")) as home:  # what a task at rest has stored binds nobody
        home.wait_synced()


def test_what_only_one_task_brings_is_refused(upstreams: Servers, name: str) -> None:
    forward, back = begun(pair(upstreams, name))
    shorter = BlockAllowList.model_validate(
        {"do-dbs": [name], "ignore-tables": [{"db-name": name, "tbl-name": "large"}]}
    )
    with running_sync(forward.model_copy(update={"block_allow_list": shorter})) as onwards:
        onwards.wait_synced()
        error = paused(back)
        assert (error.name, f"do not bring {name}.large back" in error.message) == ("conflicts-contradict", True)
        with running_sync(back.model_copy(update={"block_allow_list": shorter})) as home:
            settle(onwards, home)


def test_the_record_has_the_rows_of_both_sides(upstreams: Servers, name: str) -> None:
    first, second = upstreams
    tasks, table = begun(pair(upstreams, name)), f"{name}.t"
    first.execute(f"INSERT INTO {table} VALUES (1, 10, NULL), (2, 20, NULL)")
    second.execute(f"INSERT INTO {table} VALUES (1, 11, NULL)", f"INSERT INTO {table} VALUES (3, 31, NULL)")
    run_both(tasks)
    assert same(upstreams, table) == ((1, 10, None), (2, 20, None), (3, 31, None))
    (lost,) = recorded(tasks[1])
    images = (lost["sourceBefore"], lost["sourceAfter"], lost["targetRow"])
    assert (lost["winner"], lost["key"], lost["operation"]) == ("target", {"id": "1"}, "INSERT")
    assert images == ("no row", {"id": "1", "v": "11", "u": "NULL"}, {"id": "1", "v": "10", "u": "NULL"})
    (set_anew,) = recorded(tasks[0])
    assert (set_anew["winner"], set_anew["targetRow"]) == ("source", {"id": "1", "v": "11", "u": "NULL"})
    for task in tasks:
        with closing(TargetConnection(task.target)) as connection:
            assert clear_conflicts(connection, [key_of(task)]) == 1
        assert recorded(task) == []
    without = begun((looking(tasks[0], conflict_rows="omit", conflicts="source-wins"), tasks[1]))
    first.execute(f"UPDATE {table} SET v = 12 WHERE id = 3")
    second.execute(f"DELETE FROM {table} WHERE id = 3")
    run_both(without)
    assert same(upstreams, table)[2] == (3, 12, None)
    assert [each["targetRow"] for each in recorded(without[0])] == ["not kept"]


def test_a_row_that_comes_between_look_and_insert_is_set(
    upstreams: Servers, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No look can lock a row that is not there."""
    first, second = upstreams
    tasks, table = begun(pair(upstreams, name)), f"{name}.t"
    second.execute(f"INSERT INTO {table} VALUES (5, 50, NULL)")  # so that the changes go one by one
    looked = list[bytes]()

    def look(connection: TargetConnection, change: RowChange) -> list[bytes]:
        found = others_at(connection, change)
        if not looked:
            second.execute(f"INSERT INTO {table} VALUES (1, 11, NULL)")
        looked.append(find(change.plan, change.after or ()))
        return found

    monkeypatch.setattr("dm.downstream.apply.others_at", look)
    first.execute("BEGIN", f"INSERT INTO {table} VALUES (1, 10, NULL), (5, 51, NULL)", "COMMIT")
    run_both(tasks)
    assert len(looked) == 3
    assert same(upstreams, table) == ((1, 10, None), (5, 51, None))
    assert [each["key"] for each in recorded(tasks[1])] == [{"id": "1"}, {"id": "5"}]
    assert [each["targetRow"] for each in recorded(tasks[0])][-1] == {"id": "1", "v": "11", "u": "NULL"}


def test_a_second_unique_key_that_meets_pauses_both_tasks(upstreams: Servers, name: str) -> None:
    first, second = upstreams
    tasks, table = begun(pair(upstreams, name)), f"{name}.t"
    first.execute(f"INSERT INTO {table} VALUES (1, 10, 5)")
    second.execute(f"INSERT INTO {table} VALUES (2, 20, 5)")
    for task in tasks:
        error = paused(task)
        assert error.name == "write-conflict", error.message
    assert [len(server.query(f"SELECT 1 FROM {table}")) for server in upstreams] == [1, 1]


def test_a_statement_that_empties_a_table_pauses_what_was_written_before_it_came(upstreams: Servers, name: str) -> None:
    first, second = upstreams
    tasks, table = begun(pair(upstreams, name)), f"{name}.t"
    first.execute(f"INSERT INTO {table} VALUES (1, 10, NULL)")
    run_both(tasks)
    first.execute(f"TRUNCATE TABLE {table}")
    second.execute(f"UPDATE {table} SET v = 11")
    error = paused(tasks[1])
    assert (error.name, table in error.message) == ("conflicts-structure", True)
    assert first.query(f"SELECT * FROM {table}") == ()
    # The way out: without `conflicts` until both are past it. The row that the statement took is not as expected there.
    plain = (looking(tasks[0], conflicts="ignore"), looking(tasks[1], conflicts="ignore"))
    assert paused(plain[1]).name == "row-missing"
    unseen(first, f"INSERT INTO {table} VALUES (1, 10, NULL)")
    run_both(plain)
    assert (first.query(f"SELECT v FROM {table}"), second.query(f"SELECT v FROM {table}")) == (((11,),), ())
    unseen(first, f"DELETE FROM {table}")  # as `dmctl diff` would show
    first.execute(f"INSERT INTO {table} VALUES (2, 12, NULL)")
    run_both(tasks)
    assert same(upstreams, table) == ((2, 12, None),)


def test_what_was_written_after_a_statement_came_is_applied(upstreams: Servers, name: str) -> None:
    first, second = upstreams
    tasks, table = begun(pair(upstreams, name)), f"{name}.t"
    for side, server in enumerate(upstreams):  # both know the table before it is altered
        server.execute(f"INSERT INTO {table} VALUES ({side}, 10, NULL)")
    run_both(tasks)
    first.execute(f"ALTER TABLE {table} ADD COLUMN c INT FIRST", f"TRUNCATE {table}")
    with running_sync(tasks[0]) as onwards:
        onwards.wait_synced()
    second.execute(f"INSERT INTO {table} VALUES (7, 1, 11, NULL)")
    run_both(tasks)
    assert same(upstreams, table) == ((7, 1, 11, None),)
    first.execute(f"UPDATE {table} SET v = 12")
    second.execute(f"UPDATE {table} SET v = 13")
    run_both(tasks)
    assert same(upstreams, table) == ((7, 1, 12, None),)
    assert [each["key"] for each in recorded(tasks[1])] == [{"id": "1"}]


def test_rows_without_a_key_and_large_transactions(upstreams: Servers, name: str) -> None:
    first, second = upstreams
    tasks, large = begun(pair(upstreams, name)), f"{name}.large"
    for server in upstreams:
        server.execute(f"INSERT INTO {name}.keyless VALUES (1)")
    first.execute(f"INSERT INTO {large} VALUES (7, 'first')")
    rows = ", ".join(f"({key}, REPEAT('x', 40000))" for key in range(200))
    second.execute(f"INSERT INTO {large} VALUES {rows}")  # the lane decodes it part by part
    run_both(tasks)
    assert same(upstreams, f"{name}.keyless") == ((1,), (1,))
    assert same(upstreams, large)[7] == (7, "first")
    assert [each["key"] for each in recorded(tasks[1])] == [{"id": "7"}]
