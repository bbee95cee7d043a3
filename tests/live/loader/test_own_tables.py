"""What is copied without files can be taken back, and nothing else is touched at the target, whatever dies between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dm import faults
from dm.config.rules import RouteRule, TableExtraction
from dm.config.source import SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import STREAMED, DumpedTable, DumpPlan
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.own_tables import LostDump
from dm.loader.stream import TargetStream
from dm.position import Position
from dm.progress.load_parts import PartKey, claim_part, note_size
from dm.progress.tables import SubtaskKey, remove_progress
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live]

GO = threading.Event()
KEYED = "CREATE TABLE `{}` (`id` int NOT NULL, `v` int, PRIMARY KEY (`id`), KEY `k` (`v`)) ENGINE=InnoDB"


@dataclass
class Copy:
    """Tables of a source that are copied into a schema of the target, chunk by chunk."""

    server: PrivateServer
    schema: str
    settings: dict[str, Any] = field(default_factory=dict)
    dump_id: str = "first"

    @property
    def subtask(self) -> SubtaskConfig:
        routes = self.settings.get("routes", (RouteRule(schema_pattern="shop", target_schema=self.schema),))
        config = SubtaskConfig(
            task="copy",
            source=SourceConfig(source_id="source-1", endpoint=endpoint_of(self.server)),
            mode="all",
            target=endpoint_of(self.server),
            meta_schema=self.schema,
            routes=routes,
        )
        spark = config.spark.model_copy(update={"dump_files": "auto", "defer_indexes": True})
        spark = spark.model_copy(update=self.settings.get("spark", {}))
        return config.model_copy(update={"spark": spark, **self.settings.get("task", {})})

    def plan(self, *names: str, generation: int = 0) -> DumpPlan:
        flavor = self.server.flavor
        tables = tuple(
            DumpedTable(TableName("shop", name), KEYED.format(name), generation, bounds=(), form=STREAMED)
            for name in names
        )
        version = 101100 if flavor == "mariadb" else 80400
        place, charset = Position("uuid", "bin.000001", 4), ("utf8mb4", "utf8mb4_bin")
        return DumpPlan(
            self.dump_id, "copy", "source-1", flavor, version, "uuid", place, tables=tables, schemas={"shop": charset}
        )

    def begun(self, plan: DumpPlan) -> TargetStream:
        stream = TargetStream(self.subtask)
        stream.begin(plan, GO)
        return stream

    def copied(self, *names: str, generation: int = 0) -> dict[str, str]:
        """The tables that go without files, each with where; they are filled."""
        plan = self.plan(*names, generation=generation)
        stream = self.begun(plan)
        taken = stream.prepare(plan, plan.tables)
        for table, destination in taken.items():
            self.fill(stream, table, destination.target)
        return {table.table: destination.target.table for table, destination in taken.items()}

    def fill(self, stream: TargetStream, table: TableName, target: TableName) -> None:
        """One chunk, as a worker writes it."""
        run, part = stream.sink(None).run, PartKey(table, 0, 0, 0)
        with TargetConnection(self.subtask.target) as connection:
            connection.begin()
            if claim_part(connection, run, part, 0, 0, target):
                connection.execute(f"INSERT INTO {target.sql} (id, v) VALUES (1, 1), (2, 2)")
                note_size(connection, run, part, 2, 8)
            connection.commit()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with TargetConnection(self.subtask.target) as connection:
            return connection.query(sql)

    @property
    def tables(self) -> set[str]:
        """What is in the target's schema besides progress."""
        return {str(name) for (name,) in self.rows(f"SHOW TABLES FROM `{self.schema}`") if "copy_" not in str(name)}

    @property
    def recorded(self) -> set[str]:
        """The tables with any record."""
        found = self.rows(f"SELECT cp_table FROM `{self.schema}`.copy_loader_checkpoint WHERE cp_table <> ''")
        found += self.rows(f"SELECT cp_table FROM `{self.schema}`.copy_loader_made")
        found += self.rows(f"SELECT target_table FROM `{self.schema}`.copy_loader_deferral")
        return {str(name) for (name,) in found}


@pytest.fixture
def copy(target: ThrowawayServer, schema: SchemaFactory) -> Copy:
    return Copy(target, schema(target))


