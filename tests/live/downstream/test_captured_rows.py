"""Rows that older servers wrote, as row events and as SQL: a server of today has the same rows by both.

The files are those of `tests.unit.mysql.binlog.captures`. Of each all rows are taken whose tables the file itself
makes; the events that go to the target have dm's own format description and table maps, whatever the file's are.

What has no part here, and why:

- MySQL 5.5, 5.7.11, 8.0.13, MariaDB 5.5 and 10.3.35, and 5.1.43: no row events, statements only.
- MySQL 5.1.37 with NDB: no CREATE TABLE, and its last DELETE has the key's column alone, which goes as SQL.
- MySQL 5.1's betas (5.1.17, telco): another format of rows, which dm refuses.
- t2 of MySQL 8.0.40: its only row is a partial update of a JSON document, which goes as SQL.
- MariaDB 10.3.36: rows of a sequence, which is no table.
- MariaDB 11.8: newer than the server here, so its rows go as SQL.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from dm.changes.event_rules import RoutedTable, event_form, hindrance
from dm.changes.plan import PlanOptions, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.demo.servers import ThrowawayServer
from dm.downstream.apply import apply_batch
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.reader import Query, Rows, TableMap, TableMapEvent
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import wire_columns
from dm.syncer.apply.target_sessions import Variables, take_row_events
from tests.live.changes.tables import contents, endpoint_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.unit.changes.event_tables import sees_all
from tests.unit.mysql.binlog.captures import capture, typed_events

pytestmark = pytest.mark.live

_KINDS = {"insert": ChangeKind.INSERT, "update": ChangeKind.UPDATE, "delete": ChangeKind.DELETE}
_CREATE = re.compile(r"CREATE TABLE `?(\w+)`?\s", re.IGNORECASE)


@dataclass(frozen=True)
class File:
    """A capture, and what it has."""

    flavor: Flavor
    name: str
    version: str
    kinds: frozenset[str]
    tables: int
    batch: int  # changes of one target transaction
    left_out: tuple[str, ...] = ()


ALL = frozenset(_KINDS)
FILES = (
    File("mysql", "suite/binlog/std_data/ver_5_1_23.001", "5.1.23", ALL, 1, 1),
    File("mysql", "suite/binlog/std_data/ver_trunk_row_v2.001", "5.6.4", ALL, 1, 1),
    File("mysql", "std_data/mdev35643_mysql_80_binlog.000001", "8.0.40", frozenset({"insert"}), 1, 10, ("t2",)),
    File("mariadb", "std_data/mdev6020-mysql-bin.000001", "10.0.11", ALL, 10, 100),
)


@dataclass
class Captured:
    """The tables of a file, and its rows in order."""

    tables: dict[str, str]
    rows: list[tuple[TableMap, Rows]]


def read(file: File) -> Captured:
    """Everything of the tables that the file makes and writes to."""
    maps: dict[int, TableMap] = {}
    made: dict[str, str] = {}
    rows: list[tuple[TableMap, Rows]] = []
    for event in typed_events(capture(file.name)):
        if isinstance(event, TableMapEvent):
            maps[event.table_id] = event.table_map
        elif isinstance(event, Rows):
            if maps[event.table_id].table not in file.left_out:
                rows.append((maps[event.table_id], event))
        elif isinstance(event, Query) and (create := _CREATE.match(event.text)):
            made[create.group(1)] = event.text
    written = {table_map.table for table_map, _ in rows}
    return Captured({name: made[name] for name in made if name in written}, rows)


def create(target: ThrowawayServer, schema: str, captured: Captured) -> None:
    """The tables as the file makes them, where the suite's servers had latin1, and in an engine with transactions."""
    target.execute(f"ALTER DATABASE {schema} CHARACTER SET latin1")
    with closing(target.connect(database=schema)) as connection, connection.cursor() as cursor:
        for statement in captured.tables.values():
            cursor.execute(re.sub(r"ENGINE ?= ?MyISAM", "", statement))


def changes(
    schemas: TargetSchemas, schema: str, captured: Captured, options: PlanOptions
) -> Iterator[tuple[RowChange, str]]:
    """The file's changes for the tables of a schema, and what keeps them from being events."""
    plans: dict[bytes, tuple[RowDecoder, RoutedTable, str]] = {}
    for table_map, rows in captured.rows:
        known = plans.get(table_map.content)
        if known is None:
            target = schemas.get(TableName(schema, table_map.table))
            assert target is not None
            source = replace(target.schema, name=TableName(table_map.schema, table_map.table))
            wire = wire_columns(source, options.flavor)
            decoder = RowDecoder(table_map, wire)
            pair = RoutedTable(table_map, wire, target, build_plan(source, wire, target, options), options)
            why = hindrance(pair)
            if not why:
                pair = replace(pair, plan=replace(pair.plan, events=event_form(pair, decoder)))
            known = plans[table_map.content] = decoder, pair, why
        decoder, pair, why = known
        pairs = decoder.decode(rows)
        raws = [(None, None)] * len(pairs) if why else decoder.images(rows)
        assert raws is not None, "images that are not proven"
        for (before, after), (raw_before, raw_after) in zip(pairs, raws, strict=True):
            kind = _KINDS[rows.kind]
            yield RowChange(pair.plan, kind, before, after, False, raw_before=raw_before, raw_after=raw_after), why


def applied(connection: TargetConnection, found: Sequence[RowChange], batch: int) -> int:
    """Apply them in order; gives how many went as events."""
    events = 0
    for at in range(0, len(found), batch):
        outcome = apply_batch(connection, found[at : at + batch])
        assert not outcome.row_by_row
        events += outcome.as_events
    return events


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("file", FILES, ids=[file.version for file in FILES])
def test_both_forms_come_to_the_same_rows(park: ServerPark, schema: SchemaFactory, file: File) -> None:
    target = park.shared(file.flavor, "target")
    captured = read(file)
    assert len(captured.tables) == file.tables
    assert {rows.kind for _, rows in captured.rows} == file.kinds
    by_events, by_sql = schema(target), schema(target)
    for name in (by_events, by_sql):
        create(target, name, captured)
    with (
        closing(TargetSchemas(lambda: TargetConnection(endpoint_of(target)))) as schemas,
        TargetConnection(endpoint_of(target), several=True) as connection,
    ):
        assert take_row_events(connection, Variables()) == ""
        found = [*changes(schemas, by_events, captured, PlanOptions(file.flavor, no_events="", sees_triggers=sees_all))]
        assert {why for _, why in found} == {""}
        assert applied(connection, [change for change, _ in found], file.batch) == len(found)
        for_sql = [*changes(schemas, by_sql, captured, PlanOptions(file.flavor))]
        assert "" not in {why for _, why in for_sql}
        assert applied(connection, [change for change, _ in for_sql], file.batch) == 0
        count = Counter(change.kind for change, _ in found)
        rows = 0
        for table in captured.tables:
            there = contents(connection, TableName(by_events, table))
            assert there == contents(connection, TableName(by_sql, table)), table
            rows += len(there)
        assert rows == count[ChangeKind.INSERT] - count[ChangeKind.DELETE]
        assert rows > 0
