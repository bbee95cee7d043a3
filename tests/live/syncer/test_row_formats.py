"""Rows as row events and rows as SQL: the same stream has the same outcome, rows and errors, kills included.

The reference is the form that the target judges, SQL. Tables and statements are drawn from a seed; DM_SEED plays one
again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dm.config.route import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.flavor import Flavor
from dm.ident import Ident
from dm.unit import JSON
from tests.testbed.crash_loop import BATCH_POINTS
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.loop_result import SEED_VARIABLE
from tests.testbed.park import ServerPark
from tests.testbed.random_workload import RandomWorkload
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, subtask_for

pytestmark = [pytest.mark.live]

SAMPLE = 20261125


class Twins:
    """Two tasks that follow one schema: into a schema of the same name by events, and into another one by SQL."""

    def __init__(self, upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
        self.upstream, self.target, self.name = upstream, target, name
        self.by_sql = f"{name}_sql"
        target.execute(f"CREATE DATABASE {self.by_sql}")
        route = RouteRule(name="sql", schema_pattern=name, target_schema=self.by_sql)
        self.tasks = {
            "auto": subtask_for(upstream, target, name, task=name),
            "sql": subtask_for(upstream, target, name, task=self.by_sql, routes=(route,), row_format="sql"),
        }

    def close(self) -> None:
        """Remove what the factory of schemas does not know."""
        for name in (self.by_sql, f"meta_{self.name}", f"meta_{self.by_sql}"):
            self.target.execute(f"DROP DATABASE IF EXISTS {name}")

    def create(self, *definitions: str) -> None:
        """Tables at the source and in both schemas of the target; `{}` is the schema."""
        self.upstream.execute(*(definition.format(self.name) for definition in definitions))
        for schema in (self.name, self.by_sql):
            self.target.execute(*(definition.format(schema) for definition in definitions))

    def begin(self) -> None:
        """Store where both tasks start."""
        for task in self.tasks.values():
            with running_sync(task) as sync:
                sync.wait_synced()

    def follow(self, task: SubtaskConfig) -> Mapping[str, JSON]:
        """Follow to the source's end; gives the status."""
        with running_sync(task) as sync:
            return sync.wait_synced(120)

    def rows(self, server: ThrowawayServer, schema: str) -> dict[str, list[str]]:
        """The rows of each table, in any order: MariaDB sums up equal rows with computed columns to other checksums."""
        tables = server.query(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'",
            (schema,),
        )
        return {
            str(name): sorted(map(repr, server.query(f"SELECT * FROM {Ident(schema).sql}.{Ident(str(name)).sql}")))
            for (name,) in tables
        }

    def demand_equal(self) -> None:
        """Both targets have the source's rows."""
        source = self.rows(self.upstream, self.name)
        assert self.rows(self.target, self.name) == source
        assert self.rows(self.target, self.by_sql) == source


@pytest.fixture
def twins(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> Iterator[Twins]:
    made = Twins(upstream, target, schema(upstream, target, prefix="form"))
    yield made
    made.close()


def forms(status: Mapping[str, JSON]) -> dict[str, tuple[JSON, JSON]]:
    """The form of each table, and the reason."""
    tables = status["tables"]
    assert isinstance(tables, list)
    found = {}
    for entry in tables:
        assert isinstance(entry, dict)
        if "rowFormat" in entry:
            found[str(entry["table"]).partition(".")[2]] = entry["rowFormat"], entry["rowFormatReason"]
    return found


@pytest.mark.timeout(600)
def test_drawn_tables_and_statements_come_to_the_same(twins: Twins, tmp_path: Path) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, SAMPLE))
    twins.begin()
    connection = twins.upstream.connect(autocommit=True)
    with connection.cursor() as cursor, (tmp_path / "statements.sql").open("w", encoding="utf-8") as log:
        flavor = twins.upstream.flavor
        workload = RandomWorkload(cursor, twins.name, flavor, random.Random(seed), log)
        workload.create_tables(8)
        for _ in range(80):
            workload.transaction()
    connection.close()
    found = forms(twins.follow(twins.tasks["auto"]))
    assert "events" in {form for form, _ in found.values()}, f"DM_SEED={seed}: {found}"
    assert {form for form, _ in forms(twins.follow(twins.tasks["sql"])).values()} == {"sql"}
    twins.demand_equal()


