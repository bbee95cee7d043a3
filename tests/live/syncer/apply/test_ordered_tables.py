"""A replay takes each table the way that earlier runs took it: by its keys, or in the source's order."""

from __future__ import annotations

import pytest

from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import WITHOUT_CHECKPOINTS, RunningSync, SyncProcess, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live

TABLE = "CREATE TABLE `{name}`.{table} (k {type} NOT NULL{key}, v INT)"
KEY = " PRIMARY KEY"


def killed(subtask: SubtaskConfig, upstream: ThrowawayServer, *changes: str, patch: str = WITHOUT_CHECKPOINTS) -> None:
    """A run that applies the changes, and is killed before its checkpoint is after them."""
    process = SyncProcess(subtask, patch=patch)
    process.wait_synced()
    for change in changes:
        upstream.execute(change)
        process.wait_synced()
    process.close(kill=True)


def caught_up(subtask: SubtaskConfig) -> None:
    with running_sync(subtask) as sync:
        sync.wait_synced()


def merging(name: str) -> RouteRule:
    return RouteRule(schema_pattern=name, table_pattern="t?", target_schema=name, target_table="t")


def create(server: ThrowawayServer, name: str, table: str, *, of: str = "INT", key: str = KEY) -> None:
    server.execute(TABLE.format(name=name, table=table, type=of, key=key))


def stored(subtask: SubtaskConfig, target: ThrowawayServer) -> list[str]:
    """The tables that are known to be changed in order."""
    table = f"{subtask.meta_schema}.{subtask.task}_syncer_ordered"
    rows = target.query(f"SELECT cp_table FROM {table} WHERE number >= 0 ORDER BY 1")
    return [str(row[0]) for row in rows]


CHANGES = (
    "INSERT INTO `{name}`.t VALUES (1, 1), (2, 2)",
    "UPDATE `{name}`.t SET v = v + 1",
    "INSERT INTO `{name}`.t VALUES (3, 3)",
)


@pytest.mark.ci_flavor("mysql")
def test_a_key_that_the_target_lost_in_between_stops_the_replay(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "t")
    subtask = subtask_for(upstream, target, name, task=name)
    caught_up(subtask)
    killed(subtask, upstream, *(change.format(name=name) for change in CHANGES))
    target.execute(f"ALTER TABLE `{name}`.t DROP PRIMARY KEY")

    for _ in range(2):
        error = RunningSync(subtask, None).wait_ended()
        assert isinstance(error, DMError)
        assert (error.name, bool(error.position)) == ("replay-out-of-order", True)
    rows = f"SELECT k, v FROM `{name}`.t ORDER BY k"
    assert target.query(rows) == upstream.query(rows)

    target.execute(f"ALTER TABLE `{name}`.t ADD PRIMARY KEY (k)")
    caught_up(subtask)
    target.execute(f"ALTER TABLE `{name}`.t DROP PRIMARY KEY")  # nothing is open any more
    upstream.execute(f"INSERT INTO `{name}`.t VALUES (4, 4)")
    caught_up(subtask)
    assert target.query(rows) == upstream.query(rows)
    assert stored(subtask, target) == ["reached", "t"]


