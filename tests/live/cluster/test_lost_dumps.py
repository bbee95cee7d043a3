"""A host is lost with its home while a part of its dump is loaded: what is at the target goes, and nothing else does.

`dm.loader.own_tables` and `dm.loader.told_rows` say what can be taken back; the rest waits for a person.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from tests.testbed.cluster import Cluster
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.lost_home import SECONDS, LostHome
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(900)]

_TABLES: Final = ("keyed", "keyless")


def hangs(tmp_path: Path) -> str:
    """What holds a load when a part of it is at the target."""
    return f"loader.chunk_committed=hang:{tmp_path / 'never'}"


@pytest.fixture
def alone(
    cluster: Cluster, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> LostHome:
    """A source with two tables."""
    return of_one_source(cluster, upstream, target, schema(upstream, target), hangs(tmp_path))


def of_one_source(
    cluster: Cluster, upstream: ThrowawayServer, target: PrivateServer, name: str, fault: str, **environment: str
) -> LostHome:
    for table in _TABLES:
        key = "" if table == "keyless" else ", PRIMARY KEY (id)"
        upstream.execute(
            f"CREATE TABLE {name}.{table} (id INT NOT NULL, v INT{key})",
            f"INSERT INTO {name}.{table} VALUES (1, 1), (2, 2), (3, 3)",
        )
    made = LostHome(cluster, target, name, {"one": upstream})
    made.begin(fault, **environment)
    return made


def loses_its_dump(lost: LostHome, **spark: Any) -> None:
    """A part is loaded, rows of it are deleted at the source, and the host is gone."""
    lost.start(lost.file(spark={"dump-files": "all", **spark}))
    lost.until_loaded("one")
    for number, table in enumerate(_TABLES, 1):
        lost.sources["one"].execute(f"DELETE FROM {lost.schema}.{table} WHERE id = {number}")
    lost.lose()


@pytest.mark.chaos
@pytest.mark.parametrize("form", ["parquet", "sql"])
def test_a_dump_of_which_a_part_is_loaded_begins_anew(form: str, alone: LostHome) -> None:
    loses_its_dump(alone, **{"dump-format": form})
    for table in _TABLES:
        alone.sources["one"].execute(f"INSERT INTO {alone.schema}.{table} VALUES (4, 4)")
        alone.until_same(table)
    assert alone.state()["unit"] == "Sync"


@pytest.mark.chaos
@pytest.mark.parametrize("point", ["loader.chunk_inserted", "loader.tables_made"])
def test_a_member_that_is_frozen_while_it_loads_wakes_and_changes_nothing(
    point: str,
    cluster: Cluster,
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    tmp_path: Path,
) -> None:
    gate, struck = tmp_path / "gate", tmp_path / "struck"
    made = of_one_source(
        cluster, upstream, target, schema(upstream, target), f"{point}=hang:{gate}", DM_FAULTS_LOG=str(struck)
    )
    made.start(made.file(spark={"dump-files": "all"}))
    wait_until(struck.exists, "the load is at the point", SECONDS)
    with made.frozen():
        gate.touch()
        for number, table in enumerate(_TABLES, 1):
            upstream.execute(f"DELETE FROM {made.schema}.{table} WHERE id = {number}")
        for table in _TABLES:
            made.until_same(table)
        made.until_unit("Sync")
    wait_until(lambda: not cluster["a"].hosts(), "the member lets go of what it had", SECONDS)
    for table in _TABLES:
        upstream.execute(f"INSERT INTO {made.schema}.{table} VALUES (4, 4)")
        made.until_same(table)
    assert (made.state()["unit"], made.state()["stage"]) == ("Sync", "Running")


class Merge(LostHome):
    """Source `one` is at the host that is lost, with two shards; `two` with a third one is at the other host."""

    SHARDS: Final = {"one": ("part_1", "part_2"), "two": ("part_3",)}

    def prepare(self, *columns: str) -> None:
        """The shards, and the table that they are merged into, which notes what is deleted."""
        for source, server in self.sources.items():
            for shard in self.SHARDS[source]:
                number = int(shard[-1])
                server.execute(
                    f"CREATE TABLE {self.schema}.{shard} (id INT PRIMARY KEY, v INT)",
                    f"INSERT INTO {self.schema}.{shard} VALUES ({number}, 1), ({number + 10}, 1)",
                )
        more = "".join(f", {column} VARCHAR(32)" for column in columns)
        self.target.execute(
            f"CREATE TABLE {self.schema}.whole (id INT PRIMARY KEY, v INT{more})",
            f"CREATE TABLE {self.schema}.deleted (id INT)",
            f"CREATE TRIGGER {self.schema}.notes AFTER DELETE ON {self.schema}.whole FOR EACH ROW"
            f" INSERT INTO {self.schema}.deleted VALUES (OLD.id)",
        )

    def merged(self, **extracted: Any) -> str:
        """The task's file."""
        route = {
            "schema-pattern": self.schema, "table-pattern": "part_*", "target-schema": self.schema,
            "target-table": "whole", **extracted,
        }  # fmt: skip
        said = {source: {"route-rules": ["r"]} for source in self.sources}
        return self.file(said, routes={"r": route}, spark={"dump-files": "all"})

    def ids(self, table: str = "whole") -> list[int]:
        """Of a table at the target."""
        return [row[0] for row in self.target.query(f"SELECT id FROM {self.schema}.{table} ORDER BY id")]

    def until_ids(self, *ids: int) -> None:
        """Wait until just these rows are merged."""
        wait_until(lambda: self.ids() == [*ids], f"the rows are {ids}", SECONDS)

    def lose_a_part(self, file: str) -> int:
        """The host is lost when one shard of two is at the target; gives the shard's number, of which a row goes."""
        self.start(file)
        self.until_loaded("one")
        self.until_unit("Sync", "two")
        (number,) = {id_ % 10 for id_ in self.ids()} - {3}
        self.sources["one"].execute(f"DELETE FROM {self.schema}.part_{number} WHERE id = {number}")
        self.sources["two"].execute(f"INSERT INTO {self.schema}.part_3 VALUES (23, 1)")
        self.until_ids(*sorted((number, number + 10, 3, 13, 23)))
        self.lose()
        return number


