"""Two tasks in opposite directions at once: each leaves out what the other one has written, exactly that."""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from pydantic import SecretStr

from dm.config import Endpoint
from dm.config.references import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.opposite import Opposite, announce, sessions_for
from dm.progress.opposite_sources import OppositeSources, note_source
from dm.sourcelog.stream.marks import OWN, EarlierSessions
from dm.sourcelog.upstream.connection import Connection, connect
from dm.task.precheck.context import Answers, CheckResult, Context, open_server
from dm.task.precheck.opposite import named_each_other
from dm.task.progress import key_of
from tests.live.worker.test_way_back import end_of
from tests.testbed.sync import RunningSync, endpoint_of, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live


@pytest.fixture
def name(upstreams: tuple[ThrowawayServer, ThrowawayServer]) -> Iterator[str]:
    name = f"both_{secrets.token_hex(3)}"
    for server in upstreams:
        server.execute(
            f"CREATE DATABASE {name}",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT, side VARCHAR(9))",
            f"CREATE TABLE {name}.keyless (v INT)",
        )
    yield name
    for server in upstreams:
        server.execute(*(f"DROP DATABASE IF EXISTS {each}" for each in (name, f"meta_{name}", f"meta_{name}_back")))


def both_ways(
    servers: tuple[ThrowawayServer, ThrowawayServer], name: str, row_format: str = "auto"
) -> tuple[SubtaskConfig, SubtaskConfig]:
    """A task and its opposite, from where both servers are now."""
    first, second = servers
    forward = subtask_for(first, second, name, task=name, meta=end_of(first), workers=2, row_format=row_format)
    back = subtask_for(second, first, name, task=f"{name}_back", meta=end_of(second), workers=2, row_format=row_format)
    return opposite(forward, back), opposite(back, forward)


def opposite(one: SubtaskConfig, other: SubtaskConfig) -> SubtaskConfig:
    return one.model_copy(update={"opposite": other.task, "opposite_meta_schema": other.meta_schema})


def looking(task: SubtaskConfig, **syncer: object) -> SubtaskConfig:
    """The task as it looks for conflicts."""
    settings = task.syncer.model_copy(update={"conflicts": "pause", "atomic_transactions": True, **syncer})
    return task.model_copy(update={"syncer": settings})


def settle(*syncs: RunningSync) -> None:
    """Until what each of them has brought is read, and left out, by the other one."""
    for sync in (*syncs, *syncs):
        sync.wait_synced()


def committed(server: ThrowawayServer, task: SubtaskConfig, since: int, file: str) -> int:
    """The transactions of a task in a server's binlog, as the server itself shows it."""
    found, inside = 0, False
    progress = re.compile(rf"\({task.meta_schema}\.{task.task}_(syncer_worker|loader_checkpoint)\)")
    files = [name for name, *_ in server.query("SHOW BINARY LOGS") if name >= file]
    for each in files:
        begin = f" FROM {since}" if each == file else ""
        for _, _, kind, _, _, info in server.query(f"SHOW BINLOG EVENTS IN '{each}'{begin}"):
            if kind.lower() in ("gtid", "anonymous_gtid", "xid") or info in ("BEGIN", "COMMIT"):
                found, inside = found + inside, False
            inside = inside or bool(progress.search(info))
    return found + inside


def equal(sync: RunningSync, server: ThrowawayServer, begin: StartPoint, task: SubtaskConfig) -> None:
    """Until a task has left out as many transactions as its opposite has committed, by the server's own word."""

    def counted() -> bool:
        there = committed(server, task, begin.binlog_pos, begin.binlog_name)
        return 0 < there == sync.unit.status()["oppositeTransactions"]

    wait_until(counted, f"{sync.unit.status()['oppositeTransactions']} transactions of {task.task} in the binlog")


def test_announcements_are_those_of_the_server_that_wrote_them(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str
) -> None:
    """A replica that became the source has the rows of the server before it, whose sessions had the same numbers.

    Of numbers that no server gives, none comes twice.
    """
    first = upstreams[0]
    forward, back = both_ways(upstreams, name)
    opposite_task, key = Opposite(back.meta_schema, back.task), key_of(back)
    with limited(first, f"{back.meta_schema}.*") as few, closing(TargetConnection(few)) as session:
        announce(session, key)
        number = session.connection_id
    with closing(TargetConnection(endpoint_of(first))) as session:
        announce(session, key)
    own = int(first.query(f"SELECT MAX(connection_id) FROM {key.session.sql}")[0][0])
    assert number < OWN <= own
    first.execute(
        f"INSERT INTO {key.session.sql} SELECT connection_id + 1, started, server_id + 1, id, create_time"
        f" FROM {key.session.sql} ORDER BY 1"
    )

    def earlier(server_id: int, age: int, elsewhere: bool = False) -> EarlierSessions:
        asked = sessions_for(lambda: connect(forward.source.endpoint), opposite_task, lambda _: elsewhere)
        return asked(server_id, age)

    ours, now = int(first.query("SELECT @@GLOBAL.server_id")[0][0]), int(time.time())
    assert earlier(ours, now) == EarlierSessions(frozenset({number, own}))
    assert earlier(ours, 1000) == EarlierSessions(frozenset({own}))
    assert earlier(ours + 1, now) == EarlierSessions(frozenset({own + 1}), frozenset({number + 1}))
    assert earlier(ours, now, elsewhere=True) == EarlierSessions()