TABLES = (
    "CREATE TABLE {}.keyed (id INT PRIMARY KEY, u VARCHAR(20) UNIQUE, v VARCHAR(20))",
    "CREATE TABLE {}.keyless (id INT, v VARCHAR(20))",
    "CREATE TABLE {}.computed (id INT PRIMARY KEY, v INT, w INT AS (v + 1) STORED, x INT AS (v * 2) VIRTUAL, KEY (x),"
    " CHECK (v < 1000))",
    "CREATE TABLE {}.parts (id INT PRIMARY KEY, v VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 4",
    "CREATE TABLE {}.hot (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE {}.`q``'\"ä` (`a``'\"ö` INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1)",
)


def write(twins: Twins) -> None:
    """Rows of all these tables, some of them often."""
    numbers = ", ".join(f"({at}, 'x{at}')" for at in range(300))
    name = twins.name
    twins.upstream.execute(
        f"INSERT INTO {name}.keyed (id, v) VALUES {numbers}",
        f"UPDATE {name}.keyed SET u = CONCAT('u', id) WHERE id % 2 = 0",
        f"INSERT INTO {name}.keyless VALUES {numbers}",
        f"INSERT INTO {name}.keyless SELECT * FROM {name}.keyless WHERE id % 3 = 0",
        f"UPDATE {name}.keyless SET v = 'same' WHERE id < 100",
        f"UPDATE {name}.keyless SET id = id + 1 WHERE v = 'same'",
        f"DELETE FROM {name}.keyless WHERE id % 5 = 0",
        f"INSERT INTO {name}.computed (id, v) SELECT id, id FROM {name}.keyed",
        f"UPDATE {name}.computed SET v = v + 1",
        f"INSERT INTO {name}.parts VALUES {numbers}",
        f"UPDATE {name}.parts SET id = id + 1000",
        f"INSERT INTO {name}.hot VALUES (1, 0), (2, 0)",
        *(f"UPDATE {name}.hot SET v = v + 1 WHERE id = {at % 2 + 1}" for at in range(40)),
        f"""INSERT INTO {name}.`q``'"ä` VALUES (1, 'ä'), (2, NULL)""",
        f"""UPDATE {name}.`q``'"ä` SET v = 'ö'""",
        f"DELETE FROM {name}.keyed WHERE id % 7 = 0",
    )


def test_ordinary_tables_go_as_events(twins: Twins) -> None:
    twins.create(*TABLES)
    twins.begin()
    write(twins)
    found = forms(twins.follow(twins.tasks["auto"]))
    assert found == dict.fromkeys(found, ("events", ""))
    assert len(found) == len(TABLES)
    twins.follow(twins.tasks["sql"])
    twins.demand_equal()


@pytest.mark.ci_flavor("mysql")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", BATCH_POINTS)
def test_a_kill_at_any_point_of_a_batch(twins: Twins, point: str) -> None:
    twins.create(*TABLES)
    twins.begin()
    write(twins)
    process = SyncProcess(twins.tasks["auto"], faults=f"{point}=kill@3")
    process.process.wait(60)
    process.close()
    write_more(twins)
    assert "events" in {form for form, _ in forms(twins.follow(twins.tasks["auto"])).values()}
    twins.follow(twins.tasks["sql"])
    twins.demand_equal()


def write_more(twins: Twins) -> None:
    """Rows behind the replay, which go as events again."""
    name = twins.name
    twins.upstream.execute(f"UPDATE {name}.hot SET v = -1", f"UPDATE {name}.keyless SET v = 'more' WHERE id < 20")


BROKEN = [
    ("row-missing", "DELETE FROM {0}.keyed WHERE id = 3", "UPDATE {0}.keyed SET v = 'y' WHERE id = 3"),
    ("row-missing", "DELETE FROM {0}.keyless WHERE id = 3", "UPDATE {0}.keyless SET v = 'y' WHERE id = 3"),
    ("duplicate-key", "INSERT INTO {0}.keyed VALUES (9, 'k', '')", "INSERT INTO {0}.keyed VALUES (9, 'z', '')"),
    ("duplicate-key", "INSERT INTO {0}.keyed VALUES (9, 'k', '')", "UPDATE {0}.keyed SET u = 'k' WHERE id = 3"),
]


