"""DDL of the source is split, routed, announced, executed and tracked."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import SecretStr

from dm.config.rules import FilterRule, RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.unit import JSON
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live

STATEMENTS = (
    "CREATE TABLE {s}.a (id INT PRIMARY KEY, v INT)",
    "INSERT INTO {s}.a VALUES (1, 1), (2, 2)",
    "ALTER TABLE {s}.a ADD COLUMN w VARCHAR(10) DEFAULT 'x' AFTER id, ADD COLUMN z INT UNSIGNED FIRST, ADD INDEX i (w)",
    "INSERT INTO {s}.a (id, v, w, z) VALUES (3, 3, 'drei', 4000000000)",
    "ALTER TABLE {s}.a DROP COLUMN v, MODIFY w VARCHAR(30) NOT NULL DEFAULT 'y'",
    "UPDATE {s}.a SET w = 'geändert' WHERE id = 1",
    "CREATE TABLE {s}.b LIKE {s}.a",
    "INSERT INTO {s}.b SELECT * FROM {s}.a",
    "RENAME TABLE {s}.a TO {s}.swap, {s}.b TO {s}.a, {s}.swap TO {s}.b",
    "DELETE FROM {s}.a WHERE id = 2",
    "ALTER TABLE {s}.b RENAME TO {s}.c, ADD COLUMN last INT",
    "INSERT INTO {s}.c (id, w, z, last) VALUES (9, 'neun', 9, 9)",
    "CREATE UNIQUE INDEX u ON {s}.c (last)",
    "TRUNCATE TABLE {s}.a",
    "INSERT INTO {s}.a (id, w, z) VALUES (5, 'fünf', 5)",
    "CREATE TABLE {s}.copied (PRIMARY KEY (id)) SELECT id, w FROM {s}.a",
    "INSERT INTO {s}.copied VALUES (99, 'after')",
    "CREATE TABLE {s}.gone (id INT)",
    "INSERT INTO {s}.gone VALUES (1)",
    "DROP TABLE {s}.gone",
)


def test_every_kind_of_ddl_between_rows(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        for statement in STATEMENTS:
            upstream.execute(statement.format(s=name))
        status = sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
    counted = {str(table["table"]): table["ddl"] for table in cast("list[dict[str, JSON]]", status["tables"])}
    assert counted[f"{name}.copied"] == 1
    assert counted[f"{name}.gone"] == 2
    assert sum(cast("dict[str, int]", counted).values()) > 15  # one that renames several counts for each
    assert status["ddlExecuted"] == 15  # the ALTERs are split into 3, 2 and 2 pieces, the swap of names is one
    recent = cast("list[dict[str, Any]]", status["recentDDLs"])
    assert [each["number"] for each in recent] == [*range(8, 16)]
    assert recent[-1]["text"].startswith("DROP TABLE")
    assert [each["ended"] for each in recent] == sorted(each["ended"] for each in recent)


@pytest.mark.ci_flavor("mysql")
def test_names_are_looked_for_where_the_source_looks(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name, other = schema(upstream, target), schema(upstream, target)
    for server in (upstream, target):
        server.execute(*(f"CREATE TABLE {one}.p (id INT PRIMARY KEY)" for one in (name, other)))
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"USE {other}",
            # The parents are in the schema of the child, not in the session's.
            f"CREATE TABLE {name}.c (first INT PRIMARY KEY, z INT, FOREIGN KEY (z) REFERENCES p (id))",
            f"ALTER TABLE {name}.c ADD COLUMN y INT AFTER first, ADD FOREIGN KEY (y) REFERENCES p (id)",
            f"ALTER TABLE {name}.c MODIFY z BIGINT NULL FIRST, DROP FOREIGN KEY c_ibfk_1",
            f"INSERT INTO {name}.p VALUES (1)",
            f"INSERT INTO {name}.c (first, y, z) VALUES (7, 1, 8)",
        )
        if upstream.flavor == "mariadb":
            upstream.execute(
                f"RENAME TABLE IF EXISTS {name}.nothing TO {name}.c",
                f"ALTER TABLE {name}.c ADD COLUMN x INT DEFAULT 5 FIRST",
                f"INSERT INTO {name}.c (first, y, z) VALUES (8, 1, 8)",
            )
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
    parents = (
        "SELECT table_name, column_name, referenced_table_schema FROM information_schema.key_column_usage"
        f" WHERE table_schema = '{name}' AND referenced_table_name IS NOT NULL"
    )
    assert target.query(parents) == upstream.query(parents) == (("c", "y", name),)


def shards_of_one_table(
    name: str, upstreams: Sequence[ThrowawayServer], target: ThrowawayServer
) -> list[SubtaskConfig]:
    """The subtasks of upstreams whose table `shard` becomes the target's `merged`; the tables are made."""
    for server in (*upstreams, target):
        server.execute(f"CREATE TABLE {name}.{'merged' if server is target else 'shard'} (id INT PRIMARY KEY, v INT)")
    rule = RouteRule(schema_pattern=name, table_pattern="shard", target_schema=name, target_table="merged")
    return [
        subtask_for(server, target, name, task=name, source_id=f"source-{number}", routes=(rule,))
        for number, server in enumerate(upstreams)
    ]


