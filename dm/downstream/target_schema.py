"""Structures of the target's tables, as the target itself shows them, and what its foreign keys join.

SHOW CREATE TABLE gives the columns and keys. If its text leaves out collations that may differ from the server's
default, information_schema gives the collation of each column. What else decides how rows may be written (triggers,
foreign keys from and to other tables, an engine with transactions) is read with it. All of it is kept until
`invalidate_all`, or until it takes too much memory.

A schema of the target to try statements in, which leaves nothing behind.

It is a schema with real tables. Temporary tables would vanish by themselves, but a server refuses them foreign keys,
partitions and full-text indexes that it takes in a table, and they need a privilege that nothing else of a task needs.
In the schemas of the task a table would be seen by whoever uses them. So the schema has a name of its own, made of the
meta schema's and the session's number, and is dropped when the check ends.

A check that is killed can't drop it. While the check runs its session holds a lock of that number, which the server
takes back with the session. The next check on this target drops every schema of such a name whose lock is free.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar, cast

from dm.changes.row_keys import TargetTable
from dm.downstream.connection import TargetConnection
from dm.errors import REFUSED_STATEMENT, DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.charset import Collated, default_collation
from dm.mysql.schema.literal_bytes import structure_text
from dm.mysql.schema.parse import has_checks, parse_create_table
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.context import SourceContext
from dm.rules.table_rules import SCRATCH
from dm.session.answers import reads_answers

_T = TypeVar("_T")
_TABLES_BYTES = 256 << 20  # of what is kept, about
_TABLE_COST: Final = 2_000
_COLUMN_COST: Final = 800
_ABSENT: Final = {1146, 1049}  # no such table, no such schema


class TargetSchemas:
    """What is known of the target's tables. Any thread may ask."""

    def __init__(
        self,
        connect: Callable[[], TargetConnection],
        *,
        foreign_key_checks: bool = False,
    ) -> None:
        self._connect = connect
        self._connection: TargetConnection | None = None
        self._foreign_key_checks = foreign_key_checks
        self._foreign_keys: ForeignKeys | None = None  # once they are asked for
        self._known: dict[TableName, TargetTable] = {}
        self._memory = 0  # of it
        self._lock = threading.RLock()

    def get(self, table: TableName) -> TargetTable | None:
        """The table and its surroundings, kept; None if there is none; DMError if rows can't go there."""
        with self._lock:
            found = self._known.get(table)
            if found is None:
                found = self._retried(lambda connection: self._read_table(connection, table))
                if found is not None:
                    cost = _TABLE_COST + _COLUMN_COST * len(found.schema.columns)
                    if self._memory + cost > _TABLES_BYTES:
                        self._forget()
                    self._memory += cost
                    self._known[table] = found
            return found

    def read(self, table: TableName) -> TableSchema | None:
        """The structure as it is now, past anything kept; None if the target has no such table."""
        with self._lock:
            return self._retried(lambda connection: read_schema(connection, table))

    @property
    def null_is_now(self) -> bool:
        """Whether NULL in a TIMESTAMP without NULL is the present moment there."""
        with self._lock:
            return self._retried(lambda connection: connection.null_is_now)

    def invalidate_all(self) -> None:
        """Forget every table."""
        with self._lock:
            self._forget()
            self._foreign_keys = None

    def _forget(self) -> None:
        self._known.clear()
        self._memory = 0

    def close(self) -> None:
        """End the session."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _retried(self, read: Callable[[TargetConnection], _T]) -> _T:
        # An idle session may have been ended by the server: once more with a new one.
        fresh = self._connection is None
        if self._connection is None:
            self._connection = self._connect()
        try:
            return read(self._connection)
        except DMError as error:
            if error.name != "connection-lost":
                raise
            self._connection = None
            if fresh:
                raise
        return self._retried(read)

    def _read_table(self, connection: TargetConnection, table: TableName) -> TargetTable | None:
        text = _shown(connection, table)
        if text is None:
            return None
        schema = _structure(connection, table, text)
        _demand_transactions(connection, schema)
        referenced: tuple[tuple[str, ...], ...] = ()
        parents: dict[TableName, TableSchema] = {}
        if self._foreign_key_checks:
            referenced = _references(connection, schema.name)
            for foreign in schema.foreign_keys:
                parent = None if foreign.parent == schema.name else read_schema(connection, foreign.parent)
                if parent is not None:
                    parents[foreign.parent] = parent
            self._foreign_keys = self._foreign_keys or ForeignKeys(connection)
        kin = None if self._foreign_keys is None else self._foreign_keys.kin_of(schema.name)
        return TargetTable(
            schema,
            referenced,
            parents,
            has_triggers(connection, schema.name),
            connection.dialect.skips_checks and has_checks(text, schema, _context(connection, table)),
            connection.null_is_now,
            linked=kin is not None,
            acting=kin is not None and kin.acting,
            keyless_kin=kin is not None and kin.keyless,
        )


@reads_answers
def has_triggers(connection: TargetConnection, table: TableName) -> bool:
    """Whether statements on the table fire anything."""
    found = connection.query(
        "SELECT 1 FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s LIMIT 1",
        (table.schema, table.table),
    )
    return bool(found)


def read_schema(connection: TargetConnection, table: TableName) -> TableSchema | None:
    """The structure as this session finds it; None if there is no such table."""
    text = _shown(connection, table)
    return None if text is None else _structure(connection, table, text)


@reads_answers
def _shown(connection: TargetConnection, table: TableName) -> str | None:
    """What SHOW CREATE TABLE says; None if there is no such table."""
    try:
        text = shown_create(connection, table)
    except DMError as error:
        if error.name in REFUSED_STATEMENT.values() and error.server_errno in _ABSENT:
            return None
        raise
    if not text.upper().startswith("CREATE TABLE"):
        raise DMError("target-table-unsuitable", table=table, table_sql=table.sql, reason="it is a view")
    return text


@reads_answers
def shown_create(connection: TargetConnection, table: TableName) -> str:
    """What SHOW CREATE TABLE says, as SQL; raises DMError."""

    def show() -> bytes:
        return cast(bytes, connection.query_bytes(f"SHOW CREATE TABLE {table.sql}")[0][1])

    return structure_text(show, partial(connection.as_set, {"character_set_results": "binary"}), connection.dialect)


def _context(connection: TargetConnection, table: TableName) -> SourceContext:
    return SourceContext(connection.flavor, connection.version, table.schema)


def _structure(connection: TargetConnection, table: TableName, text: str) -> TableSchema:
    schema = parse_create_table(text, _context(connection, table))
    if _tells_collations(connection):
        return replace(schema, name=table)
    return replace(schema, name=table, columns=with_collations(connection, schema))


def _tells_collations(connection: TargetConnection) -> bool:
    """Whether the text leaves out no collation but the table's, or the one that each server has for a character set.

    Of a utf8mb4 column MySQL 8.0 names it always, since `default_collation_for_utf8mb4` may say another one; MariaDB
    does so since MDEV-29446, as its `character_set_collations` may.
    """
    return connection.dialect.tells_column_collations


@reads_answers
def with_collations(connection: TargetConnection, schema: TableSchema) -> tuple[Column, ...]:
    """The columns with the collations that information_schema has for them."""
    rows = connection.query(
        "SELECT COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (schema.name.schema, schema.name.table),
    )
    told = {str(name).lower(): (charset, collation) for name, charset, collation in rows}
    columns = []
    for column in schema.columns:
        charset, collation = told.get(column.name.lower(), (None, None))
        if collation is not None:
            column = replace(column, charset=str(charset), collation=str(collation))
        columns.append(column)
    return tuple(columns)


@reads_answers
def _demand_transactions(connection: TargetConnection, schema: TableSchema) -> None:
    rows = connection.query(
        "SELECT t.ENGINE, e.TRANSACTIONS FROM information_schema.TABLES t"
        " LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE"
        " WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s",
        (schema.name.schema, schema.name.table),
    )
    if rows and rows[0][1] != "YES":
        reason = f"its engine {rows[0][0]} has no transactions"
        raise DMError("target-table-unsuitable", table=schema.name, table_sql=schema.name.sql, reason=reason)


@reads_answers
def _references(connection: TargetConnection, table: TableName) -> tuple[tuple[str, ...], ...]:
    """The column lists of the table that foreign keys of any table refer to."""
    rows = connection.query(
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, REFERENCED_COLUMN_NAME"
        " FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_SCHEMA = %s AND REFERENCED_TABLE_NAME = %s"
        " ORDER BY CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION",
        (table.schema, table.table),
    )
    lists: dict[tuple[str, str, str], list[str]] = {}
    for schema, child, constraint, column in rows:
        lists.setdefault((str(schema), str(child), str(constraint)), []).append(str(column))
    return tuple(dict.fromkeys(tuple(columns) for columns in lists.values()))


_NO_SUCH_SCHEMA: Final = 1049
# The last one: what stands before it is the schema's name, which may be anything.
_SHOWN: Final = re.compile(r".* /\*!40100 DEFAULT CHARACTER SET (\w+)(?: COLLATE (\w+))? \*/", re.DOTALL)


@reads_answers
def schema_defaults(connection: TargetConnection, schema: str) -> Collated | None:
    """The defaults of a schema for its tables; None if there is no such schema.

    Asked for with each DDL statement, since a person may change them. In MySQL, information_schema.schemata is a join
    over the dictionary and costs more than a table's structure; SHOW CREATE DATABASE reads one entry. Its text leaves
    out a character set's default collation, except for utf8mb4.
    """
    if connection.dialect.shows_schema_defaults:
        try:
            text = str(connection.query(f"SHOW CREATE DATABASE {Ident(schema).sql}")[0][1])
        except DMError as error:
            if error.name not in REFUSED_STATEMENT.values():
                raise
            if error.server_errno == _NO_SUCH_SCHEMA:
                return None
            text = ""  # information_schema says what the account may know
        shown = _SHOWN.match(text)
        if shown is not None:
            charset, collation = shown.groups()
            context = SourceContext(connection.flavor, connection.version, schema)
            return Collated(charset, collation or default_collation(charset, context))
    rows = connection.query(
        "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata"
        " WHERE schema_name = %s",
        (schema,),
    )
    return Collated(str(rows[0][0]), str(rows[0][1])) if rows else None


ACTING: Final = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})
_BATCH: Final = 200  # tables of one question


@dataclass(frozen=True, slots=True)
class Kin:
    """The group of tables that foreign keys join to one table, itself included."""

    acting: bool  # a foreign key among them changes rows by itself
    keyless: bool  # one of them has neither a primary key nor a unique key without NULLs


class ForeignKeys:
    """The foreign keys of the whole target, as they were when read.

    If the target checks foreign keys, a row's change may depend on rows of other tables, and may change them. So tables
    are grouped as far as foreign keys reach, in either direction: a change of a grandparent may cascade all the way.
    """

    @reads_answers
    def __init__(self, connection: TargetConnection) -> None:
        found = connection.query(
            "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, DELETE_RULE,"
            " UPDATE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS"
        )
        self._leader: dict[TableName, TableName] = {}
        links = []
        for schema, child, parent_schema, parent, on_delete, on_update in found:
            ends = _name(schema, child), _name(parent_schema, parent)
            links.append((ends[0], bool(ACTING & {str(on_delete), str(on_update)})))
            self._join(*ends)
        acting = {self._find(child) for child, acts in links if acts}
        keyless = {self._find(table) for table in _keyless(connection, list(self._leader))}
        self._kin = {
            leader: Kin(leader in acting, leader in keyless) for leader in {self._find(each) for each in self._leader}
        }

    def kin_of(self, table: TableName) -> Kin | None:
        """The table's group; None if no foreign key begins or ends at it."""
        name = _name(table.schema, table.table)
        return self._kin[self._find(name)] if name in self._leader else None

    def _find(self, table: TableName) -> TableName:
        leader = self._leader.setdefault(table, table)
        while leader != self._leader[leader]:
            leader = self._leader[leader]
        return leader

    def _join(self, one: TableName, other: TableName) -> None:
        self._leader[self._find(one)] = self._find(other)