@pytest.mark.parametrize(("error", "at_target", "at_source"), BROKEN)
def test_what_the_target_refuses_is_the_same_error(twins: Twins, error: str, at_target: str, at_source: str) -> None:
    twins.create(*TABLES)
    twins.begin()
    twins.upstream.execute(
        f"INSERT INTO {twins.name}.keyed VALUES (1, 'a', ''), (3, 'c', '')",
        f"INSERT INTO {twins.name}.keyless VALUES (1, 'a'), (3, 'c')",
    )
    for task in twins.tasks.values():
        twins.follow(task)
    for schema in (twins.name, twins.by_sql):
        twins.target.execute(at_target.format(schema))
    twins.upstream.execute(f"UPDATE {twins.name}.keyed SET v = 'before' WHERE id = 1", at_source.format(twins.name))
    told = []
    for schema, task in zip((twins.name, twins.by_sql), twins.tasks.values(), strict=True):
        with pytest.raises(DMError) as caught:
            twins.follow(task)
        found = caught.value
        told.append((found.name, found.position, found.message.replace(schema, "S"), found.cause.replace(schema, "S")))
        assert twins.target.query(f"SELECT v FROM {schema}.keyed WHERE id = 1") == (("before",),)
    assert told[0] == told[1]
    assert told[0][0] == error


def test_a_table_whose_events_are_refused_goes_as_sql(twins: Twins) -> None:
    twins.create(*TABLES)
    twins.begin()
    task = twins.tasks["auto"]
    with running_sync(task) as sync:
        twins.upstream.execute(
            f"INSERT INTO {twins.name}.hot VALUES (1, 1)", f"INSERT INTO {twins.name}.parts VALUES (1, 'a')"
        )
        assert forms(sync.wait_synced())["hot"] == ("events", "")
        # Somebody changes the target's table while the task runs: SQL does not mind, an event can't be converted.
        twins.target.execute(f"ALTER TABLE {twins.name}.hot MODIFY v BIGINT")
        for number in range(2, 6):
            twins.upstream.execute(
                f"INSERT INTO {twins.name}.hot VALUES ({number}, 1)", f"UPDATE {twins.name}.parts SET v = '{number}'"
            )
            status = sync.wait_synced()
        found = forms(status)
    assert found["hot"][0] == "sql"
    assert "1105" in str(found["hot"][1])
    assert found["parts"] == ("events", "")
    assert twins.target.query(f"SELECT COUNT(*), SUM(v) FROM {twins.name}.hot") == ((5, 5),)


def test_without_the_privilege_rows_go_as_sql(twins: Twins, flavor: Flavor) -> None:
    twins.create(*TABLES)
    user = f"u_{twins.name}"
    privileges = "CREATE, SELECT, INSERT, UPDATE, DELETE, ALTER, DROP, INDEX, REFERENCES"
    applier = {"mysql": "REPLICATION_APPLIER", "mariadb": "BINLOG REPLAY"}[flavor]
    twins.target.execute(f"CREATE USER {user} IDENTIFIED BY 'pw'", f"GRANT {privileges} ON *.* TO {user}")
    plain = twins.tasks["auto"]
    secret = type(plain.target.password)("pw")
    task = plain.model_copy(update={"target": plain.target.model_copy(update={"user": user, "password": secret})})
    try:
        twins.follow(task)
        for number, granted in enumerate((False, True)):
            if granted:
                twins.target.execute(f"GRANT {applier} ON *.* TO {user}")
            with running_sync(task) as sync:
                twins.upstream.execute(f"INSERT INTO {twins.name}.hot VALUES ({number}, 1)")
                status = sync.wait_synced()
            form, why = forms(status)["hot"]
            assert (form, applier in str(why)) == (("events", False) if granted else ("sql", True))
            assert status["eventRows"] == int(granted)
        assert twins.target.query(f"SELECT COUNT(*) FROM {twins.name}.hot") == ((2,),)
    finally:
        twins.target.execute(f"DROP USER {user}")


def test_mariadb_that_passes_over_what_is_missing_is_noticed_while_the_task_runs(
    park: ServerPark, schema: SchemaFactory
) -> None:
    upstream, target = park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target")
    twins = Twins(upstream, target, schema(upstream, target, prefix="form"))
    twins.create(*TABLES)
    twins.begin()
    upstream.execute(f"INSERT INTO {twins.name}.hot VALUES (1, 1), (2, 2)")
    sync = RunningSync(twins.tasks["auto"], None)
    try:
        assert forms(sync.wait_synced())["hot"] == ("events", "")
        target.execute("SET GLOBAL slave_exec_mode = 'IDEMPOTENT'", f"DELETE FROM {twins.name}.hot WHERE id = 1")
        upstream.execute(f"UPDATE {twins.name}.hot SET v = 7")
        error = sync.wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "row-missing"
    finally:
        target.execute("SET GLOBAL slave_exec_mode = 'STRICT'")
        sync.stop()
        twins.close()