@pytest.mark.ci_flavor("mariadb")
def test_two_upstreams_that_run_the_same_alter_merge_into_one_table(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    subtasks = shards_of_one_table(name, upstreams, target)
    with running_sync(subtasks[0]) as one, running_sync(subtasks[1]) as two:
        one.wait_synced()
        two.wait_synced()
        for number, server in enumerate(upstreams):
            server.execute(
                f"INSERT INTO {name}.shard VALUES ({number}, 0), ({number + 10}, 0)",
                f"ALTER TABLE {name}.shard ADD COLUMN w INT NOT NULL DEFAULT 7, ADD INDEX by_w (w)",
                f"INSERT INTO {name}.shard VALUES ({number + 20}, {number}, 1)",
            )
            (one if number == 0 else two).wait_synced()
        statuses = [one.wait_synced(), two.wait_synced()]
    report = compare(pair_tables(list(upstreams), [name], route=lambda _, table: TableName(name, "merged")), target)
    assert report.identical, str(report)
    assert [status["ddlAlreadyEffective"] for status in statuses] == [0, 2]


@pytest.mark.ci_flavor("mariadb")
def test_upstreams_that_alter_at_the_same_time_take_turns(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(*upstreams, target)
    subtasks = shards_of_one_table(name, upstreams, target)
    log, gate = tmp_path / "faults", tmp_path / "go"
    waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE info REGEXP '^SELECT [A-Z_]*_LOCK.*dm:ddl:'"
    with running_sync(subtasks[1]) as two:
        one = SyncProcess(subtasks[0], faults=f"syncer.before_ddl=hang:{gate}", fault_log=log)
        try:
            one.wait_synced()
            two.wait_synced()
            for number, server in enumerate(upstreams):
                # An index without a name gets another one, and is never refused, where there is one already.
                server.execute(
                    f"ALTER TABLE {name}.shard ADD INDEX (v), ADD COLUMN w INT NOT NULL DEFAULT 7 AFTER id",
                    f"INSERT INTO {name}.shard VALUES ({number}, 1, 2)",
                )
                if number == 0:  # it has looked at the target, where nothing is done yet
                    wait_until(lambda: log.exists() and bool(log.read_text()), "the fault point is passed")
            wait_until(lambda: target.query(waiting)[0][0] == 1, "the other one waits for its turn")
            assert [index[2] for index in target.query(f"SHOW INDEX FROM {name}.merged")] == ["PRIMARY"]
            gate.touch()
            statuses = [one.wait_synced(), two.wait_synced()]
        finally:
            one.close()
    report = compare(pair_tables(list(upstreams), [name], route=lambda _, table: TableName(name, "merged")), target)
    assert report.identical, str(report)
    for counter in ("ddlExecuted", "ddlAlreadyEffective"):
        assert sum(cast("int", status[counter]) for status in statuses) == 2


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("point", ["syncer.before_ddl", "syncer.after_ddl"])
def test_an_upstream_that_died_in_an_alter_finds_the_other_one_ahead(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    tmp_path: Path,
    point: str,
) -> None:
    name = schema(*upstreams, target)
    subtasks = shards_of_one_table(name, upstreams, target)
    first = SyncProcess(subtasks[0], faults=f"{point}=kill@1", fault_log=tmp_path / "faults")
    with running_sync(subtasks[1]) as two:
        try:
            first.wait_synced()
            two.wait_synced()
            alters = [
                f"ALTER TABLE {name}.shard ADD COLUMN w INT NOT NULL DEFAULT 7, ADD INDEX by_w (w)",
                f"ALTER TABLE {name}.shard MODIFY v BIGINT, ADD COLUMN x INT",
            ]
            for number, server in enumerate(upstreams):
                server.execute(*alters, f"INSERT INTO {name}.shard VALUES ({number}, {number}, 1, 2)")
            assert first.wait_killed()
            two.wait_synced()
        finally:
            first.close()
        with running_sync(subtasks[0]) as one:
            one.wait_synced()
    report = compare(pair_tables(list(upstreams), [name], route=lambda _, table: TableName(name, "merged")), target)
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("point", ["syncer.before_ddl", "syncer.after_ddl"])
def test_a_table_that_is_neither_as_before_nor_as_after_pauses_until_it_is(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, point: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = subtask_for(upstream, target, name, task=name)
    killed = SyncProcess(subtask, faults=f"{point}=kill", fault_log=tmp_path / "faults")
    try:
        killed.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.t ADD COLUMN w INT NOT NULL DEFAULT 7", f"INSERT INTO {name}.t VALUES (1, 1, 1)"
        )
        assert killed.wait_killed()
    finally:
        killed.close()
    done = point == "syncer.after_ddl"
    # By hand: another type than the source's column, or another column.
    other = f"ALTER TABLE {name}.t MODIFY w VARCHAR(9)" if done else f"ALTER TABLE {name}.t ADD COLUMN w VARCHAR(9)"
    target.execute(other)
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("ddl-outcome-unclear", False)
    target.execute(f"ALTER TABLE {name}.t MODIFY w INT NOT NULL DEFAULT 7")
    with running_sync(subtask) as sync:
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mariadb")
def test_what_somebody_else_altered_just_before_the_statement_is_done(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    log, gate = tmp_path / "faults", tmp_path / "go"
    process = SyncProcess(
        subtask_for(upstream, target, name, task=name), faults=f"syncer.before_ddl=hang:{gate}@2", fault_log=log
    )
    alter = f"ALTER TABLE {name}.t ADD COLUMN w INT NOT NULL DEFAULT 7 AFTER id, DROP COLUMN v"
    try:
        process.wait_synced()
        upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)", alter)
        wait_until(lambda: log.exists() and bool(log.read_text()), "the fault point is passed")
        target.execute(alter)  # it has looked at the target, where nothing of this is done yet
        gate.touch()
        assert process.wait_synced()["ddlAlreadyEffective"] == 2
    finally:
        process.close()


# Before, between and after the three pieces of one statement, and before what is stored of the whole.
AROUND_PIECES = ("syncer.before_intent", "syncer.before_ddl", "syncer.after_ddl")
KILLS = [(point, number) for point in AROUND_PIECES for number in (1, 2, 3)] + [("syncer.after_ddl_record", 1)]
SAMPLE = [
    ("syncer.before_intent", 2),
    ("syncer.before_ddl", 3),
    ("syncer.after_ddl", 2),
    ("syncer.after_ddl_record", 1),
]


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("point", "number"), [pytest.param(*kill, marks=[] if kill in SAMPLE else [pytest.mark.chaos]) for kill in KILLS]
)
def test_a_kill_around_a_ddl_neither_repeats_nor_forgets_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, point: str, number: int, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = subtask_for(upstream, target, name, task=name)
    log = tmp_path / "faults"
    armed = SyncProcess(subtask, faults=f"{point}=kill@{number}", fault_log=log)
    try:
        armed.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.t VALUES (1, 1)",
            f"ALTER TABLE {name}.t ADD COLUMN a INT, ADD COLUMN b INT, DROP COLUMN v",
            f"INSERT INTO {name}.t VALUES (2, 2, 2)",
        )
        assert armed.wait_killed()
    finally:
        armed.close()
    assert log.read_text().startswith(point)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mariadb")