def _name(schema: object, table: object) -> TableName:
    # Servers may write one table's name in different cases. Tables whose names differ only by case are grouped.
    return TableName(str(schema).lower(), str(table).lower())


@reads_answers
def _keyless(connection: TargetConnection, tables: Sequence[TableName]) -> Iterable[TableName]:
    for at in range(0, len(tables), _BATCH):
        batch = tables[at : at + _BATCH]
        places = ", ".join(["(%s, %s)"] * len(batch))
        rows = connection.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0"
            f" AND (LOWER(TABLE_SCHEMA), LOWER(TABLE_NAME)) IN ({places})"
            " GROUP BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME HAVING MAX(COLUMN_NAME IS NULL OR NULLABLE = 'YES') = 0",
            [part for table in batch for part in table],
        )
        keyed = {_name(*row) for row in rows}
        yield from (table for table in batch if table not in keyed)


_LONGEST_BEGINNING: Final = 64 - len(SCRATCH) - 20  # digits of a session's number
_LOCK_SECONDS: Final = 60


def scratch_beginning(meta_schema: str) -> str:
    """How the names of these schemas begin."""
    return meta_schema[:_LONGEST_BEGINNING] + SCRATCH


def scratch_number(schema: str, meta_schema: str) -> int | None:
    """The session for which a schema of this name is one of them; None for any other schema."""
    match = re.fullmatch(re.escape(scratch_beginning(meta_schema)) + r"(\d+)", schema, re.IGNORECASE)
    return None if match is None else int(match[1])


