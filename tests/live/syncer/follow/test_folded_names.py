"""A target that does not tell upper from lower case: one table of the source is one there, two are not mixed."""

from __future__ import annotations

import pytest

from dm.config.rules import RouteRule
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.diffing import compared
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]


@pytest.fixture
def target(upstream: ThrowawayServer, server: ServerFactory) -> ThrowawayServer:
    return server(upstream.flavor, lower_case_table_names=1)


def test_a_table_keeps_to_itself_whatever_case_its_name_has(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    other = RouteRule(schema_pattern=name, table_pattern="apart", target_schema=name, target_table="Elsewhere")
    subtask = subtask_for(upstream, target, name, task=name, routes=(other,))
    subtask = subtask.model_copy(update={"case_sensitive": True})
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.Orders (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO {name}.Orders VALUES (1, 1), (2, 2)",
            f"ALTER TABLE {name}.Orders ADD COLUMN w INT, ADD UNIQUE KEY u (v)",
            f"RENAME TABLE {name}.Orders TO {name}.ORDERS",
            f"UPDATE {name}.ORDERS SET w = 5 WHERE id = 1",
            f"CREATE TABLE {name}.apart (id INT PRIMARY KEY)",
            f"CREATE TABLE {name}.APART (id INT PRIMARY KEY)",
            f"INSERT INTO {name}.apart VALUES (1)",
            f"INSERT INTO {name}.APART VALUES (2)",
            f"RENAME TABLE {name}.ORDERS TO {name}.a, {name}.APART TO {name}.Orders, {name}.a TO {name}.APART",
        )
        sync.wait_synced()
    assert target.query(f"SELECT * FROM {name}.apart ORDER BY id") == ((1, 1, 5), (2, 2, None))
    assert target.query(f"SELECT * FROM {name}.orders") == ((2,),)
    assert target.query(f"SELECT * FROM {name}.elsewhere") == ((1,),)
    # The comparison finds them under the names that this target lists.
    assert [outcome.equal for outcome in compared(subtask)] == [True] * 3


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {s}.t VALUES (2, 2)",
        "CREATE TABLE {s}.OTHER (id INT PRIMARY KEY, v INT)",
        pytest.param("RENAME TABLE {s}.t TO {s}.OTHER", marks=pytest.mark.chaos),
        pytest.param("DROP TABLE {s}.t", marks=pytest.mark.chaos),
        pytest.param("TRUNCATE {s}.t", marks=pytest.mark.chaos),
    ],
)
def test_what_would_mix_two_tables_pauses(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, statement: str
) -> None:
    name = schema(upstream, target)
    for table in ("T", "t", "other"):
        upstream.execute(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, v INT)")
    for table in ("t", "other"):
        target.execute(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, v INT)")
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.other VALUES (1, 1)", statement.format(s=name))
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "target-names-alike"
    assert target.query(f"SELECT * FROM {name}.other") == ((1, 1),)
    assert target.query(f"SELECT * FROM {name}.t") == ()
