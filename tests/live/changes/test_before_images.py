"""What a server makes of events whose before images have the key's columns alone is what it makes of whole ones.

Tables are drawn, and some are written down; a source writes to them, and its images go on in both forms, into a schema
each. Between the events somebody changes rows of both, so that rows are missing, or have other values than before.
Compared are the error of each event, the rows, and what the target writes into its own binlog. DM_SEED plays one again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import pymysql
import pytest
from pymysql.cursors import Cursor

from dm.changes.event_form import EventForm
from dm.changes.event_rules import RoutedTable, event_form, hindrance
from dm.changes.plan import PlanOptions, build_plan
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.image_proof import RawPair
from dm.mysql.binlog.reader import Rows, TableMap, TableMapEvent
from dm.mysql.binlog.row_events import RowsKind, binlog_statement
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import wire_columns
from dm.syncer.apply.target_sessions import Variables, take_row_events
from tests.live.binlog.recording import recording
from tests.live.changes.tables import contents, endpoint_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.loop_result import SEED_VARIABLE
from tests.testbed.random_table import HOSTILE, Column, Table, draw_table
from tests.unit.changes.event_tables import sees_all

pytestmark = pytest.mark.live

SAMPLE = 20261130
DRAWN = 24
NUMBERS = tuple(map(str, range(8)))
WORDS = ("''", "'a'", "'A'", "'ab'", "'b '", "'\u00e4'", "REPEAT('x', 300)")


def numbers(name: str, **how: object) -> Column:
    """A column of few numbers."""
    return replace(Column(name, "INT", NUMBERS), **how)  # type: ignore[arg-type]  # its fields


def words(name: str, kind: str = "TEXT", **how: object) -> Column:
    """A column of few texts."""
    return replace(Column(name, kind, WORDS), **how)  # type: ignore[arg-type]  # its fields


ID, V, T = numbers("id", nullable=False), numbers("v", default="3"), words("t")
D = Column("d", "DATETIME(3)", ("'2020-01-01'", "'2021-02-03 04:05:06.007'"), extra=" ON UPDATE CURRENT_TIMESTAMP(3)")
PRIMARY = "PRIMARY KEY (id)"


@dataclass(frozen=True)
class Written:
    """A table that is written down, with what its definition has beside the columns."""

    columns: tuple[Column, ...]
    more: str
    cut: bool = True  # whether its before images are cut
    options: str = ""
    flavor: str = "mysql mariadb"


WRITTEN = {
    "usual": Written((ID, V, T, D), PRIMARY),
    "last": Written((T, D, words("a", "VARCHAR(400)", nullable=False), V, numbers("b", nullable=False)),
                    "PRIMARY KEY (b, a(3)), UNIQUE KEY (v)", cut=False),
    "descending": Written((T, D, words("a", "VARCHAR(400)", nullable=False), V, numbers("b", nullable=False)),
                          "PRIMARY KEY (b DESC, a), UNIQUE KEY (v)"),
    "unique": Written((V, T, numbers("w", nullable=False), ID), "UNIQUE KEY (v), UNIQUE KEY (w), UNIQUE KEY (id)"),
    "nullable": Written((V, T), "UNIQUE KEY u (v)", cut=False),
    "hash": Written((V, T, ID), PRIMARY, options="PARTITION BY HASH (id) PARTITIONS 3"),
    "range": Written((V, T, ID, numbers("p", nullable=False)), "PRIMARY KEY (id, p)",
                     options="PARTITION BY RANGE (p) ("
                             "PARTITION a VALUES LESS THAN (3), PARTITION b VALUES LESS THAN (6))"),
    "computed": Written((V, Column("x", "INT", (), generated="(v * 2) VIRTUAL"),
                         Column("y", "INT", (), generated="(v + 1) STORED"), T, ID), f"{PRIMARY}, KEY (x), KEY (y)",
                        cut=False),
    "stored": Written((V, Column("y", "INT", (), generated="(v + 1) STORED"), T, ID), f"{PRIMARY}, KEY (y)"),
    "key_computed": Written((V, Column("x", "INT", (), generated="(id + 1) STORED", nullable=False), T, ID),
                            "PRIMARY KEY (x), KEY (id)", cut=False, flavor="mysql"),
    "functional": Written((V, T, ID), f"{PRIMARY}, KEY f ((v + 1)), UNIQUE KEY g ((id * 2))", cut=False,
                          flavor="mysql"),
    "document": Written((Column("j", "JSON", ("'{\"a\": [1, 2]}'", "'[]'", "'7'")), V, ID), PRIMARY),
    "long": Written((words("l", "LONGTEXT"), ID, words("m", "VARBINARY(3000)")), f"{PRIMARY}, KEY (l(9))"),
    "too_long": Written((words("l", "LONGTEXT"), ID), f"{PRIMARY}, UNIQUE KEY (l)", cut=False, flavor="mariadb"),
    "made": Written((numbers("my_row_id", nullable=False, extra=" INVISIBLE"), V, T), "PRIMARY KEY (my_row_id)",
                    flavor="mysql"),
    "parent": Written((ID, V, T), f"{PRIMARY}, UNIQUE KEY (v)"),
    "child": Written((ID, V, T), f"{PRIMARY}, FOREIGN KEY (v) REFERENCES parent (id) ON DELETE CASCADE"),
}  # fmt: skip


Drawn = tuple[Table, str, bool | None]


def tables(flavor: Flavor, chance: random.Random) -> Iterator[Drawn]:
    """Tables with the rest of their definitions, and whether their images are cut where that is written down."""
    for name, table in WRITTEN.items():
        if flavor in table.flavor:
            yield Table(name, list(table.columns), options=table.options), table.more, table.cut
    for number in range(DRAWN):
        yield draw_table(f"d{number}", flavor, chance, HOSTILE[flavor]), "", None


def lax(server: ThrowawayServer, schema: str) -> pymysql.Connection[Cursor]:
    """A session in the mode in which what is drawn was written."""
    return server.connect(database=schema, autocommit=True, init_command="SET SESSION sql_mode = ''")


def create(server: ThrowawayServer, schema: str, found: Sequence[Drawn]) -> list[Drawn]:
    """The tables; gives those that the server has taken."""
    made = list[Drawn]()
    with closing(lax(server, schema)) as connection, connection.cursor() as cursor:
        for each in found:
            table, more, written = each
            parts = [column.sql for column in table.columns] + [index.sql for index in table.indexes]
            body = ", ".join([*parts, more] if more else parts)
            try:
                cursor.execute(f"CREATE TABLE {Ident(table.name).sql} ({body}) {table.options}")
            except pymysql.err.Error:
                assert written is None, table.name
            else:
                made.append(each)
    return made


def write(server: ThrowawayServer, schema: str, found: Sequence[Table], chance: random.Random) -> None:
    """Rows of the tables, changed and removed; what a key or a type forbids is left out."""
    with closing(lax(server, schema)) as connection, connection.cursor() as cursor:

        def run(sql: str) -> None:
            try:
                cursor.execute(sql)
            except pymysql.err.Error as error:
                if not 1000 <= int(error.args[0]) < 2000 and not 3000 <= int(error.args[0]) < 5000:
                    raise

        for table in found:
            name, columns = Ident(table.name).sql, table.writable
            for _ in range(8):
                row = ", ".join(column.draw(chance) for column in columns)
                names = ", ".join(Ident(column.name).sql for column in columns)
                run(f"INSERT INTO {name} ({names}) VALUES ({row})")
            for _ in range(8):
                changed = chance.sample(columns, chance.randrange(1, len(columns) + 1))
                values = ", ".join(f"{Ident(column.name).sql} = {column.draw(chance)}" for column in changed)
                run(f"UPDATE {name} SET {values} LIMIT {chance.choice((1, 1, 2, 9))}")
                if chance.random() < 0.3:
                    run(f"DELETE FROM {name} LIMIT {chance.choice((1, 2))}")


@dataclass(frozen=True)
class Event:
    """What a source wrote in one event."""

    table: str
    kind: RowsKind
    raws: list[RawPair]


class Target:
    """A schema into which events go, whole or cut."""

    def __init__(self, connection: TargetConnection, schema: str) -> None:
        self.connection = connection
        self.schema = schema
        self.forms: dict[str, EventForm] = {}

    def apply(self, event: Event) -> int:
        """One event in a transaction; gives the number of the server's error, or 0."""
        form = self.forms[event.table]
        images = [image for raws in event.raws for image in form.images(*raws)]
        try:
            self.connection.execute(binlog_statement(form.pieces(event.kind, images, unchecked=False)))
        except DMError as error:
            self.connection.rollback()
            return error.server_errno or -1
        self.connection.commit()
        return 0