@contextmanager
def limited(server: ThrowawayServer, *places: str) -> Iterator[Endpoint]:
    """An account that may do all at some places, and nothing else."""
    account = f"few_{secrets.token_hex(3)}"
    server.execute(
        f"CREATE USER {account}@'%' IDENTIFIED BY 'Wenig-9'", *(f"GRANT ALL ON {at} TO {account}@'%'" for at in places)
    )
    try:
        yield endpoint_of(server).model_copy(update={"user": account, "password": SecretStr("Wenig-9")})
    finally:
        server.execute(f"DROP USER {account}@'%'")


@pytest.mark.ci_flavor("mysql")
def test_a_person_who_writes_under_the_number_of_a_tasks_session_is_not_taken_for_it(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str
) -> None:
    """As the output of mysqlbinlog does, which sets pseudo_thread_id to whatever number the statement had elsewhere."""
    first, second = upstreams
    forward, back = both_ways(upstreams, name)
    with running_sync(forward) as onwards, running_sync(back) as home:
        settle(onwards, home)
        first.execute(f"ALTER TABLE {name}.t ADD COLUMN c INT")
        settle(onwards, home)
        # The task's session is still there, under the number that the server has given it.
        ids = [number for (number,) in second.query("SELECT id FROM information_schema.processlist")]
        for at, number in enumerate(ids):
            second.execute(f"SET SESSION pseudo_thread_id = {number}", f"CREATE TABLE {name}.of_{at} (a INT)")
        settle(onwards, home)
        made = first.query(f"SHOW TABLES IN {name} LIKE 'of%'")
        assert home.unit.status()["oppositeStatements"] == 1
    assert len(made) == len(ids)


@pytest.mark.ci_flavor("mariadb")
def test_what_the_opposite_brings_from_another_server_comes_to_the_target(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, name: str
) -> None:
    """The task that follows this target follows a third server, too, under one name and with one progress."""
    first, _ = upstreams
    forward, back = both_ways(upstreams, name)
    beside = subtask_for(target, first, name, task=back.task, source_id="source-3", meta=end_of(target), workers=2)
    target.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT, side VARCHAR(9))")
    try:
        with running_sync(forward) as onwards, running_sync(back) as home, running_sync(beside) as third:
            settle(onwards, home, third)
            target.execute(
                f"INSERT INTO {name}.t VALUES (5, 5, 'third')", f"CREATE TABLE {name}.of_third (id INT PRIMARY KEY)"
            )
            first.execute(f"INSERT INTO {name}.t VALUES (1, 1, 'first')")
            third.wait_synced()
            settle(onwards, home)
        for server in upstreams:
            assert server.query(f"SELECT id FROM {name}.t ORDER BY id") == ((1,), (5,))
            assert len(server.query(f"SHOW TABLES IN {name} LIKE 'of_third'")) == 1
    finally:
        target.execute(f"DROP DATABASE IF EXISTS {name}")


@pytest.mark.ci_flavor("mysql")
def test_a_load_says_which_server_it_reads(upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str) -> None:
    """It has no checkpoint: one of another server was left out in silence."""
    first, second = upstreams
    forward, back = both_ways(upstreams, name)
    key = key_of(back)
    facts = {}
    for server in upstreams:
        with open_server(endpoint_of(server), "source") as opened:
            facts[server] = opened.facts
    with closing(TargetConnection(endpoint_of(first))) as session:
        note_source(session, key, facts[second].server_uuid)
        note_source(session, replace(key, source_id="third"), facts[first].server_uuid)
    questions = Counter[str]()

    def open_source() -> Connection:
        questions["source"] += 1
        return connect(forward.source.endpoint)

    asked = OppositeSources(open_source, forward.target, key)
    place = Position(facts[first].server_uuid, "bin.000001", 4)
    assert (asked.of_others(key.source_id), asked.of_others("third"), asked.of_others("nobody")) == (False, True, False)
    assert asked.of_others(replace(key, source_id="third").second.source_id)
    asked.demand(key.source_id, place)
    assert (asked.of_others("nobody"), questions["source"]) == (False, 2), "that nothing is said of one is kept, too"
    for source_id, error in (("third", "opposite-elsewhere"), ("nobody", "opposite-source-unknown")):
        with pytest.raises(DMError) as raised:
            asked.demand(source_id, place)
        assert raised.value.name == error
    with closing(TargetConnection(endpoint_of(first))) as session:
        note_source(session, replace(key, source_id="nobody"), facts[second].server_uuid)
    asked.demand("nobody", place)  # said since
    with closing(TargetConnection(endpoint_of(first))) as session:
        note_source(session, key, "another server")
    asked.ask_again()
    with pytest.raises(DMError, match="nothing says which server"):
        asked.demand(key.source_id, place)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("row_format", ["auto", "sql"])
