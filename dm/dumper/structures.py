"""Which tables there are and what they are made of, as of a point of the binlog.

Problem: a table's structure and the point from which its changes count must belong together, or the syncer reads row
events with columns that are not theirs. Both are asked for without a lock. So the structure is read before and after
the point is taken: if it is the same, it was the same at the point. (SHOW CREATE TABLE waits for a DDL that is under
way, and a DDL keeps its metadata lock until it is in the binlog; so a new structure that is seen before the point is
also in the binlog before it.) What did not hold still is asked again, with a later point of its own.

The same way a table is *absent* at a point: not there before, not there after, and not in the lists of names that are
asked for just around the point; many structures take long to read, and a table may come and go meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.dumper.chunk_reader import is_changed
from dm.dumpfiles.destination import is_keyed
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.mysql.schema.show import normal_structure
from dm.mysql.schema.table import TableSchema
from dm.position import Position
from dm.rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import list_tables, read_structure

Structures = Mapping[TableName, str | None]


@dataclass(frozen=True, slots=True)
class StructuresAtPoint:
    """What was the case at a point; `moving` tables did not hold still around it."""

    point: Position
    structures: Structures  # None: the table was absent
    moving: frozenset[TableName]


def read_structures(
    connection: Connection, wanted: Callable[[TableName], bool], also: Iterable[TableName] = ()
) -> dict[TableName, str | None]:
    """The structure of every wanted table, and None for each of `also` that is not there."""
    found: dict[TableName, str | None] = dict.fromkeys(also)
    for table in list_tables(connection):
        if not wanted(table):
            continue
        try:
            found[table] = read_structure(connection, table)
        except DMError as error:
            if not is_changed(error):
                raise
            found[table] = None  # dropped between the list and the question
    return found


def same(one: str | None, other: str | None) -> bool:
    """Whether two structures are the same but for counters."""
    if one is None or other is None:
        return one is other
    return normal_structure(one) == normal_structure(other)


def structures_at_a_point(
    connection: Connection,
    wanted: Callable[[TableName], bool],
    take_point: Callable[[], Position],
    also: Iterable[TableName] = (),
) -> StructuresAtPoint:
    """Take a point and tell what all wanted tables were at it."""
    also = tuple(also)
    before = read_structures(connection, wanted, also)
    seen = set(filter(wanted, list_tables(connection)))
    point = take_point()
    seen.update(filter(wanted, list_tables(connection)))
    after = read_structures(connection, wanted, (*also, *before, *seen))
    moving = frozenset(
        table for table, text in after.items() if not same(before.get(table), text) or (text is None and table in seen)
    )
    return StructuresAtPoint(point, {table: text for table, text in after.items() if table not in moving}, moving)


@dataclass(frozen=True, slots=True)
class TableSize:
    """What the server estimates about a table."""

    rows: int
    average_row: int


@reads_answers
def read_sizes(connection: Connection, schemas: Iterable[str]) -> dict[TableName, TableSize]:
    """The server's estimates for all tables of these schemas."""
    names = sorted(set(schemas))
    places = ", ".join(["%s"] * len(names))
    rows = fetch(
        connection,
        "SELECT table_schema, table_name, table_rows, avg_row_length FROM information_schema.tables"
        f" WHERE table_type = 'BASE TABLE' AND table_schema IN ({places})",
        tuple(names),
    )
    return {TableName(str(row[0]), str(row[1])): TableSize(int(row[2] or 0), int(row[3] or 0)) for row in rows}


@reads_answers
def read_schemas(connection: Connection, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Default character set and collation of these schemas."""
    wanted = set(names)
    rows = fetch(
        connection,
        "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata",
    )
    return {str(row[0]): (str(row[1]), str(row[2])) for row in rows if str(row[0]) in wanted}


class TargetKeys:
    """Answers for the tables of one subtask; connects to the target when first asked, unless nothing is loaded.

    A keyed table may be read while it changes (`dm.dumpfiles.destination`). Where the target's table exists already, it
    may have other keys than the source's, or none. Where it does not, it is expected to be made like the source's; the
    load looks again, since in a merge another table may make it.
    """

    def __init__(self, subtask: SubtaskConfig, rules: TableRules) -> None:
        self._rules = rules
        self._loads = subtask.mode != "dump"
        self._connect: Callable[[], TargetConnection] = lambda: TargetConnection(subtask.target)
        self._schemas = TargetSchemas(self._connect)
        self._names: frozenset[tuple[str, str]] | None = None

    def keyless(self, source: TableSchema, flavor: Flavor) -> bool:
        """Whether rows of the table can not be told apart at the target."""
        name = self._rules.route(source.name)
        present = self._schemas.read(name) if self._loads and self._may_exist(name) else None
        if present is None:
            return not is_keyed(source, replace(source, name=name), flavor)
        return not is_keyed(source, present, flavor, self._rules.extracted(source.name))

    @reads_answers
    def _may_exist(self, name: TableName) -> bool:
        """Whether it is worth asking: most targets are empty, and a source may have very many tables."""
        if self._names is None:
            connection = self._connect()
            try:
                rows = connection.query("SELECT table_schema, table_name FROM information_schema.tables")
            finally:
                connection.close()
            # Without case: how names compare is the target's own affair, and it is asked then.
            self._names = frozenset((str(schema).lower(), str(table).lower()) for schema, table in rows)
        return (name.schema.lower(), name.table.lower()) in self._names

    def close(self) -> None:
        """End the session."""
        self._schemas.close()