def events(
    schemas: TargetSchemas, options: PlanOptions, both: Sequence[Target], recorded: Sequence[object]
) -> Iterator[Event]:
    """What may go as events, with a form for each of the two targets: the second one's images are whole."""
    maps: dict[int, TableMap] = {}
    decoders: dict[bytes, RowDecoder | None] = {}
    for each in recorded:
        if isinstance(each, TableMapEvent):
            maps[each.table_id] = each.table_map
        if not isinstance(each, Rows) or each.partial:
            continue
        table_map = maps[each.table_id]
        if table_map.content not in decoders:
            decoders[table_map.content] = None
            for number, target in enumerate(both):
                schema = schemas.get(TableName(target.schema, table_map.table))
                assert schema is not None
                source = replace(schema.schema, name=TableName(table_map.schema, table_map.table))
                wire = wire_columns(source, options.flavor)
                decoder = RowDecoder(table_map, wire)
                pair = RoutedTable(table_map, wire, schema, build_plan(source, wire, schema, options), options)
                if hindrance(pair):
                    break
                if number:
                    no_engine = replace(schema, schema=replace(schema.schema, engine=None))
                    pair = replace(pair, target=no_engine)
                target.forms[table_map.table] = event_form(pair, decoder)
                decoders[table_map.content] = decoder
        found = decoders[table_map.content]
        if found is not None and (raws := found.images(each)) is not None:
            yield Event(table_map.table, each.kind, raws)


