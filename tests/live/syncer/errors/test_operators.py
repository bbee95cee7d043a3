"""Operators on servers: a crash at any point around one changes nothing about what it comes to."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.syncer.operators import EventPlace, Request, Verb
from dm.task.binlog_verbs import operate_on_event
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.timeout(300), pytest.mark.ci_flavor("mysql")]

# Three pieces are executed: two that replace the source's ALTER, one that is injected before the rows after it.
PIECES = 3
POINTS = ("syncer.before_intent", "syncer.before_ddl", "syncer.after_ddl")
RECORDS = ("syncer.after_ddl_record", "syncer.before_checkpoint", "syncer.after_checkpoint")
SAMPLE = ("syncer.after_ddl", 2), ("syncer.after_ddl_record", 2)
KILLS = [(point, number) for point in POINTS for number in range(1, PIECES + 1)] + [
    (point, number) for point in RECORDS for number in (1, 2)
]


def place(server: ThrowawayServer) -> str:
    status = "SHOW BINARY LOG STATUS" if server.flavor == "mysql" else "SHOW MASTER STATUS"
    file, offset, *_ = server.query(status)[0]
    return f"{file}:{offset}"


def ask(subtask: SubtaskConfig, verb: Verb, binlog_pos: str = "", *statements: str) -> Any:
    return operate_on_event(subtask, Request(verb, subtask.task, subtask.source_id, binlog_pos, statements), None)


@pytest.mark.parametrize(
    ("point", "number"),
    [pytest.param(*kill, marks=[] if kill in SAMPLE else [pytest.mark.chaos]) for kill in KILLS],
)
def test_a_kill_around_operators_neither_repeats_nor_forgets_them(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, point: str, number: int
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    altered = place(upstream)
    upstream.execute(f"ALTER TABLE {name}.t ADD COLUMN a INT")
    written = place(upstream)
    upstream.execute(f"INSERT INTO {name}.t VALUES (1, 2, 3)", f"INSERT INTO {name}.t VALUES (2, 3, 4)")
    ask(subtask, "replace", altered, f"ALTER TABLE {name}.t ADD COLUMN a INT, ADD COLUMN b INT DEFAULT 5")
    ask(subtask, "inject", written, f"ALTER TABLE {name}.t ADD COLUMN c INT DEFAULT 6")
    assert [one["op"] for one in ask(subtask, "list")] == ["replace", "inject"]

    log = tmp_path / "faults"
    armed = SyncProcess(subtask, faults=f"{point}=kill@{number}", fault_log=log)
    try:
        assert armed.wait_killed()
    finally:
        armed.close()
    assert log.read_text().startswith(point)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert sorted(target.query(f"SELECT id, v, a, b, c FROM {name}.t")) == [(1, 2, 3, 5, 6), (2, 3, 4, 5, 6)]
    assert ask(subtask, "list") == []


def test_a_refused_statement_that_was_replaced_leaves_nothing_of_its_announcement(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN b DATE")
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    altered = place(upstream)
    upstream.execute(
        f"ALTER TABLE {name}.t ADD COLUMN a INT, ADD COLUMN b INT", f"INSERT INTO {name}.t VALUES (1, 2, 3, 4)"
    )
    with running_sync(subtask) as sync:
        error = sync.wait_ended()
        sync.error = None
    assert getattr(error, "name", "") == "ddl-failed"
    intents = f"SELECT COUNT(*) FROM {subtask.meta_schema}.{name}_syncer_ddl"
    assert target.query(intents) == ((1,),)
    # Its second piece was refused, the first is done. The numbers of the replacement's pieces mean other statements.
    ask(subtask, "replace", altered, f"ALTER TABLE {name}.t DROP COLUMN b", f"ALTER TABLE {name}.t ADD COLUMN b INT")
    assert target.query(intents) == ((0,),)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert target.query(f"SELECT id, v, a, b FROM {name}.t") == ((1, 2, 3, 4),)


NOT_UNDERSTOOD = {
    "mysql": "CREATE TABLE IF NOT EXISTS {s}.t (a INT PRIMARY KEY, b INT PRIMARY KEY)",
    "mariadb": "CREATE TABLE {s}.v (a DATE, b DATE, PERIOD FOR p (a, b))",
}
NOT_EXECUTED = "ALTER TABLE {s}.t ADD COLUMN x VARCHAR(9) DEFAULT _latin1'ä'"


@pytest.mark.parametrize("read", [pytest.param(False, id="not understood"), pytest.param(True, id="not executed")])
def test_what_fails_while_a_statement_is_read_or_executed_tells_its_place_and_can_be_skipped(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, *, read: bool
) -> None:
    name = schema(upstream, target)
    statement = NOT_EXECUTED if read else NOT_UNDERSTOOD[upstream.flavor]
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    with closing(upstream.connect(charset="latin1", autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(statement.format(s=name))
    upstream.execute(f"CREATE TABLE {name}.later (id INT)")
    with running_sync(subtask) as sync:
        error = sync.wait_ended()
        sync.error = None
    assert isinstance(error, DMError)
    assert error.place is not None
    assert f", at ({error.place['file']}, {error.place['offset']})" in error.message
    operate_on_event(subtask, Request("skip", name, subtask.source_id), EventPlace.from_json(error.place))
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert target.query(f"SHOW TABLES FROM {name} LIKE 'later'") == (("later",),)


def test_a_running_task_takes_an_operator_for_what_is_still_to_come(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        request = Request("skip", name, subtask.source_id, place(upstream))
        sync.unit.ask("binlog", request.to_json())
        upstream.execute(f"ALTER TABLE {name}.t ADD COLUMN a INT")
        sync.wait_synced()
        assert [row[0] for row in target.query(f"SHOW COLUMNS FROM {name}.t")] == ["id", "v"]
        target.execute(f"ALTER TABLE {name}.t ADD COLUMN a INT")
        upstream.execute(f"INSERT INTO {name}.t VALUES (1, 2, 3)")
        sync.wait_synced()
    assert target.query(f"SELECT * FROM {name}.t") == ((1, 2, 3),)