def scratch_pattern(meta_schema: str) -> str:
    """What GRANT names to take in all of them."""
    return _escaped(scratch_beginning(meta_schema)) + "%"


def of_any_scratch(words: str, scratch: str, meta_schema: str) -> str:
    """A server's words about one of these schemas, with the pattern in its place: the next one has another number.

    A pattern stands for schemas only, so what is in one of them becomes all that is in it.
    """
    pattern = Ident(scratch_pattern(meta_schema)).sql
    own = "|".join(re.escape(Ident(name).sql) for name in (scratch, _escaped(scratch)))
    return re.sub(rf"(?:{own})(\.`(?:[^`]|``)*`)?", lambda found: pattern + (".*" if found[1] else ""), words)


def _escaped(name: str) -> str:
    return re.sub(r"([\\_%])", r"\\\1", name)


@contextmanager
def scratch_schema(connection: TargetConnection, meta_schema: str) -> Iterator[str]:
    """The name of an empty schema that this session alone uses; raises DMError."""
    _drop_left_behind(connection, meta_schema)
    number = connection.connection_id
    # A session of the same number, of before the server's restart, may have left one; who drops it has the lock.
    connection.query("SELECT GET_LOCK(%s, %s)", (_lock(number), _LOCK_SECONDS))
    name = f"{scratch_beginning(meta_schema)}{number}"
    try:
        connection.execute(f"DROP DATABASE IF EXISTS {Ident(name).sql}")
        connection.execute(f"CREATE DATABASE {Ident(name).sql}")
    except DMError as error:
        error.details = {key: of_any_scratch(str(told), name, meta_schema) for key, told in error.details.items()}
        raise
    try:
        yield name
    finally:
        if connection.alive:
            connection.execute(f"DROP DATABASE IF EXISTS {Ident(name).sql}")
            connection.query("SELECT RELEASE_LOCK(%s)", (_lock(number),))


@reads_answers
def _drop_left_behind(connection: TargetConnection, meta_schema: str) -> None:
    for (schema,) in connection.query("SELECT schema_name FROM information_schema.schemata"):
        left_by = scratch_number(str(schema), meta_schema)
        if left_by is None:
            continue
        lock = _lock(left_by)
        if connection.query("SELECT GET_LOCK(%s, 0)", (lock,))[0][0] == 1:
            connection.execute(f"DROP DATABASE IF EXISTS {Ident(str(schema)).sql}")
            connection.query("SELECT RELEASE_LOCK(%s)", (lock,))


def _lock(number: int) -> str:
    return f"dm:check:{number}"