@pytest.mark.ci_flavor("mariadb")
def test_a_unique_key_that_admits_null_is_no_key_that_is_left(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE `{name}`.t (k INT PRIMARY KEY, v INT, u INT NULL UNIQUE)")
    subtask = subtask_for(upstream, target, name, task=name)
    caught_up(subtask)
    killed(subtask, upstream, f"INSERT INTO `{name}`.t VALUES (1, 1, NULL), (2, 2, NULL)")
    target.execute(f"ALTER TABLE `{name}`.t DROP PRIMARY KEY")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "replay-out-of-order"
    assert target.query(f"SELECT COUNT(*) FROM `{name}`.t") == ((2,),)


@pytest.mark.ci_flavor("mariadb")
def test_progress_of_a_version_without_this_record_demands_nothing(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "t", key="")
    subtask = subtask_for(upstream, target, name, task=name)
    caught_up(subtask)
    killed(subtask, upstream, *(change.format(name=name) for change in CHANGES))
    target.execute(f"DELETE FROM {subtask.meta_schema}.{subtask.task}_syncer_ordered")
    upstream.execute(f"UPDATE `{name}`.t SET v = v + 1 WHERE k = 1")
    caught_up(subtask)
    rows = f"SELECT k, v FROM `{name}`.t ORDER BY k"
    assert target.query(rows) == upstream.query(rows)


@pytest.mark.ci_flavor("mariadb")
def test_a_key_that_the_target_got_in_between_changes_nothing(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "t", key="")
    subtask = subtask_for(upstream, target, name, task=name)
    caught_up(subtask)
    killed(subtask, upstream, *(change.format(name=name) for change in CHANGES))
    assert stored(subtask, target) == ["reached", "t"]
    target.execute(f"ALTER TABLE `{name}`.t ADD PRIMARY KEY (k)")
    upstream.execute(f"UPDATE `{name}`.t SET v = v + 1 WHERE k = 1")
    caught_up(subtask)
    rows = f"SELECT k, v FROM `{name}`.t ORDER BY k"
    assert target.query(rows) == upstream.query(rows)
    upstream.execute(f"DELETE FROM `{name}`.t WHERE k = 2")
    caught_up(subtask)  # by its key now
    assert target.query(rows) == upstream.query(rows)
    assert stored(subtask, target) == ["reached"]


@pytest.mark.ci_flavor("mysql")
def test_keys_that_come_and_go_at_the_source_are_followed(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "t")
    subtask = subtask_for(upstream, target, name, task=name)
    caught_up(subtask)
    first = (*CHANGES, "ALTER TABLE `{name}`.t DROP PRIMARY KEY", "INSERT INTO `{name}`.t VALUES (5, 5)")
    killed(subtask, upstream, *(change.format(name=name) for change in first))
    assert stored(subtask, target) == ["reached", "t"]
    second = ("ALTER TABLE `{name}`.t ADD PRIMARY KEY (k)", "UPDATE `{name}`.t SET v = v * 2")
    killed(subtask, upstream, *(change.format(name=name) for change in second))
    assert stored(subtask, target) == ["reached"]
    caught_up(subtask)
    rows = f"SELECT k, v FROM `{name}`.t ORDER BY k"
    assert target.query(rows) == upstream.query(rows)


# A table whose rows the target finds by their key, and one of which it does not: from a number to a text.
MERGED = (
    ("INSERT INTO `{name}`.t2 VALUES ('5', 1)", "DELETE FROM `{name}`.t2", "INSERT INTO `{name}`.t1 VALUES (5, 2)"),
    ("INSERT INTO `{name}`.t2 VALUES (5, 1)", "UPDATE `{name}`.t2 SET k = 6", "INSERT INTO `{name}`.t1 VALUES (5, 2)"),
    ("INSERT INTO `{name}`.t1 VALUES (5, 2)", "DELETE FROM `{name}`.t1", "INSERT INTO `{name}`.t2 VALUES ('5', 1)"),
)  # fmt: skip


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("changes", MERGED)
@pytest.mark.parametrize("kills", [1, pytest.param(2, marks=pytest.mark.chaos)])
def test_a_keyed_table_merged_with_one_without_survives_a_crash(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, changes: tuple[str, ...], kills: int
) -> None:
    name = schema(upstream, target)
    create(upstream, name, "t1")
    create(upstream, name, "t2", of="VARCHAR(20)")
    create(target, name, "t", of="VARCHAR(20)")
    subtask = subtask_for(upstream, target, name, task=name, routes=(merging(name),))
    caught_up(subtask)
    for _ in range(kills):
        killed(subtask, upstream, *(change.format(name=name) for change in changes))
        upstream.execute(f"DELETE FROM `{name}`.t1", f"DELETE FROM `{name}`.t2")
    caught_up(subtask)
    assert target.query(f"SELECT * FROM `{name}`.t") == ()
    killed(subtask, upstream, *(change.format(name=name) for change in changes))
    caught_up(subtask)
    both = f"SELECT CAST(k AS CHAR), v FROM `{name}`.t1 UNION ALL SELECT k, v FROM `{name}`.t2 ORDER BY 1"
    assert target.query(f"SELECT k, v FROM `{name}`.t ORDER BY 1") == upstream.query(both)


# Where a run dies in the transaction that shows that the table has to go in order.
DIES = {
    "not": "",
    "before_the_ordered_lane_commits": """
from dm.syncer.apply.lanes import Lanes
def place_ordered(self, *arguments):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
Lanes.place_ordered = Lanes.stream_ordered = place_ordered
""",
}


# The ordered lane begins when the workers have done what they were given.
AHEAD = """
from dm.syncer.apply.apply_lane import ApplyLane
commit = ApplyLane._commit
done = threading.Event()
def in_turn(self, jobs):
    if self._ordered:
        assert done.wait(60)
    commit(self, jobs)
    if sum(len(job.changes) for job in jobs) and not self._ordered:
        done.set()
ApplyLane._commit = in_turn
"""


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("rows", [10, 20_000])
@pytest.mark.parametrize("dies", DIES)
@pytest.mark.ci_sample(2)
def test_a_crash_in_the_transaction_that_shows_it_leaves_all_rows_once(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, rows: int, dies: str
) -> None:
    name = schema(upstream, target)
    create(upstream, name, "t1")
    create(upstream, name, "t2", of="VARCHAR(20)")
    create(target, name, "t")
    numbers = "(1)" + "".join(f", ({number})" for number in range(2, rows + 1))
    upstream.execute(f"CREATE TABLE {name}.numbers (n INT PRIMARY KEY)", f"INSERT INTO {name}.numbers VALUES {numbers}")
    subtask = subtask_for(upstream, target, name, task=name, routes=(merging(name),), narrower_columns="accept")
    caught_up(subtask)
    session = upstream.connect(database=name, autocommit=False)
    with session, session.cursor() as cursor:
        cursor.execute("INSERT INTO t1 SELECT n, 1 FROM numbers")
        session.commit()
        cursor.execute("UPDATE t1 SET k = -k WHERE k % 3 = 0")
        cursor.execute("DELETE FROM t1 WHERE k % 2 = 1")
        cursor.execute("INSERT INTO t2 SELECT n, 2 FROM numbers WHERE n % 6 = 1")
        cursor.execute("UPDATE t1 SET v = v + 10")
        session.commit()
    process = SyncProcess(subtask, patch=WITHOUT_CHECKPOINTS + DIES[dies])
    if DIES[dies]:
        assert process.wait_killed()
        process.close()
    else:
        process.wait_synced()
        process.close(kill=True)
    caught_up(subtask)
    both = f"SELECT k, v FROM `{name}`.t1 UNION ALL SELECT CAST(k AS SIGNED), v FROM `{name}`.t2 ORDER BY 1"
    assert target.query(f"SELECT k, v FROM `{name}`.t ORDER BY 1") == upstream.query(both)


@pytest.mark.ci_flavor("mysql")
def test_what_the_target_refused_of_such_tables_is_refused_until_a_person_decides(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(upstream, name, "t1")
    create(upstream, name, "t2", of="VARCHAR(20)")
    create(target, name, "t")
    for server in (upstream, target):
        create(server, name, "other")
    subtask = subtask_for(upstream, target, name, task=name, routes=(merging(name),), narrower_columns="accept")
    caught_up(subtask)
    upstream.execute(f"INSERT INTO `{name}`.t1 VALUES (1, 1)", f"INSERT INTO `{name}`.t2 VALUES (2, 2)")
    caught_up(subtask)
    # Other lanes are ahead of the row that is refused, so it is in the middle of what is replayed.
    rows = ", ".join(f"({number}, 0)" for number in range(1, 2000))
    upstream.execute(
        f"INSERT INTO `{name}`.t2 VALUES (3, 3)",
        f"INSERT INTO `{name}`.t1 VALUES (2, 1)",
        f"INSERT INTO `{name}`.other VALUES {rows}",
    )
    process = SyncProcess(subtask, patch=AHEAD)
    assert process.process.wait(60) == 1
    assert "[code=36924:" in process.errors()
    process.close()
    assert target.query(f"SELECT COUNT(*) > 0 FROM `{name}`.other") == ((1,),)
    for _ in range(2):
        error = RunningSync(subtask, None).wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "duplicate-key"
        assert target.query(f"SELECT v FROM `{name}`.t ORDER BY k") == ((1,), (2,), (3,))
    target.execute(f"DELETE FROM `{name}`.t WHERE k = 2")
    caught_up(subtask)
    assert target.query(f"SELECT v FROM `{name}`.t ORDER BY k") == ((1,), (1,), (3,))


# Workers begin, and never come to an end.
NO_WORKER_COMMITS = """
from dm.syncer.apply.apply_lane import ApplyLane
commit = ApplyLane._commit
def of_ordered(self, jobs):
    if not self._ordered:
        threading.Event().wait()
    commit(self, jobs)
ApplyLane._commit = of_ordered
"""


@pytest.mark.ci_flavor("mariadb")
def test_what_a_worker_had_not_done_is_not_taken_for_done_when_its_table_goes_in_order(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "t")
        create(server, name, "keyless", key="")
    subtask = subtask_for(upstream, target, name, task=name)
    caught_up(subtask)
    upstream.execute(f"INSERT INTO `{name}`.t VALUES (1, 1)", f"INSERT INTO `{name}`.keyless VALUES (1, 1)")
    process = SyncProcess(subtask, patch=WITHOUT_CHECKPOINTS + NO_WORKER_COMMITS)
    wait_until(lambda: bool(target.query(f"SELECT 1 FROM `{name}`.keyless")), "the ordered lane is ahead")
    process.close(kill=True)
    target.execute(f"ALTER TABLE `{name}`.t DROP PRIMARY KEY")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "replay-out-of-order"
    target.execute(f"ALTER TABLE `{name}`.t ADD PRIMARY KEY (k)")
    caught_up(subtask)
    for table in ("t", "keyless"):
        assert target.query(f"SELECT * FROM `{name}`.{table}") == ((1, 1),)


# A death before the first change of a table that goes in order, while workers have done what comes before it.
DIES_THERE = """
import signal
from dm.syncer.apply.ordered_lane import OrderedTables
def begin(self, plan, *arguments, **others):
    lanes.hold[0].drain()
    os.kill(os.getpid(), signal.SIGKILL)
class lanes:
    hold = []
from dm.syncer.apply.lanes import Lanes
start = Lanes.start
def remembered(self):
    lanes.hold.append(self)
    start(self)
Lanes.start = remembered
OrderedTables._begin = begin
"""


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("key", ["", KEY])
def test_a_table_that_a_transaction_had_not_come_to_is_no_table_that_lost_its_key(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, key: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "keyed")
    create(upstream, name, "t", key=key)
    create(target, name, "t", key="")
    subtask = subtask_for(upstream, target, name, task=name)
    caught_up(subtask)
    session = upstream.connect(database=name, autocommit=False)
    with session, session.cursor() as cursor:
        cursor.execute("INSERT INTO keyed VALUES (1, 1)")
        cursor.execute("INSERT INTO t VALUES (1, 1)")
        session.commit()
    process = SyncProcess(subtask, patch=DIES_THERE)
    assert process.wait_killed()
    process.close()
    assert target.query(f"SELECT * FROM `{name}`.keyed") == ((1, 1),)
    if key:  # it may have lost it just now
        error = RunningSync(subtask, None).wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "replay-out-of-order"
        return
    caught_up(subtask)
    assert target.query(f"SELECT * FROM `{name}`.t") == ((1, 1),)