@pytest.fixture
def struck() -> Iterator[Callable[[str], None]]:
    """Arms a fault in this process."""
    yield faults.arm
    faults.arm("")


def test_a_table_that_the_plan_gives_up_goes_with_all_that_is_recorded_of_it(copy: Copy) -> None:
    assert copy.copied("a", "b") == {"a": "a", "b": "b"}
    assert copy.recorded == {"a", "b"}
    stream = copy.begun(copy.plan("b"))
    assert copy.tables == {"b"}
    assert copy.recorded == {"b"}
    assert stream.finished(copy.plan("b").tables[0], 0) == (2, 8)
    assert copy.rows(f"SELECT COUNT(*) FROM `{copy.schema}`.b") == [(2,)]


def test_a_run_after_another_one_goes_on_with_its_tables(copy: Copy) -> None:
    copy.copied("a")
    assert copy.copied("a") == {"a": "a"}
    assert copy.rows(f"SELECT COUNT(*) FROM `{copy.schema}`.a") == [(2,)]
    assert copy.begun(copy.plan("a")).revocable(copy.plan("a").tables[0])


def test_a_table_that_is_there_is_not_taken_and_stays(copy: Copy) -> None:
    target = f"`{copy.schema}`.a"
    copy.server.execute(f"CREATE TABLE {target} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {target} VALUES (7, 7)")
    assert copy.copied("a", "b") == {"b": "b"}
    copy.begun(copy.plan())
    assert copy.tables == {"a"}
    assert copy.rows(f"SELECT id FROM {target}") == [(7,)]


@pytest.mark.parametrize(
    "settings",
    [
        {"task": {"sole_source": False}},
        {"task": {"clean_dump_file": False}},
        {"task": {"shard_mode": "pessimistic"}},
        {"spark": {"dump_format": "sql"}},
        {"routes": (RouteRule(schema_pattern="shop", table_pattern="?", target_schema="{}", target_table="all"),)},
    ],
    ids=["sources", "kept files", "shards", "sql", "merge"],
)
def test_what_is_not_the_loads_alone_is_not_taken(settings: dict[str, Any], copy: Copy) -> None:
    copy.settings |= settings
    if "routes" in settings:
        (route,) = settings["routes"]
        copy.settings["routes"] = (route.model_copy(update={"target_schema": copy.schema}),)
    assert copy.copied("a", "b") == {}
    assert copy.tables == set()


def test_columns_that_the_source_lacks_and_later_rounds_are_for_files(copy: Copy) -> None:
    assert copy.copied("a", generation=1) == {}
    extraction = TableExtraction(target_column="origin", table_regexp="(.*)")
    copy.settings["routes"] = (
        RouteRule(schema_pattern="shop", table_pattern="b", target_schema=copy.schema, extract_table=extraction),
        RouteRule(schema_pattern="shop", target_schema=copy.schema),
    )
    assert copy.copied("b", "c") == {"c": "c"}


POINTS = ("loader.table_dropped", "loader.table_forgotten")


@pytest.mark.parametrize("point", POINTS)
def test_taking_back_goes_on_where_it_was_left(point: str, copy: Copy, struck: Callable[[str], None]) -> None:
    copy.copied("a", "b", "c")
    struck(f"{point}=error")
    with pytest.raises(faults.FaultError):
        copy.begun(copy.plan("c"))
    copy.begun(copy.plan("c"))
    assert copy.tables == copy.recorded == {"c"}


@pytest.mark.parametrize("point", ["loader.tables_announced", "loader.indexes_off", "loader.tables_made"])
def test_what_nobody_knows_to_be_the_loads_is_left_to_files(
    point: str, copy: Copy, struck: Callable[[str], None]
) -> None:
    struck(f"{point}=error")
    with pytest.raises(faults.FaultError):
        copy.copied("a")
    taken = copy.copied("a")
    if point != "loader.indexes_off":
        assert taken == {"a": "a"}
        return
    assert taken == {}  # it may have been made by anybody
    copy.begun(copy.plan())
    assert copy.tables == {"a"}
    assert copy.recorded == {"a"}, "its indexes are still to come"