@pytest.fixture
def merge(
    cluster: Cluster,
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    tmp_path: Path,
) -> Merge:
    sources = dict(zip(("one", "two"), upstreams, strict=True))
    made = Merge(cluster, target, schema(*upstreams, target), sources, {"two": "b"})
    made.begin(hangs(tmp_path))
    return made


@pytest.mark.ci_flavor("mariadb")
def test_of_a_merge_only_the_lost_sources_rows_are_taken_back(merge: Merge) -> None:
    merge.prepare("origin")
    lost = merge.lose_a_part(merge.merged(**{"extract-source": {"source-regexp": "(.*)", "target-column": "origin"}}))
    merge.until_unit("Sync")
    merge.sources["two"].execute(f"INSERT INTO {merge.schema}.part_3 VALUES (33, 1)")
    merge.until_ids(*sorted({1, 11, 2, 12, 3, 13, 23, 33} - {lost}))
    taken_back = merge.target.query(f"SELECT id FROM {merge.schema}.deleted ORDER BY id")
    assert taken_back == ((lost,), (lost + 10,)), "of the other source nothing went, not for a moment"


@pytest.mark.chaos
def test_a_merge_that_does_not_tell_its_sources_apart_waits_for_a_person(merge: Merge) -> None:
    merge.prepare()
    file = merge.merged()
    lost = merge.lose_a_part(file)
    wait_until(lambda: merge.state()["stage"] == "Paused" and merge.errors == [34018], "the task pauses", SECONDS)
    merge.sources["two"].execute(f"INSERT INTO {merge.schema}.part_3 VALUES (33, 1)")
    merge.until_ids(*sorted((lost, lost + 10, 3, 13, 23, 33)))
    assert not merge.ids("deleted")
    # The way out that the error tells.
    b = merge.cluster["b"]
    b.must("stop-task", "t", "-s", "one", "--remove-meta")
    merge.target.execute(f"DELETE FROM {merge.schema}.whole WHERE id IN ({lost}, {lost + 10})")
    b.must("start-task", file, "-s", "one")
    merge.until_ids(*sorted({1, 11, 2, 12, 3, 13, 23, 33} - {lost}))
    merge.until_unit("Sync")
    assert merge.ids("deleted") == [lost, lost + 10]