def test_a_kill_between_a_table_and_the_rows_it_was_created_with(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.t VALUES (1, 1)")
    subtask = subtask_for(upstream, target, name, task=name)
    armed = SyncProcess(subtask, faults="syncer.before_begin=kill@1")
    try:
        armed.wait_synced()
        upstream.execute(f"CREATE TABLE {name}.copied SELECT id, v, 'x' AS w FROM {name}.t")
        assert armed.wait_killed()
    finally:
        armed.close()
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.copied VALUES (2, 2, 'y')")
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


def test_a_sql_pattern_for_all_schemas_lets_a_statement_pass_unexecuted(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2")
    subtask = subtask_for(upstream, target, name, task=name)
    rule = FilterRule(schema_pattern="*", sql_pattern=("^CREATE TEMPORARY|REBUILD PARTITION",), action="Ignore")
    ignoring = subtask.model_copy(update={"filters": (rule,)})
    with running_sync(ignoring) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.t REBUILD PARTITION p0", f"INSERT INTO {name}.t VALUES (1)")
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


def test_charsets_are_inherited_and_a_filter_may_want_only_some_operations(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"ALTER DATABASE {name} CHARACTER SET latin1")
    subtask = subtask_for(upstream, target, name, task=name)
    rule = FilterRule(schema_pattern=name, table_pattern="t", events=("drop index",), action="Ignore")
    with running_sync(subtask.model_copy(update={"filters": (rule,)})) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, w VARCHAR(20), KEY old (w))",
            f"INSERT INTO {name}.t VALUES (1, 'é')",
            f"ALTER TABLE {name}.t DROP INDEX old, ADD INDEX old_2 (w, id)",
            f"INSERT INTO {name}.t VALUES (2, 'ü')",
        )
        sync.wait_synced()
    rows = f"SELECT id, HEX(w) FROM {name}.t ORDER BY id"
    assert target.query(rows) == upstream.query(rows) == ((1, "E9"), (2, "FC"))
    indexes = {row[2] for row in target.query(f"SHOW INDEX FROM {name}.t")}
    assert indexes == {"PRIMARY", "old", "old_2"}