def test_a_table_that_is_made_by_somebody_just_then_is_not_taken(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def hit(point: str) -> None:
        if point == "loader.tables_announced":
            copy.server.execute(f"CREATE TABLE `{copy.schema}`.a (id INT PRIMARY KEY, v INT, KEY k (v))")

    monkeypatch.setattr(faults, "hit", hit)
    assert copy.copied("a", "b") == {"b": "b"}
    copy.begun(copy.plan())
    assert copy.tables == {"a"}


def refused(copy: Copy, why: str) -> None:
    with pytest.raises(DMError) as caught:
        copy.begun(copy.plan())
    assert caught.value.name == "load-table-shared"
    assert why in caught.value.message
    assert copy.tables == {"a"}
    copy.server.execute(f"DROP TABLE `{copy.schema}`.a")  # as the way out says
    copy.begun(copy.plan())
    assert "a" not in copy.recorded


def test_rows_of_somebody_else_are_not_dropped(copy: Copy) -> None:
    copy.copied("a")
    copy.server.execute(f"INSERT INTO `{copy.schema}`.a VALUES (9, 9)")
    refused(copy, "3 rows, and the load has written 2")


def test_rows_of_another_source_are_not_dropped(copy: Copy) -> None:
    copy.copied("a")
    other = replace(copy)
    other.settings = {"task": {"source": copy.subtask.source.model_copy(update={"source_id": "source-2"})}}
    copy.server.execute(f"DELETE FROM `{copy.schema}`.a")  # their number alone would not tell
    stream = other.begun(other.plan())
    other.fill(stream, TableName("shop", "z"), TableName(copy.schema, "a"))
    refused(copy, "shop.z of source-2")


def test_another_table_of_the_name_is_not_dropped(copy: Copy, struck: Callable[[str], None]) -> None:
    copy.copied("a")
    struck("loader.table_dropped=error")
    with pytest.raises(faults.FaultError):
        copy.begun(copy.plan())
    # The server counts seconds; this load is over in less.
    copy.server.execute(
        f"UPDATE `{copy.schema}`.copy_loader_made SET created = created - 1", KEYED.format(f"{copy.schema}`.`a")
    )
    refused(copy, "another table")


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("files", ["auto", "all"])
def test_a_dump_that_begins_anew_takes_back_the_one_before(copy: Copy, files: str) -> None:
    copy.copied("a", "b")
    copy.dump_id = "second"
    copy.settings["spark"] = {"dump_files": files}
    LostDump(copy.subtask).give_up(GO)
    assert copy.tables == copy.recorded == set()
    LostDump(copy.subtask).give_up(GO)  # killed before its plan was stored
    copy.settings["spark"] = {}
    assert copy.copied("a") == {"a": "a"}


def test_what_an_earlier_dump_had_without_records_stays_and_is_told(copy: Copy) -> None:
    copy.settings["spark"] = {"dump_files": "none"}
    copy.copied("a")
    copy.settings["spark"] = {}
    copy.dump_id = "second"
    for begin in (lambda: LostDump(copy.subtask).give_up(GO), lambda: copy.begun(copy.plan())):
        with pytest.raises(DMError, match=f"in {copy.schema}.a: which of the rows") as caught:
            begin()
        assert caught.value.name == "load-other-dump"
    assert copy.tables == {"a"}


def test_a_dump_of_which_nothing_is_loaded_stands_in_nobodys_way(copy: Copy) -> None:
    copy.settings["spark"] = {"dump_files": "none"}
    copy.begun(copy.plan())
    copy.dump_id = "second"
    LostDump(copy.subtask).give_up(GO)
    assert copy.copied("a") == {"a": "a"}


def test_a_table_that_was_begun_otherwise_goes_on_and_stays(copy: Copy) -> None:
    copy.settings["spark"] = {"dump_files": "none"}
    copy.copied("a")
    copy.settings["spark"] = {}
    assert copy.copied("a") == {"a": "a"}
    stream, (table,) = copy.begun(copy.plan("a")), copy.plan("a").tables
    assert not stream.revocable(table)


def test_remove_meta_leaves_nothing_that_a_table_could_be_dropped_for(copy: Copy) -> None:
    copy.copied("a")
    with TargetConnection(copy.subtask.target) as connection:
        remove_progress(connection, SubtaskKey(copy.schema, "copy", "source-1"))
    assert copy.copied("a") == {}
    copy.begun(copy.plan())
    assert copy.tables == {"a"}
