"""Operators on servers: a crash at any point around one changes nothing about what it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.syncer.operators import Place, Request, Verb
from dm.task.operators import operate
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.timeout(300), pytest.mark.ci_flavor("mysql")]

# Three pieces are executed: two that replace the source's ALTER, one that is injected before the rows behind it.
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
    return operate(subtask, Request(verb, subtask.task, subtask.source_id, binlog_pos, statements), None)


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


def test_a_body_that_is_not_understood_can_be_skipped_where_the_error_stands(
    mariadb: ThrowawayServer, park: ServerPark, schema: SchemaFactory
) -> None:
    target = park.shared("mariadb", "target")
    name = schema(mariadb, target)
    subtask = subtask_for(mariadb, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    mariadb.execute(f"CREATE TABLE {name}.t (id INT, a DATE, b DATE, PERIOD FOR p (a, b))")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "ddl-not-understood"
    assert error.place is not None
    failing = Place.from_json(error.place)
    assert failing.statement
    request = Request("skip", subtask.task, subtask.source_id, "", ())
    operate(subtask, request, failing)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert target.query(f"SHOW TABLES FROM {name}") == ()


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
