"""A constraint that the server named has another name at the target; DROP finds it, or the task pauses."""

from __future__ import annotations

import pytest

from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.syncer.operators import Request
from dm.task.binlog_verbs import operate_on_event
from tests.live.syncer.errors.test_operators import place
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live


def routed(upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> SubtaskConfig:
    route = RouteRule(schema_pattern=name, table_pattern="ch", target_schema=name, target_table="kid")
    return subtask_for(upstream, target, name, task=name, routes=(route,))


def chosen(server: ThrowawayServer, table: str, number: int) -> str:
    """The name that a server chooses for a CHECK."""
    return f"{table}_chk_{number}" if server.flavor == "mysql" else f"CONSTRAINT_{number}"


def created(server: ThrowawayServer, table: str) -> str:
    return str(server.query(f"SHOW CREATE TABLE {table}")[0][1])


def pause_of(sync: RunningSync) -> DMError:
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    return error


def test_a_routed_table_loses_the_key_and_the_check_that_its_source_lost(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    with running_sync(routed(upstream, target, name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.p (id INT PRIMARY KEY)",
            f"CREATE TABLE {name}.ch (id INT PRIMARY KEY, a INT, b INT, ch INT, CHECK (a > 0), CHECK (b > 0),"
            f" FOREIGN KEY (a) REFERENCES {name}.p (id), FOREIGN KEY (b) REFERENCES {name}.p (id),"
            f" FOREIGN KEY (ch) REFERENCES {name}.ch (id))",
            f"INSERT INTO {name}.p VALUES (1), (2)",
            f"INSERT INTO {name}.ch VALUES (1, 1, 1, NULL), (2, 1, 2, 1)",
            f"ALTER TABLE {name}.ch DROP FOREIGN KEY ch_ibfk_1, DROP FOREIGN KEY ch_ibfk_3, DROP INDEX a",
            f"ALTER TABLE {name}.ch DROP CONSTRAINT {chosen(upstream, 'ch', 1)}",
            f"INSERT INTO {name}.ch VALUES (3, -1, 1, 9)",
            f"DELETE FROM {name}.ch WHERE id = 1",
        )
        sync.wait_synced()
    rows = "SELECT id, a, b, ch FROM {}.{} ORDER BY id"
    assert target.query(rows.format(name, "kid")) == upstream.query(rows.format(name, "ch"))
    text = created(target, f"{name}.kid")
    assert [word in text for word in ("kid_ibfk_1", "kid_ibfk_2", "kid_ibfk_3")] == [False, True, False]
    assert text.count("CHECK (") == 1
    assert chosen(target, "kid", 2) in text


@pytest.mark.ci_flavor("mysql")
def test_a_key_is_found_after_its_parent_and_the_column_there_got_other_names(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = routed(upstream, target, name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.p (id INT PRIMARY KEY)",
            f"CREATE TABLE {name}.ch (id INT PRIMARY KEY, a INT, b INT, FOREIGN KEY (a) REFERENCES {name}.p (id),"
            f" FOREIGN KEY (b) REFERENCES {name}.p (id))",
            f"ALTER TABLE {name}.p RENAME COLUMN id TO number",
            f"RENAME TABLE {name}.p TO {name}.q",
            f"ALTER TABLE {name}.ch DROP FOREIGN KEY ch_ibfk_1",
            f"ALTER TABLE {name}.q CHANGE number again INT NOT NULL",
        )
        sync.wait_synced()
    text = created(target, f"{name}.kid")
    assert [word in text for word in ("kid_ibfk_1", "kid_ibfk_2")] == [False, True]
    with running_sync(subtask) as resumed:  # which knows what was stored
        upstream.execute(f"ALTER TABLE {name}.ch DROP FOREIGN KEY ch_ibfk_2")
        resumed.wait_synced()
    assert "ibfk" not in created(target, f"{name}.kid")


@pytest.mark.parametrize(("source", "other"), [("mysql", "mariadb"), ("mariadb", "mysql")])
def test_between_flavors_a_check_is_found_by_its_columns(
    park: ServerPark, schema: SchemaFactory, source: Flavor, other: Flavor
) -> None:
    upstream, target = park.shared(source, "upstream-1"), park.shared(other, "target")
    name = schema(upstream, target)
    verb = "CHECK" if source == "mysql" else "CONSTRAINT"
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT, w INT, CHECK (v > 0), CONSTRAINT own CHECK (w > v))",
            f"ALTER TABLE {name}.t DROP {verb} {chosen(upstream, 't', 1)}",
            f"ALTER TABLE {name}.t DROP {verb} own",
            f"INSERT INTO {name}.t VALUES (1, -1, -2)",
        )
        sync.wait_synced()
    assert "CHECK" not in created(target, f"{name}.t")
    assert target.query(f"SELECT * FROM {name}.t") == ((1, -1, -2),)


def test_one_of_several_that_look_alike_pauses_until_it_is_named(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = routed(upstream, target, name)
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    upstream.execute(
        f"CREATE TABLE {name}.ch (id INT PRIMARY KEY, v INT,"
        " CONSTRAINT low CHECK (v > 0), CONSTRAINT high CHECK (v < 9))"
    )
    sync.wait_synced()
    if target.flavor == "mysql":
        target.execute(f"ALTER TABLE {name}.kid DROP CHECK low, ADD CONSTRAINT bottom CHECK (v > 0)")
    else:
        target.execute(f"ALTER TABLE {name}.kid DROP CONSTRAINT low, ADD CONSTRAINT bottom CHECK (v > 0)")
    dropped = place(upstream)
    upstream.execute(f"ALTER TABLE {name}.ch DROP CONSTRAINT low", f"INSERT INTO {name}.ch VALUES (1, -5)")
    error = pause_of(sync)
    assert (error.name, "it may be " in error.message) == ("ddl-constraint-unclear", True)
    statement = f"ALTER TABLE {name}.ch DROP CONSTRAINT bottom"
    operate_on_event(subtask, Request("replace", name, subtask.source_id, dropped, (statement,)), None)
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    assert target.query(f"SELECT * FROM {name}.kid") == ((1, -5),)
    text = created(target, f"{name}.kid")
    assert ("bottom" in text, "high" in text) == (False, True)


def test_a_check_that_is_a_columns_own_at_the_target_pauses(park: ServerPark, schema: SchemaFactory) -> None:
    upstream, target = park.shared("mysql", "upstream-1"), park.shared("mariadb", "target")
    name = schema(upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT CHECK (v > 0))")
    dropped = place(upstream)
    upstream.execute(f"ALTER TABLE {name}.t DROP CHECK t_chk_1", f"INSERT INTO {name}.t VALUES (1, -1)")
    error = pause_of(sync)
    assert (error.name, "the CHECK of a column" in error.message) == ("ddl-constraint-unclear", True)
    statement = f"ALTER TABLE {name}.t MODIFY v INT"
    operate_on_event(subtask, Request("replace", name, subtask.source_id, dropped, (statement,)), None)
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    assert target.query(f"SELECT * FROM {name}.t") == ((1, -1),)