def test_a_refused_ddl_pauses_and_goes_on_when_the_target_is_corrected(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = subtask_for(upstream, target, name, task=name)
    sync = RunningSync(subtask, None)
    try:
        sync.wait_synced()
        target.execute(f"INSERT INTO {name}.t VALUES (100, 7), (101, 7)")  # a stranger's rows
        upstream.execute(
            f"INSERT INTO {name}.t VALUES (1, 1)",
            f"ALTER TABLE {name}.t ADD COLUMN w INT, ADD UNIQUE KEY u (v)",
            f"INSERT INTO {name}.t VALUES (2, 2, 2)",
        )
        error = sync.wait_ended()
    finally:
        sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "ddl-failed"
    assert "ADD UNIQUE KEY" in error.message
    target.execute(f"DELETE FROM {name}.t WHERE id >= 100", f"ALTER TABLE {name}.t ADD COLUMN theirs INT")
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    assert target.query(f"SELECT id, v, w FROM {name}.t ORDER BY id") == ((1, 1, None), (2, 2, 2))
    assert {row[2] for row in target.query(f"SHOW INDEX FROM {name}.t")} == {"PRIMARY", "u"}


def test_a_ddl_without_its_privilege_names_it_and_goes_on_when_it_is_granted(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    user, password = f"u{secrets.token_hex(4)}", secrets.token_hex(8)
    rows = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP"
    target.create_user(user, password, f"{rows} ON `meta_{name}`.*", f"{rows} ON `{name}`.*")
    subtask = subtask_for(upstream, target, name, task=name)
    login = subtask.target.model_copy(update={"user": user, "password": SecretStr(password)})
    subtask = subtask.model_copy(update={"target": login})
    sync = RunningSync(subtask, None)
    try:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.t ADD COLUMN w INT", f"INSERT INTO {name}.t VALUES (1, 2)")
        error = sync.wait_ended()
    finally:
        sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "privilege-missing"
    assert "lacks the privilege ALTER on" in error.message
    target.execute(f"GRANT ALTER ON `{name}`.* TO '{user}'@'%'")
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    assert target.query(f"SELECT id, w FROM {name}.t") == ((1, 2),)
