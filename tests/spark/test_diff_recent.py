"""A comparison of recent rows looks at what was written since a table was found equal; at all where it can't know."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.sourcelog.upstream.facts import question_session, read_facts
from dm.spark.session import SparkProvider
from dm.tools.diff.recent import Recent
from dm.tools.diff.report import TableReport
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest
from tests.live.relay.relaying import has_reached, relaying, source_of, wait_until
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mariadb")]

ROWS = "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 900)"
TABLES = (
    "CREATE TABLE one (id INT PRIMARY KEY, s VARCHAR(20))",
    f"INSERT INTO one {ROWS} SELECT i, CONCAT('s', i) FROM n",
    "CREATE TABLE two (a VARCHAR(10) COLLATE utf8mb4_bin, b DATE, m DECIMAL(8, 3), f BINARY(4), v INT,"
    " PRIMARY KEY (a, b, m, f))",
    f"INSERT INTO two {ROWS} SELECT CONCAT('k\\'', i % 30), DATE_ADD('2024-01-01', INTERVAL i DAY), -i / 8, i, 0"
    " FROM n",
    "CREATE TABLE three (id TIMESTAMP PRIMARY KEY, v INT)",
    "INSERT INTO three VALUES ('2024-01-01 00:00:00', 1), ('2024-01-02 00:00:00', 2)",
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO keyless VALUES (1), (1)",
    "CREATE TABLE still (id INT PRIMARY KEY, v INT)",
    "INSERT INTO still VALUES (1, 1), (2, 2)",
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "INSERT INTO parent VALUES (1, 1), (2, 2)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "INSERT INTO child VALUES (10, 1), (20, 2)",
)
WRITES = (
    "UPDATE one SET s = 'x' WHERE id IN (7, 900)", "DELETE FROM one WHERE id = 8", "INSERT INTO one VALUES (1000, 'n')",
    "UPDATE one SET id = -5 WHERE id = 9",
    "UPDATE two SET v = 1 WHERE b = '2024-01-08'", "UPDATE two SET f = 'ab' WHERE b = '2024-02-08'",
    "DELETE FROM two WHERE a = 'k\\'3' LIMIT 2",
    "UPDATE three SET v = 5 WHERE v = 1", "INSERT INTO keyless VALUES (1)",
)  # fmt: skip


class Pair:
    """A loaded target, and a relay that follows its source."""

    def __init__(self, load: FullLoad, spark: SparkProvider, relay: Path) -> None:
        self.load, self.spark, self.relay = load, spark, relay
        self.task: SubtaskConfig = load.subtask()

    def write(self, *statements: str) -> None:
        """As a task would bring it."""
        self.at_source(*statements)
        self.at_target(*statements)

    def at_source(self, *statements: str) -> None:
        self.load.upstream.execute(f"USE `{self.load.schema}`", *statements)

    def at_target(self, *statements: str) -> None:
        self.load.target.execute(f"USE `{self.load.target_schema}`", *statements)

    def compared(self, *, recent: bool = True) -> tuple[str, dict[str, TableReport]]:
        wait_until(lambda: has_reached(self.relay, self.load.upstream), "the relay has everything")
        unit = DiffUnit(
            [self.task],
            DiffRequest(spark_from=0, rows=100, recent=recent),
            self.spark,
            relays={self.task.source_id: self.relay},
        )
        unit.run(threading.Event())
        assert unit.report.over
        assert not unit.report.not_recorded
        return unit.report.verdict, {table.name.table: table for table in unit.report.tables}


@pytest.fixture
def pair(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer, tmp_path: Path
) -> Iterator[Pair]:
    load = full_load(upstream, target, *TABLES)
    load.dump()
    load.load()
    with relaying(source_of(upstream), tmp_path / "relay"):
        yield Pair(load, spark, tmp_path / "relay")


def test_only_rows_that_were_written_since_are_compared(pair: Pair) -> None:
    verdict, tables = pair.compared()
    assert verdict == "equal"
    assert {table.whole_because for table in tables.values()} == {
        "no comparison has found it equal", "it has no key that is the same on all sides",
    }  # fmt: skip
    pair.write(*WRITES)
    verdict, tables = pair.compared()
    assert verdict == "equal", [table.to_json() for table in tables.values()]
    keys = {name: table.rests.keys for name, table in tables.items() if table.rests is not None}
    assert keys == {"one": 6, "two": 5, "still": 0, "parent": 0, "child": 0}
    assert (tables["one"].source_rows, tables["one"].target_rows) == (4, 4)
    assert (tables["two"].source_rows, tables["two"].target_rows) == (2, 2)
    assert tables["three"].whole_because == "its key's column id has no literal that is the same on all sides"
    assert tables["keyless"].source_rows == 3

    first = tables["one"].rests
    assert first is not None
    pair.write("UPDATE one SET s = 'y' WHERE id = 11")
    verdict, tables = pair.compared()
    assert (verdict, tables["one"].source_rows) == ("equal", 1), "it goes on from the last one"
    again = tables["one"].rests
    assert again is not None
    assert again.since.at == first.since.at, "and rests on the comparison of all rows"

    pair.at_target("UPDATE still SET v = 9 WHERE id = 1")
    assert pair.compared()[0] == "equal", "what others write at the target is not seen"
    pair.at_source("UPDATE still SET v = 3 WHERE id = 1")
    verdict, tables = pair.compared()
    assert (verdict, [row.key for row in tables["still"].shown]) == ("different", ["id=1"])
    verdict, tables = pair.compared()
    assert (verdict, tables["still"].whole_because) == ("different", "the last comparison has found it different")
    pair.at_target("UPDATE still SET v = 3 WHERE id = 1")
    assert pair.compared()[0] == "equal"
    verdict, tables = pair.compared()
    assert tables["still"].rests is not None, tables["still"].whole_because


def test_a_table_is_compared_whole_where_it_may_be_another_one(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pair.compared(recent=False)[0] == "equal"
    pair.write("ALTER TABLE one ADD COLUMN n INT DEFAULT 3", "UPDATE two SET v = v + 1")
    pair.at_source("UPDATE still SET v = 8 WHERE id = 1")
    pair.at_target("CREATE TABLE other LIKE still", "INSERT INTO other SELECT id, IF(id = 1, 8, v) FROM still",
                   "DROP TABLE still", "RENAME TABLE other TO still")  # fmt: skip
    verdict, tables = pair.compared()
    assert verdict == "equal", [table.to_json() for table in tables.values()]
    reasons = {name: table.whole_because for name, table in tables.items()}
    assert "a statement at (" in reasons["one"]
    assert tables["one"].source_rows == 900
    assert reasons["still"].startswith("it was made anew")
    assert reasons["two"] == "", "few rows are always compared alone"
    assert tables["two"].source_rows == 900

    altered = [name for name in tables if name != "keyless"]
    pair.write(*(f"ALTER TABLE {name} ADD COLUMN last INT" for name in altered), "UPDATE one SET s = 'z'")
    read = list[object]()
    monkeypatch.setattr(Recent, "_rows", lambda recent, written, item, records: read.append(item))
    verdict, tables = pair.compared()
    assert (verdict, [name for name in altered if not tables[name].whole_because]) == ("equal", [])
    assert read == [], "once all tables are to be compared whole, the rest of the log is of no use"


def test_children_whose_rows_foreign_keys_changed_unlogged_are_compared_whole(pair: Pair) -> None:
    assert pair.compared(recent=False)[0] == "equal"
    pair.write("UPDATE parent SET v = 5 WHERE id = 2")
    verdict, tables = pair.compared()
    assert (verdict, tables["child"].whole_because) == ("equal", ""), "no key acts on this"
    pair.at_source("DELETE FROM parent WHERE id = 1")
    pair.at_target("SET foreign_key_checks = 0", "DELETE FROM parent WHERE id = 1", "SET foreign_key_checks = 1")
    verdict, tables = pair.compared()
    assert tables["parent"].rests is not None
    with closing(question_session(pair.task.source.endpoint)) as session:
        logged = read_facts(session).logs_cascades
    silent = "foreign keys change its rows, and the binlog does not say which"
    assert tables["child"].whole_because == ("" if logged else silent)
    assert (verdict, [row.key for row in tables["child"].shown]) == ("different", ["id=10"])


def test_without_a_relay_all_rows_are_compared(pair: Pair, tmp_path: Path) -> None:
    assert pair.compared(recent=False)[0] == "equal"
    unit = DiffUnit([pair.task], DiffRequest(recent=True), pair.spark, relays={})
    unit.run(threading.Event())
    assert unit.report.verdict == "equal"
    assert all("no relay" in table.whole_because for table in unit.report.tables if table.name.table != "keyless")
    assert sum(table.source_rows for table in unit.report.tables) == 900 + 900 + 2 + 2 + 2 + 2 + 2