def drift(cursor: Cursor, table: Table, both: Sequence[Target], chance: random.Random) -> None:
    """The same change of rows in both schemas, at one time by the clock."""
    column = chance.choice(table.writable)
    name, value = Ident(column.name).sql, column.draw(chance)
    where = "" if value == "DEFAULT" else f" WHERE {name} = {value}"
    removes = chance.random() < 0.5
    for target in both:
        rows = f"{Ident(target.schema).sql}.{Ident(table.name).sql}"
        with suppress(pymysql.err.Error):
            cursor.execute(
                f"DELETE IGNORE FROM {rows}{where} LIMIT 1" if removes else f"UPDATE IGNORE {rows} SET {name} = {value}"
            )


def logged(recorded: Sequence[object]) -> list[tuple[object, ...]]:
    """What a target's own binlog has of the rows."""
    maps: dict[int, TableMap] = {}
    found = list[tuple[object, ...]]()
    for each in recorded:
        if isinstance(each, TableMapEvent):
            maps[each.table_id] = each.table_map
        elif isinstance(each, Rows):
            found.append((maps[each.table_id].table, each.kind, each.present, each.present_after, bytes(each.body)))
    return found


@pytest.mark.ci_sample(2)
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("twin")
def test_a_server_does_the_same(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, flavor: Flavor
) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, SAMPLE))
    print("DM_SEED", seed)
    chance = random.Random(seed)
    source, cut, whole = schema(upstream), schema(target), schema(target)
    found = create(upstream, source, list(tables(flavor, chance)))
    for name in (cut, whole):
        assert create(target, name, found) == found
    every = [table for table, _, _ in found]
    named = {table.name: table for table in every}
    with recording(upstream) as recorded:
        write(upstream, source, every, chance)
    options = PlanOptions(flavor, no_events="", sees_triggers=sees_all)
    errors, kinds = Counter[int](), Counter[tuple[str, bool]]()
    with (
        closing(TargetSchemas(lambda: TargetConnection(endpoint_of(target)))) as schemas,
        TargetConnection(endpoint_of(target)) as connection,
        closing(lax(target, cut)) as beside,
        beside.cursor() as cursor,
    ):
        cursor.execute("SET SESSION timestamp = 1700000000")
        assert take_row_events(connection, Variables()) == ""
        both = [Target(connection, cut), Target(connection, whole)]
        for event in events(schemas, options, both, recorded.events):
            while chance.random() < 0.3:
                drift(cursor, named[event.table], both, chance)
            told, written = list[int](), list[list[tuple[object, ...]]]()
            logs = chance.random() < 0.1
            for each in both:
                if not logs:
                    told.append(each.apply(event))
                    continue
                with recording(target) as of_target:
                    told.append(each.apply(event))
                written.append(logged(of_target.events))
            assert told[0] == told[1], (event.table, event.kind)
            assert not logs or written[0] == written[1], (event.table, event.kind)
            errors[told[0]] += 1
            kinds[event.kind, both[0].forms[event.table].cut is not None] += 1
        for table in every:
            there = [contents(connection, TableName(each.schema, table.name)) for each in both]
            assert there[0] == there[1], table.create(cut)
            checked = target.query(f"CHECK TABLE {TableName(cut, table.name).sql} EXTENDED")
            assert [row[3] for row in checked] == ["OK"], (table.create(cut), checked)
    for table, _, is_cut in found:
        form = both[0].forms.get(table.name)
        assert is_cut is None or form is None or (form.cut is not None) is is_cut, table.name
        assert table.name not in both[1].forms or both[1].forms[table.name].cut is None
    assert errors[0] > 100, errors
    assert errors[1032] > 5, errors
    assert min(kinds["update", True], kinds["delete", True]) > 20, kinds
