"""Schemas and tables at the target, made from the source's own CREATE TABLE texts.

A table that exists is used when rows of the source fit into it as they are: each column that the source stores is
there with the same type and character set (what the bytes of a value mean), and no column besides them demands a
value. That allows the tables of a merge, tables with columns of the target's own, and other collations and indexes;
anything else is refused with the first difference. Where optimistic shards are merged, a column may be wider there:
another shard may be further on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import shown_create
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect import flavor_of
from dm.mysql.schema.charset import collations_query, utf8mb3_name
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.show import described
from dm.mysql.schema.table import Column, TableSchema, widens
from dm.mysql.schema.translation import Translation, with_collations
from dm.mysql.schema.visibility import with_visibility
from dm.mysql.sql.context import SourceContext, version_number
from dm.mysql.sql.piece import Piece
from dm.mysql.types.documents import may_hold_documents
from dm.rules.router import ExtractedColumn, table_missing
from dm.session.answers import reads_answers

Route = Callable[[TableName], TableName]

_TABLE_EXISTS = 1050
_DUPLICATE_MEMBER = 1291
KEY_DEMANDED = (3750, 1173)  # MySQL, sql_require_primary_key; MariaDB, innodb_force_primary_key
# Unknown collation, unknown character set, collation that does not belong to the set.
_COLLATION_UNKNOWN = (1273, 1115, 1253)
# Unknown type, syntax, function, engine, option of an engine.
_NOT_UNDERSTOOD = (4161, 1064, 1305, 1286, 1478)


@dataclass(frozen=True, slots=True)
class TargetTables:
    """Makes and compares tables at the target."""

    connection: TargetConnection
    context: SourceContext  # of the target
    unsafe_engines: frozenset[str]  # of the target: those without transactions
    strict_collations: bool = False  # a character set that stands alone means the source's collation
    translation: Translation = field(default_factory=Translation)
    wider: bool = False  # columns of a table that is there may hold more than the source's

    @classmethod
    @reads_answers
    def at(
        cls,
        connection: TargetConnection,
        *,
        strict_collations: bool = False,
        translation: Translation | None = None,
        wider: bool = False,
    ) -> TargetTables:
        """For the server that the connection leads to."""
        text = str(connection.query("SELECT VERSION()")[0][0])
        flavor = flavor_of(text)
        engines = connection.query("SELECT engine FROM information_schema.engines WHERE transactions <> 'YES'")
        unsafe = frozenset(str(row[0]).lower() for row in engines)
        context = SourceContext(flavor, version_number(text), "")
        return cls(connection, context, unsafe, strict_collations, translation or Translation(), wider)

    @reads_answers
    def create_schemas(self, schemas: Mapping[str, tuple[str, str]], source: SourceContext) -> None:
        """Create what is missing, with the source's character set, and its collation where the target has it."""
        query = collations_query(self.context.flavor, self.context.version)
        known = [str(name) for _, name in self.connection.query(query)]
        present = {str(row[0]) for row in self.connection.query("SELECT schema_name FROM information_schema.schemata")}
        for name, (charset, collation) in schemas.items():
            if name in present:
                continue
            named = schema_default(charset, self.translation.collation(collation, source, self.context), known)
            self.connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(name).sql} {named}")

    def create(
        self,
        structure: str,
        source: TableSchema,
        context: SourceContext,
        route: Route,
        extracted: Sequence[ExtractedColumn] = (),
        before: Callable[[TableName], None] = lambda _: None,
    ) -> tuple[TableSchema, bool]:
        """Create the table, or see that rows fit into the one that is there; its structure, and whether it is new.

        `before` is called when the table is not there, and what it raises keeps it from being made.
        A table with columns that the source lacks is for a person to create: which keys they belong to nobody else
        knows.
        """
        target = route(source.name)
        new = not self.exists(target)
        if new:
            if extracted:
                raise table_missing(source.name, target, extracted)
            before(target)
            self._demand_transactions(source, self.translation.engine(source.engine), target)
            self._demand_explicit_defaults(source, target)
            try:
                self._make(self.statement(structure, context, route))
            except DMError as error:
                for name, numbers in (
                    ("load-collation-unknown", _COLLATION_UNKNOWN),
                    ("load-structure-unknown", _NOT_UNDERSTOOD),
                ):
                    if error.server_errno in numbers:
                        raise DMError(name, table=source.name, target_table=target, cause=error.cause) from error
                if error.server_errno in KEY_DEMANDED:
                    raise DMError(
                        "load-key-demanded", table=target, source_table=source.name, cause=error.cause
                    ) from error
                # Another source of the same task may have created it a moment ago.
                if error.server_errno != _TABLE_EXISTS:
                    raise
                new = False
        text = self.structure(target)
        if not text.upper().startswith("CREATE TABLE"):
            raise DMError("load-table-unsuitable", table=target, source_table=source.name, why="it is a view")
        found = self.parsed(target, text)
        self._demand_transactions(source, found.engine, target)
        why = misfit(source, found, {each.column.lower() for each in extracted}, wider=self.wider)
        if why is not None:
            raise DMError("load-table-differs", table=target, source_table=source.name, why=why)
        return found, new

    def statement(self, structure: str, context: SourceContext, route: Route) -> str:
        """The source's CREATE TABLE as it is run here."""
        piece = Piece.of(structure, context)
        if self.strict_collations:
            piece = with_collations(piece, self.context)
        piece = with_visibility(self.translation.piece(piece, self.context), self.context)
        return piece.routed(route)

    def try_out(self, statement: str, source: TableSchema, place: TableName) -> TableSchema:
        """Make an empty table of this name by a statement and drop it; raises DMError where the target refuses.

        Gives the structure that it had, where the target may have left something out; else the source's.
        """
        self._demand_explicit_defaults(source, place)
        self._make(statement)
        made = self.read(place) if self.connection.dialect.passes_over_clauses else source
        self.connection.execute(f"DROP TABLE {place.sql}")
        return made

    @reads_answers
    def demand_makeable(self, source: TableSchema, target: TableName) -> None:
        """Raise DMError where the target would not make a table without any key: to be asked before rows come."""
        if source.unique_indexes or self.exists(target):
            return
        names = "'sql_require_primary_key', 'innodb_force_primary_key', 'sql_generate_invisible_primary_key'"
        found = self.connection.query(f"SHOW VARIABLES WHERE Variable_name IN ({names})")
        on = {str(name) for name, value in found if value == "ON"}
        if on and "sql_generate_invisible_primary_key" not in on:
            raise DMError("load-key-demanded", table=target, source_table=source.name)

    def _demand_transactions(self, source: TableSchema, engine: str | None, target: TableName) -> None:
        """Raise DMError for a table whose rows can't be committed together with the record of what they are."""
        if (engine or "").lower() in self.unsafe_engines:
            why = f"its engine {engine} has no transactions"
            raise DMError("load-table-unsuitable", table=target, source_table=source.name, why=why)

    @reads_answers
    def _demand_explicit_defaults(self, source: TableSchema, target: TableName) -> None:
        """Have TIMESTAMP columns without a default made so, or raise DMError.

        Servers with `explicit_defaults_for_timestamp=OFF` would give them one, and ON UPDATE besides.
        """
        stored = (each for each in source.columns if each.type.is_moment and each.generated is None)
        bare = next((each.name for each in stored if not each.nullable and each.default is None), None)
        name = "explicit_defaults_for_timestamp"
        # Without SESSION: MariaDB before 10.8 has a global one only.
        if bare is None or int(self.connection.query(f"SELECT @@{name}")[0][0]) == 1:
            return
        try:
            self.connection.execute(f"SET SESSION {name} = 1")
        except DMError as error:
            if error.retryable:
                raise
            raise DMError("load-timestamp-implicit", table=target, column=bare, cause=error.cause) from error

    @reads_answers
    def _make(self, statement: str) -> None:
        """Execute a CREATE TABLE; members of an ENUM or SET may be equal, which only lenient sessions accept."""
        try:
            self.connection.execute(statement)
        except DMError as error:
            if error.server_errno != _DUPLICATE_MEMBER:
                raise
            mode = str(self.connection.query("SELECT @@sql_mode")[0][0])
            self.connection.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
            try:
                self.connection.execute(statement)
            finally:
                self.connection.execute("SET SESSION sql_mode = %s", (mode,))

    def read(self, table: TableName) -> TableSchema:
        """The structure that the target has."""
        return self.parsed(table, self.structure(table))

    @reads_answers
    def structure(self, table: TableName) -> str:
        """The same as the target shows it."""
        return shown_create(self.connection, table)

    def parsed(self, table: TableName, structure: str) -> TableSchema:
        """A structure in the target's words."""
        return parse_create_table(structure, SourceContext(self.context.flavor, self.context.version, table.schema))

    @reads_answers
    def exists(self, table: TableName) -> bool:
        """Whether there is a table or a view of this name."""
        rows = self.connection.query(
            "SELECT table_type FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (table.schema, table.table),
        )
        return bool(rows)


