"""With conflicts looked at, no table is loaded beside the stream: what the refusals say to do instead does it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from dm.config.rules import BlockAllowList
from dm.config.subtask import SubtaskConfig
from dm.errors import DMError
from dm.ident import TableName
from dm.task.join_requests import added_tables, reload
from dm.tools.diff.fix import in_order
from tests.live.syncer.two_directions.test_conflicts import unseen
from tests.live.syncer.two_directions.test_conflicts_decided import Servers, begun, run_both, same
from tests.live.syncer.two_directions.test_two_directions import both_ways, looking
from tests.testbed.diffing import differences

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

BOTH = ["pause", pytest.param("one side wins", marks=pytest.mark.chaos)]
WAY = "docs/two-directions.md#one-table-again-and-more-tables"


@pytest.fixture
def name(upstreams: Servers) -> Iterator[str]:
    name = f"ways_{secrets.token_hex(3)}"
    for server in upstreams:
        server.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20))")
    yield name
    for server in upstreams:
        server.execute(*(f"DROP DATABASE IF EXISTS {each}" for each in (name, f"meta_{name}", f"meta_{name}_back")))


def tasks_of(upstreams: Servers, name: str, conflicts: str, *tables: str) -> tuple[SubtaskConfig, SubtaskConfig]:
    listed = BlockAllowList.model_validate({"do-tables": [{"db-name": name, "tbl-name": table} for table in tables]})
    forward, back = (task.model_copy(update={"block_allow_list": listed}) for task in both_ways(upstreams, name))
    if conflicts == "pause":
        return looking(forward), looking(back)
    return looking(forward, conflicts="source-wins"), looking(back, conflicts="target-wins", ddl="pause")


@pytest.mark.parametrize("conflicts", BOTH)
def test_a_table_that_differs_is_mended_where_it_can_not_be_loaded_again(
    upstreams: Servers, name: str, conflicts: str
) -> None:
    first, second = upstreams
    tasks, table = begun(tasks_of(upstreams, name, conflicts, "t")), f"{name}.t"
    first.execute(f"INSERT INTO {table} VALUES (1, 'one'), (2, 'two'), (3, 'it''s')")
    run_both(tasks)
    unseen(second, f"UPDATE {table} SET v = 'other' WHERE id = 1", f"DELETE FROM {table} WHERE id = 3")
    with pytest.raises(DMError) as refused:
        reload({tasks[0].source_id: tasks[0]}, TableName(name, "t"), None)
    assert (refused.value.name, WAY in str(refused.value)) == ("joining-refused", True)
    (rows,) = differences(tasks[0]).values()
    unseen(second, *(statement.decode() for statement in in_order([row.fix for row in rows])))
    assert differences(tasks[0]) == {}
    second.execute(f"UPDATE {table} SET v = 'three' WHERE id = 3")
    first.execute(f"UPDATE {table} SET v = 'uno' WHERE id = 1")
    run_both(tasks)
    assert same(upstreams, table) == ((1, "uno"), (2, "two"), (3, "three"))


@pytest.mark.parametrize("conflicts", BOTH)
def test_a_longer_list_is_taken_with_a_table_that_both_sides_have(
    upstreams: Servers, name: str, conflicts: str
) -> None:
    first, second = upstreams
    tasks = begun(tasks_of(upstreams, name, conflicts, "t"))
    first.execute(f"CREATE TABLE {name}.more (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.more VALUES (1, 1)")
    longer = tasks_of(upstreams, name, conflicts, "t", "more")
    with pytest.raises(DMError) as refused:
        added_tables(tasks[0], longer[0], {})
    assert (refused.value.name, WAY in str(refused.value)) == ("joining-refused", True)
    run_both(tasks)
    unseen(second, f"CREATE TABLE {name}.more (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.more VALUES (1, 1)")
    # The places are stored, so the starting points of the file do not matter.
    run_both(longer)
    first.execute(f"INSERT INTO {name}.more VALUES (2, 2)", f"INSERT INTO {name}.t VALUES (5, 'five')")
    second.execute(f"INSERT INTO {name}.more VALUES (3, 3)", f"UPDATE {name}.more SET v = 10 WHERE id = 1")
    run_both(longer)
    assert same(upstreams, f"{name}.more") == ((1, 10), (2, 2), (3, 3))
    assert same(upstreams, f"{name}.t") == ((5, "five"),)
