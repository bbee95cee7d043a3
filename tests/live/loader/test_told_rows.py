"""Of a lost dump in a merge just the rows go that say themselves that they are of its source, and all of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from dm import faults
from dm.config.rules import RouteRule, SchemaExtraction, SourceExtraction, TableExtraction
from dm.config.subtask import Share, SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.loader import told_rows
from dm.loader.own_tables import LostDump
from dm.progress.load_parts import PartKey, begin_run, claim_part
from dm.progress.tables import SubtaskKey
from tests.live.loader.test_own_tables import GO, Copy
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live]

PLACES: dict[str, Any] = {
    "source": {"extract_source": SourceExtraction(source_regexp="(.*)", target_column="of_source")},
    "table": {"extract_table": TableExtraction(table_regexp="(.*)", target_column="of_table")},
    "schema": {"extract_schema": SchemaExtraction(schema_regexp="(.*)", target_column="of_schema")},
}


@dataclass
class Merge:
    """Tables of two sources in one table of the target, each with a row before any load."""

    target: PrivateServer
    schema: str

    def subtask(self, source: str, others: tuple[str, ...], **extracted: Any) -> SubtaskConfig:
        route = RouteRule(
            schema_pattern="shop", table_pattern="*", target_schema=self.schema, target_table="whole", **extracted
        )
        config = Copy(self.target, self.schema, {"routes": (route,)}).subtask
        named = config.source.model_copy(update={"source_id": source})
        return config.model_copy(update={"source": named, "neighbours": others, "sole_source": not others})

    def load(self, source: str, table: str, first: int, count: int = 1, **values: str) -> None:
        """One part of a table, as the load of a source writes it."""
        key, part = SubtaskKey(self.schema, "copy", source), PartKey(TableName("shop", table), 0, first, 0)
        with TargetConnection(self.subtask(source, ()).target) as connection:
            run = begin_run(connection, key, f"dump of {source}", GO)
            connection.begin()
            assert claim_part(connection, run, part, count, 8, TableName(self.schema, "whole"))
            for number in range(first, first + count):
                literals = (str(number), *(f"'{value}'" for value in values.values()))
                columns = ", ".join(("id", *values))
                connection.execute(f"INSERT INTO {self.schema}.whole ({columns}) VALUES ({', '.join(literals)})")
            connection.commit()

    @property
    def ids(self) -> list[int]:
        return [row[0] for row in self.target.query(f"SELECT id FROM {self.schema}.whole ORDER BY id")]

    def records(self, source: str) -> int:
        """Of loaded parts."""
        query = f"SELECT COUNT(*) FROM {self.schema}.copy_loader_checkpoint WHERE id = '{source}' AND cp_table <> ''"
        return int(self.target.query(query)[0][0])


@pytest.fixture
def merge(target: ThrowawayServer, schema: SchemaFactory) -> Merge:
    return merge_at(target, schema(target))


def merge_at(target: PrivateServer, schema: str) -> Merge:
    made = Merge(target, schema)
    target.execute(
        f"CREATE TABLE {made.schema}.whole (id INT PRIMARY KEY, of_source VARCHAR(32), of_table VARBINARY(32),"
        " of_schema CHAR(32)) DEFAULT CHARSET=latin1",
        f"INSERT INTO {made.schema}.whole (id) VALUES (99)",
    )
    return made


@pytest.fixture
def struck() -> Iterator[Callable[[str], None]]:
    """Arms a fault in this process."""
    yield faults.arm
    faults.arm("")


def refused(merge: Merge, subtask: SubtaskConfig) -> None:
    before = merge.ids
    with pytest.raises(DMError, match=f"in {merge.schema}.whole: which of the rows") as caught:
        LostDump(subtask).give_up(GO)
    assert caught.value.name == "load-other-dump"
    assert merge.ids == before


def test_just_the_rows_of_the_lost_source_go(merge: Merge) -> None:
    merge.load("one", "a", 1, of_source="one")
    merge.load("one", "b", 2, of_source="one")
    merge.load("ONE", "a", 3, of_source="ONE")
    LostDump(merge.subtask("one", ("ONE",), **PLACES["source"])).give_up(GO)
    assert merge.ids == [3, 99]
    assert (merge.records("one"), merge.records("ONE")) == (0, 1)


@pytest.mark.tidb
def test_so_it_is_at_a_tidb(tidb: TidbServer, schema: SchemaFactory) -> None:
    merge = merge_at(tidb, schema(tidb))
    merge.load("one", "a", 1, of_source="one", of_table="a")
    merge.load("ONE", "a", 3, of_source="ONE", of_table="a")
    LostDump(merge.subtask("one", ("ONE",), **PLACES["source"], **PLACES["table"])).give_up(GO)
    assert merge.ids == [3, 99]
    assert (merge.records("one"), merge.records("ONE")) == (0, 1)


@pytest.mark.tidb
def test_a_table_that_was_made_at_a_tidb_is_for_a_person(tidb: TidbServer, schema: SchemaFactory) -> None:
    copy = Copy(tidb, schema(tidb), {"spark": {"dump_files": "none"}})
    copy.copied("a")
    copy.dump_id = "second"
    with pytest.raises(DMError, match=f"in {copy.schema}.a: which of the rows") as caught:
        LostDump(copy.subtask).give_up(GO)
    assert caught.value.name == "load-other-dump"
    assert copy.rows(f"SELECT COUNT(*) FROM {copy.schema}.a") == [(2,)]


def test_all_values_of_a_table_tell_its_rows(merge: Merge) -> None:
    merge.load("one", "a", 1, of_source="one", of_table="a", of_schema="shop")
    merge.load("two", "a", 2, of_source="two", of_table="a", of_schema="shop")
    LostDump(merge.subtask("one", ("two",), **PLACES["source"], **PLACES["table"], **PLACES["schema"])).give_up(GO)
    assert merge.ids == [2, 99]


@pytest.mark.parametrize("place", ["table", "schema"])
def test_where_a_task_has_one_source_any_column_tells(place: str, merge: Merge) -> None:
    value = {"table": "a", "schema": "shop"}[place]
    merge.load("one", "a", 1, 1, **{f"of_{place}": value})
    refused(merge, merge.subtask("one", ("two",), **PLACES[place]))  # whose rows may have the same name
    LostDump(merge.subtask("one", (), **PLACES[place])).give_up(GO)
    assert merge.ids == [99]


def test_what_two_sources_would_say_tells_nothing(merge: Merge) -> None:
    merge.load("one", "a", 1, of_source="e")
    last = SourceExtraction(source_regexp=".*(.)", target_column="of_source")
    refused(merge, merge.subtask("one", ("three",), extract_source=last))
    LostDump(merge.subtask("one", ("two",), extract_source=last)).give_up(GO)
    assert merge.ids == [99]


def test_tables_that_join_tell_nothing_apart_from_those_of_the_stream(merge: Merge) -> None:
    merge.load("one", "a", 1, of_source="one")
    share = Share(tables=(TableName("shop", "a"),))
    refused(merge, merge.subtask("one", ("two",), **PLACES["source"]).model_copy(update={"share": share}))


def test_a_merge_without_such_columns_is_for_a_person(merge: Merge) -> None:
    merge.load("one", "a", 1)
    for others in ((), ("two",)):
        refused(merge, merge.subtask("one", others))


def test_more_rows_than_were_loaded_are_for_a_person(merge: Merge) -> None:
    merge.load("one", "a", 1, of_source="one")
    merge.target.execute(f"UPDATE {merge.schema}.whole SET of_source = 'one' WHERE id = 99")
    refused(merge, merge.subtask("one", ("two",), **PLACES["source"]))


def test_taking_back_goes_on_where_it_was_left(
    merge: Merge, struck: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told_rows, "_AT_ONCE", 2)
    merge.load("one", "a", 1, 5, of_source="one")
    lost = LostDump(merge.subtask("one", ("two",), **PLACES["source"]))
    struck("loader.rows_removed=error@2")
    with pytest.raises(faults.FaultError):
        lost.give_up(GO)
    assert (merge.ids, merge.records("one")) == ([5, 99], 1)
    lost.give_up(GO)
    assert (merge.ids, merge.records("one")) == ([99], 0)


def test_a_table_that_a_person_has_removed_has_nothing_to_take_back(merge: Merge) -> None:
    merge.load("one", "a", 1, of_source="one")
    merge.target.execute(f"DROP TABLE {merge.schema}.whole")
    LostDump(merge.subtask("one", ("two",), **PLACES["source"])).give_up(GO)
    assert merge.records("one") == 0