def schema_default(charset: str, collation: str, known: Iterable[str]) -> str:
    """What CREATE DATABASE says of both, where the target knows these collations.

    The set decides what is stored; a collation that only the source has can't be the default here. Tables that were
    made under it name it themselves.
    """
    here = next((name for name in known if utf8mb3_name(name) == utf8mb3_name(collation)), None)
    return f"CHARACTER SET {utf8mb3_name(charset)}" + ("" if here is None else f" COLLATE {here}")


def _kind(column: Column) -> tuple[object, ...]:
    """What decides whether each value of one column is the same value in another one."""
    length = None if column.type.display_width else column.length
    return (column.base, length, column.decimals or None, column.unsigned, column.charset, column.members)


# Where MariaDB's JSON is to come back into MySQL's.
_JSON_ADVICE = "JSON rounds numbers of many digits, LONGTEXT with CHECK (json_valid(..)) keeps such a text as it is"


def _same_kind(source: Column, target: Column, *, wider: bool) -> bool:
    if _kind(source) == _kind(target):
        return True
    if wider and widens(source, target):  # between character sets that have the same bytes for a character
        return True
    # MariaDB's JSON is LONGTEXT with a check.
    return source.type.is_document and may_hold_documents(target.type)


def misfit(
    source: TableSchema, target: TableSchema, extracted: Collection[str] = (), *, wider: bool = False
) -> str | None:
    """Why rows of the source do not fit into the target's table as they are; None when they do.

    `extracted` are the columns of the target that routes fill, in lower case.
    """
    for column in source.columns:
        there = target.column(column.name)
        if column.generated is not None:
            if there is not None and there.generated is None:
                return f"column {column.name} is generated at the source only, and a dump has no values of such columns"
            continue
        if there is None:
            return f"it has no column {column.name}"
        if there.generated is not None:
            return f"column {column.name} is generated there"
        if not _same_kind(column, there, wider=wider):
            advice = f"; {_JSON_ADVICE}" if may_hold_documents(column.type) and there.type.is_document else ""
            return f"column {column.name} is {described(there)} there and {described(column)} at the source{advice}"
        if column.nullable and not there.nullable:
            return f"column {column.name} is NOT NULL there"
    for column in target.columns:
        demands = (
            not column.nullable and column.default is None and not column.auto_increment and column.generated is None
        )
        if demands and source.column(column.name) is None and column.name.lower() not in extracted:
            return f"its column {column.name} demands a value"
    return None
