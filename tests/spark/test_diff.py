"""A comparison finds what differs, its statements make it equal, and what is equal it calls so, also under load."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import SecretStr

from dm.clock import SystemClock
from dm.config.rules import TableExtraction
from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.progress.compared import read_compared
from dm.progress.tables import SubtaskKey, remove_progress
from dm.spark.session import SparkProvider
from dm.tools.diff.chunk import Chunk, ChunkComparer, ChunkOutcome
from dm.tools.diff.done_chunks import DoneChunks, EqualChunk
from dm.tools.diff.report import TableReport
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest
from tests.live.relay.relaying import end_of
from tests.spark.conftest import LoadFactory
from tests.testbed.fake_clock import FakeClock
from tests.testbed.park import ServerPark
from tests.testbed.sync import running_sync

Outcomes = tuple[ChunkOutcome, ...]

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql")]

ROWS = "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 900)"
TABLES = (
    "CREATE TABLE one (id INT PRIMARY KEY, d DOUBLE, s VARCHAR(20), u INT UNIQUE)",
    f"INSERT INTO one {ROWS} SELECT i, i / 7, CONCAT('s', i), i FROM n",
    "CREATE TABLE two (a VARCHAR(10) COLLATE utf8mb4_bin, b DATE, e ENUM('x', 'y'), t BLOB, m DECIMAL(8, 3),"
    " PRIMARY KEY (a, b))",
    f"INSERT INTO two {ROWS} SELECT CONCAT('k', i % 30), DATE_ADD('2024-01-01', INTERVAL i DAY), 1 + i % 2,"
    " CONCAT(i, x'ff'), i / 8 FROM n",
    "CREATE TABLE keyless (v INT, w VARCHAR(10))",
    f"INSERT INTO keyless {ROWS} SELECT i % 50, IF(i % 3, 'w', NULL) FROM n",
)


def compared(spark: SparkProvider, subtasks: list[SubtaskConfig], **options: Any) -> tuple[str, dict[str, TableReport]]:
    """The verdict, and what is said of each table."""
    unit = DiffUnit(subtasks, DiffRequest(spark_from=0, rows=100, **options), spark)
    unit.run(threading.Event())
    assert unit.status()["over"]
    return unit.report.verdict, {table.name.table: table for table in unit.report.tables}


def execute(server: PrivateServer, directory: Path) -> None:
    """Run the statements of all files, as a client would."""
    for path in sorted(directory.glob("*.sql")):
        statements = path.read_text(encoding="utf-8", errors="surrogateescape").split(";\n")
        connection = server.connect(autocommit=True)
        try:
            with connection.cursor() as cursor:
                for statement in filter(None, statements):
                    cursor.execute(statement)
        finally:
            connection.close()


def test_differences_are_found_and_their_statements_end_them(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *TABLES)
    load.dump()
    load.load()
    verdict, tables = compared(spark, [load.subtask()])
    assert verdict == "equal", [table.to_json() for table in tables.values()]
    assert {name: (table.source_rows, table.target_rows) for name, table in tables.items()} == {
        "one": (900, 900), "two": (900, 900), "keyless": (900, 900),
    }  # fmt: skip
    assert tables["one"].chunks == 9 or tables["one"].chunks == 10
    target.execute(
        f"USE `{load.target_schema}`",
        "UPDATE one SET d = d * (1 + 2.3e-16) WHERE id = 77",
        "UPDATE one SET s = 's500 ' WHERE id = 500",
        "UPDATE one SET u = -1 WHERE id = 8",
        "UPDATE one SET u = 8 WHERE id = 9",
        "UPDATE one SET u = 9 WHERE id = 8",
        "DELETE FROM one WHERE id = 900",
        "INSERT INTO one VALUES (5000, 0, 'x', 900)",
        "UPDATE two SET a = 'K7' WHERE a = 'k7' AND b = '2024-01-08'",
        "UPDATE two SET e = 3 - e WHERE a = 'k9' LIMIT 1",
        "DELETE FROM keyless WHERE v = 3 LIMIT 1",
        "INSERT INTO keyless VALUES (4, NULL), (4, NULL)",
        "UPDATE keyless SET w = 'W' WHERE v = 7 AND w = 'w' LIMIT 1",
    )
    # For one thread these are so many chunks that a task takes two.
    verdict, tables = compared(spark, [load.subtask()], threads=1, fix_sql=str(tmp_path / "fix"))
    assert verdict == "different"
    assert (tables["one"].source_rows, tables["one"].target_rows) == (900, 900)
    assert (tables["keyless"].source_rows, tables["keyless"].target_rows) == (900, 901)
    keys = {name: sorted(row.key for row in table.shown) for name, table in tables.items()}
    assert keys["one"] == ["id=500", "id=5000", "id=77", "id=8", "id=9", "id=900"]
    assert keys["two"] == ["a=K7, b=2024-01-08", "a=k7, b=2024-01-08", "a=k9, b=2024-01-10"]
    assert tables["keyless"].differing == 4
    counts = sorted((row.sources, row.targets) for row in tables["keyless"].shown)
    assert counts == [(0, 1), (0, 2), (1, 0), (1, 0)]
    (changed,) = (row for row in tables["one"].shown if row.key == "id=500")
    assert (changed.columns, changed.source and changed.source["s"], changed.target and changed.target["s"]) == (
        ("s",), "s500", "s500 ",
    )  # fmt: skip
    execute(target, tmp_path / "fix")
    verdict, tables = compared(spark, [load.subtask()])
    assert verdict == "equal", [table.to_json() for table in tables.values()]
    assert load.report().identical


def test_options_say_what_counts(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer
) -> None:
    load = full_load(upstream, target, *TABLES)
    load.dump()
    load.load()
    target.execute(
        f"USE `{load.target_schema}`",
        "UPDATE one SET s = 'other' WHERE id = 5",
        "DROP TABLE two",
        "ALTER TABLE keyless ADD COLUMN own INT",
    )
    subtasks = [load.subtask()]
    verdict, tables = compared(spark, subtasks)
    assert verdict == "different"
    assert tables["two"].structure == ["the target has no such table"]
    assert any("columns are" in line for line in tables["keyless"].structure)
    assert tables["keyless"].differing == 0
    one = f"{load.target_schema}.one"
    assert compared(spark, subtasks, tables=(one,))[0] == "different"
    assert compared(spark, subtasks, tables=(one,), where="id <> 5")[0] == "equal"
    assert compared(spark, subtasks, tables=(one,), ignore_columns=("S",))[0] == "equal"
    assert compared(spark, subtasks, tables=(f"{load.target_schema}.keyless",), ignore_columns=("own",))[0] == "equal"


def test_shards_are_compared_together_with_the_table_they_were_merged_into(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer
) -> None:
    load = full_load(
        upstream, target,
        *(f"CREATE TABLE s{n} (id INT PRIMARY KEY, v INT)" for n in (1, 2)),
        *(f"INSERT INTO s{n} {ROWS} SELECT i * 2 + {n}, i FROM n" for n in (1, 2)),
    )  # fmt: skip
    (route,) = load.subtask().routes
    merged = route.model_copy(update={"table_pattern": "s*", "target_table": "merged"})
    subtask = load.subtask().model_copy(update={"routes": (merged,)})
    target.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"USE `{load.target_schema}`",
        "CREATE TABLE merged (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO merged {ROWS} SELECT i * 2 + 1, i FROM n",
        f"INSERT INTO merged {ROWS} SELECT i * 2 + 2, i FROM n",
    )
    verdict, tables = compared(spark, [subtask])
    assert (verdict, tables["merged"].source_rows) == ("equal", 1800)
    target.execute(f"UPDATE `{load.target_schema}`.merged SET v = v + 1 WHERE id = 704")
    verdict, tables = compared(spark, [subtask])
    assert [row.key for row in tables["merged"].shown] == ["id=704"]


def test_columns_that_hold_parts_of_names_are_compared_with_the_names(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *(f"CREATE TABLE s{n} (id INT PRIMARY KEY)" for n in (1, 2)),
                     *(f"INSERT INTO s{n} VALUES (1), (2)" for n in (1, 2)))  # fmt: skip
    (route,) = load.subtask().routes
    shard = TableExtraction(table_regexp="s(.*)", target_column="shard")
    merged = route.model_copy(update={"table_pattern": "s*", "target_table": "merged", "extract_table": shard})
    subtask = load.subtask().model_copy(update={"routes": (merged,)})
    target.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"USE `{load.target_schema}`",
        "CREATE TABLE merged (id INT, shard VARCHAR(9), PRIMARY KEY (id, shard))",
        "INSERT INTO merged VALUES (1, '1'), (2, '1'), (1, '2'), (2, 'two')",
    )
    verdict, tables = compared(spark, [subtask], fix_sql=str(tmp_path / "fix"))
    assert tables["merged"].structure == []
    assert sorted(row.key for row in tables["merged"].shown) == ["id=2, shard=2", "id=2, shard=two"]
    execute(target, tmp_path / "fix")
    verdict, tables = compared(spark, [subtask])
    assert (verdict, tables["merged"].target_rows) == ("equal", 4), tables["merged"].to_json()


def test_documents_of_two_flavours_are_compared_as_what_they_say(
    full_load: LoadFactory, spark: SparkProvider, park: ServerPark
) -> None:
    source, target = park.shared("mariadb", "upstream-1"), park.shared("mysql", "target")
    load = full_load(
        source, target, "CREATE TABLE t (id INT PRIMARY KEY, j JSON)",
        "INSERT INTO t VALUES (1, '{\"b\" : 1, \"a\":[1.0, \"x\"]}'), (2, '[1]'), (3, NULL)",
    )  # fmt: skip
    target.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"CREATE TABLE `{load.target_schema}`.t (id INT PRIMARY KEY, j JSON)",
        f'INSERT INTO `{load.target_schema}`.t VALUES (1, \'{{"a": [1.0, "x"], "b": 1}}\'), (2, \'[1.0]\'), (3, NULL)',
    )
    _, tables = compared(spark, [load.subtask()])
    assert [(row.key, row.columns) for row in tables["t"].shown] == [("id=2", ("j",))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
def test_what_is_on_its_way_is_no_difference(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer
) -> None:
    load = full_load(upstream, target, *TABLES)
    load.dump()
    load.load()
    over = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        connection = upstream.connect(autocommit=True, database=load.schema)
        with connection.cursor() as cursor:
            while not over.wait(0.01):  # each look waits until the target has what is there by then
                written += 1
                cursor.execute(f"UPDATE one SET s = 'w{written}' WHERE id = {1 + written % 900}")
                cursor.execute(f"INSERT INTO keyless VALUES ({written}, 'new')")
        connection.close()

    subtask = load.subtask()
    often = subtask.syncer.model_copy(update={"checkpoint_flush_interval": 1})  # which every look waits for
    subtask = subtask.model_copy(update={"syncer": often})
    with running_sync(subtask, work_directory=load.directory.with_name("sync")) as sync:
        sync.wait_synced(300)
        target.execute(
            f"UPDATE `{load.target_schema}`.two SET m = m + 1 WHERE a = 'k3' LIMIT 1",
            f"CREATE INDEX only_here ON `{load.target_schema}`.two (m)",
        )
        writer = threading.Thread(target=write)
        writer.start()
        try:
            verdict, tables = compared(spark, [subtask], follows=(load.source_id,))
        finally:
            over.set()
            writer.join()
    assert written > 0
    assert [row.columns for row in tables["two"].shown] == [("m",)]
    (line,) = tables["two"].structure
    assert "index only at the target: " in line
    assert (verdict, tables["one"].differing, tables["keyless"].differing) == ("different", 0, 0)


def test_a_target_that_lags_for_long_leaves_rows_undecided_and_says_why(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer
) -> None:
    load = full_load(upstream, target, *TABLES)
    load.dump()
    load.load()
    subtask = load.subtask()
    with running_sync(subtask, work_directory=load.directory.with_name("sync")) as sync:
        sync.wait_synced(300)
    upstream.execute(
        f"USE `{load.schema}`", "DELETE FROM one WHERE id IN (5, 6)", "ALTER TABLE two ADD COLUMN late INT"
    )
    target.execute(
        f"USE `{load.target_schema}`", "DELETE FROM keyless LIMIT 1", "UPDATE one SET s = 'x' WHERE id = 700"
    )
    clock = FakeClock()
    unit = DiffUnit(
        [subtask], DiffRequest(spark_from=0, rows=100, shown=2, follows=(load.source_id,)), spark, clock=clock
    )
    unit.run(threading.Event())
    tables = {table.name.table: table for table in unit.report.tables}
    assert {name: table.verdict for name, table in tables.items()} == dict.fromkeys(tables, "not compared")
    file, offset = end_of(upstream)
    late = (
        f"the target did not come past ({file}, {offset}) of source {load.source_id} in 180 s, its checkpoint is at ("
    )
    one, keyless, two = tables["one"], tables["keyless"], tables["two"]
    assert (one.undecided, one.undecided_keys, one.unsettled) == (3, ["id=5", "id=6"], 0)
    assert (keyless.undecided, keyless.undecided_keys, keyless.unsettled) == (1, [], 0)
    for told in (one.undecided_why, keyless.undecided_why, two.not_compared):
        assert late in told
        assert f"`dmctl query-status {subtask.task}` shows no lag" in told
    assert two.not_compared.startswith("its structure is not decided, ")
    assert clock.now - FakeClock().now == 2 * 180, "structures are waited for, and rows"


def test_what_was_found_is_recorded_at_the_target(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer
) -> None:
    load = full_load(upstream, target, *TABLES)
    load.dump()
    load.load()
    subtask = load.subtask()
    key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)

    def recorded() -> dict[tuple[str, bool], dict[str, Any]]:
        with closing(TargetConnection(subtask.target)) as connection:
            found: list[dict[str, Any]] = read_compared(connection, key)
        return {(each["table"].partition(".")[2], bool(each["partly"])): each for each in found}

    assert recorded() == {}
    before = end_of(upstream)
    assert compared(spark, [subtask])[0] == "equal"
    first = recorded()
    assert {name for name, _ in first} == {"one", "two", "keyless"}
    one = first["one", False]
    assert (one["verdict"], one["sourceRows"], one["targetRows"]) == ("equal", 900, 900)
    assert len(one["digest"]) == 64, "every chunk had a sum"
    assert one["since"]["binlog"] == f"({before[0]}, {before[1]})", "nothing has been written since"
    assert one["began"] <= one["ended"]

    target.execute(f"UPDATE `{load.target_schema}`.one SET s = 'other' WHERE id = 7")
    assert compared(spark, [subtask], where="id > 10", tables=(f"{load.target_schema}.one",))[0] == "equal"
    partly = recorded()
    assert partly["one", True]["partly"] == "where id > 10"
    assert partly["one", False] == one, "another question takes no record's place"
    assert compared(spark, [subtask])[0] == "different"
    last = recorded()
    assert (last["one", False]["verdict"], last["one", False]["digest"]) == ("different", "")
    assert last["two", False]["digest"] == first["two", False]["digest"], "its rows are the same"

    with closing(TargetConnection(subtask.target)) as connection:
        remove_progress(connection, key)
    assert recorded() == {}


def test_an_account_that_may_not_store_is_told_so(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer
) -> None:
    load = full_load(upstream, target, *TABLES[:2])
    load.dump()
    load.load()
    subtask, user = load.subtask(), f"reads{load.target_schema[-8:]}"
    target.execute(f"CREATE USER '{user}' IDENTIFIED BY 'p'", f"GRANT SELECT ON *.* TO '{user}'")
    reading = subtask.model_copy(
        update={"target": subtask.target.model_copy(update={"user": user, "password": SecretStr("p")})}
    )
    unit = DiffUnit([reading], DiffRequest(spark_from=0, rows=100), spark)
    unit.run(threading.Event())
    assert unit.report.verdict == "equal"
    assert "denied" in str(unit.status()["notRecorded"])


def test_an_interrupted_comparison_is_gone_on_with(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *TABLES[:2])
    load.dump()
    load.load()
    stop = threading.Event()

    unit = DiffUnit([load.subtask()], DiffRequest(spark_from=0, rows=10, threads=1), spark, directory=tmp_path / "diff")
    add = DoneChunks.add

    def stopping(self: DoneChunks, chunk: str, found: EqualChunk) -> None:
        add(self, chunk, found)
        stop.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DoneChunks, "add", stopping)
        unit.run(stop)
    assert not unit.report.over
    (record,) = (tmp_path / "diff").iterdir()
    lines = record.read_text().splitlines()[1:]
    assert 0 < len(lines) < unit.report.tables[0].chunks
    target.execute(f"UPDATE `{load.target_schema}`.one SET s = 'later'")
    resumed = DiffUnit(
        [load.subtask()], DiffRequest(spark_from=0, rows=10, resume=True), spark, directory=tmp_path / "diff"
    )
    resumed.run(threading.Event())
    (table,) = resumed.report.tables
    assert (table.source_rows, table.target_rows, table.done) == (900, 900, table.chunks)
    assert 0 < table.differing <= 900 - 9 * len(lines)
    assert not list((tmp_path / "diff").iterdir())
    assert compared(spark, [load.subtask()])[1]["one"].differing == 900


class LateClock(SystemClock):
    """Is as late as it is told."""

    late = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.late


class Asked:
    """A provider that counts who asks it for the session, which takes its time at first."""

    def __init__(self, spark: SparkProvider, clock: LateClock) -> None:
        self.spark, self.times, self.clock = spark, 0, clock

    def context(self) -> Any:
        self.clock.late += 0 if self.times else 10_000
        self.times += 1
        return self.spark.context()


def test_spark_begins_before_many_rows_are_compared_and_not_before_few(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer
) -> None:
    load = full_load(upstream, target, *TABLES[:2])
    load.dump()
    load.load()
    clock = LateClock()
    asked = Asked(spark, clock)
    many, few = (
        DiffUnit([load.subtask()], DiffRequest(spark_from=rows, rows=100), cast(SparkProvider, asked))
        for rows in (0, 10**9)
    )
    few.get_ready()
    assert asked.times == 0
    many.get_ready()
    assert (asked.times, many.report.tables) == (1, []), "nothing is compared yet"
    many.run(threading.Event())
    assert many.report.verdict == "equal"
    late = Asked(spark, clock)
    sample = DiffUnit(
        [load.subtask()], DiffRequest(spark_from=0, rows=100, sample=True), cast(SparkProvider, late), clock=clock
    )
    sample.run(threading.Event())
    assert late.times, "it took its time"
    assert sample.report.seconds_of_all is not None
    assert sample.report.seconds_of_all < 10_000, "its start is not a part of what all rows take"


def test_few_rows_are_compared_without_spark_and_a_sample_of_many_tells_their_time(
    full_load: LoadFactory, upstream: ThrowawayServer, target: ThrowawayServer, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *TABLES)
    load.dump()
    load.load()
    target.execute(f"UPDATE `{load.target_schema}`.one SET s = 'other' WHERE id = 450")
    none, looks = SparkProvider("local[1]", {}, tmp_path / "scratch"), list[int]()
    sample = DiffUnit([load.subtask()], DiffRequest(rows=10, threads=1, sample=True), none, directory=tmp_path / "diff")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChunkComparer, "__call__", counted(ChunkComparer.__call__, looks))
        sample.run(threading.Event())
    assert looks == [1, 2], "of some 180 chunks"
    assert sample.report.over
    assert sample.report.seconds_of_all is not None
    subtask = load.subtask()
    with closing(TargetConnection(subtask.target)) as connection:
        assert not read_compared(connection, SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id))
    unit = DiffUnit([subtask], DiffRequest(rows=100), none)
    unit.run(threading.Event())
    assert [table.differing for table in unit.report.tables] == [0, 1, 0]
    assert none.jvm_pid is None


def counted(compare: Callable[..., Outcomes], looks: list[int]) -> Callable[..., Outcomes]:
    def call(self: ChunkComparer, chunks: tuple[Chunk, ...]) -> Outcomes:
        looks.append(len(chunks))
        return compare(self, chunks)

    return call