def test_no_transaction_goes_round_and_none_is_left_out(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str, row_format: str
) -> None:
    first, second = upstreams
    forward, back = both_ways(upstreams, name, row_format)
    begins = [end_of(server) for server in (second, first)]
    with running_sync(forward) as onwards, running_sync(back) as home:
        settle(onwards, home)
        for number in range(4):
            first.execute(
                f"INSERT INTO {name}.t VALUES ({number}, 0, 'first')", f"INSERT INTO {name}.keyless VALUES (1)"
            )
            second.execute(
                f"INSERT INTO {name}.t VALUES ({100 + number}, 0, 'second')", f"INSERT INTO {name}.keyless VALUES (2)"
            )
        settle(onwards, home)
        first.execute(f"ALTER TABLE {name}.t ADD COLUMN c INT DEFAULT 7", f"CREATE TABLE {name}.u (id INT PRIMARY KEY)")
        settle(onwards, home)
        second.execute(f"UPDATE {name}.t SET c = id WHERE id >= 100", f"INSERT INTO {name}.u VALUES (5)")
        settle(onwards, home)
        first.execute(f"DELETE FROM {name}.t WHERE id = 101", f"TRUNCATE TABLE {name}.keyless", f"DROP TABLE {name}.u")
        settle(onwards, home)
        second.execute(f"INSERT INTO {name}.keyless VALUES (3)")
        settle(onwards, home)
        for sync, server, begin, task in ((home, second, begins[0], forward), (onwards, first, begins[1], back)):
            equal(sync, server, begin, task)
        executed = onwards.unit.status()["ddlExecuted"]
        statements = [sync.unit.status()["oppositeStatements"] for sync in (home, onwards)]
    for server in upstreams:
        assert server.query(f"SELECT v FROM {name}.keyless") == ((3,),)
        assert server.query(f"SELECT id, c FROM {name}.t ORDER BY id") == tuple(
            [(number, 7) for number in range(4)] + [(100 + number, 100 + number) for number in (0, 2, 3)]
        )
        assert server.query(f"SHOW TABLES IN {name} LIKE 'u'") == ()
    assert (executed, statements) == (4, [4, 0])


@pytest.mark.ci_flavor("mariadb")
def test_a_check_says_what_the_two_tasks_lack(upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str) -> None:
    first, second = upstreams
    forward, back = both_ways(upstreams, name)
    assert "has not begun" in checked(forward).message
    with running_sync(back.model_copy(update={"opposite": ""})) as home:
        home.wait_synced()
    found = checked(forward)
    assert (found.state, "does not name this task" in found.message) == ("failure", True)
    assert f"`opposite: {forward.task}`" in found.instruction
    assert f"opposite-meta-schema: {forward.meta_schema}" in found.instruction
    with running_sync(back) as home:
        home.wait_synced()
    assert checked(forward).state == "success"
    assert "reads this target" in checked(forward).message
    elsewhere = forward.model_copy(update={"target": endpoint_of(first)})
    assert "does not read this target" in checked(elsewhere).message
    beside = subtask_for(first, first, name, task=back.task, source_id="source-2", meta=end_of(first))
    with running_sync(opposite(beside, forward)) as other:
        other.wait_synced()
    assert (checked(forward).state, "from source-2 comes to this target" in checked(forward).message) == (
        "success",
        True,
    )
    with limited(second, f"{name}.*") as few:
        found = checked(forward.model_copy(update={"target": few}))
    assert (found.state, "may not set pseudo_thread_id" in found.message) == ("warning", True)
    assert "ON *.* TO 'few_" in found.instruction
    with limited(first, f"{name}.*") as few:
        found = checked(forward.model_copy(update={"source": forward.source.model_copy(update={"endpoint": few})}))
    assert (found.state, "can't be read" in found.message) == ("failure", True)
    assert f"GRANT SELECT ON `{back.meta_schema}`.*" in found.instruction


def checked(subtask: SubtaskConfig) -> CheckResult:
    with open_server(subtask.source.endpoint, "source") as source, open_server(subtask.target, "target") as target:
        [result] = named_each_other(Context(subtask, source, target), Answers("opposite", "source"))
        return result


@pytest.mark.ci_flavor("mysql")
def test_in_a_ring_of_three_a_change_goes_round(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, name: str
) -> None:
    ring = (*upstreams, target)
    target.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.keyless (v INT)")
    tasks = [
        subtask_for(one, other, name, task=f"{name}_{at}", meta=end_of(one), workers=1)
        for at, (one, other) in enumerate(zip(ring, (*ring[1:], ring[0]), strict=True))
    ]
    try:
        with running_sync(tasks[0]), running_sync(tasks[1]), running_sync(tasks[2]):
            ring[0].execute(f"INSERT INTO {name}.keyless VALUES (1)")
            wait_until(lambda: len(ring[0].query(f"SELECT v FROM {name}.keyless")) > 2, "the row has come round twice")
    finally:
        for server in ring:
            server.execute(*(f"DROP DATABASE IF EXISTS meta_{name}_{at}" for at in range(3)))
        target.execute(f"DROP DATABASE IF EXISTS {name}")
