"""CREATE TABLE, as users write it and as SHOW CREATE TABLE of both servers prints it, to a table structure."""

from __future__ import annotations

from typing import Final

from dm.errors import DMError
from dm.mysql.schema.charset import Collated, collated, default_collation
from dm.mysql.schema.column_definition import read_definition, with_implicit_timestamps
from dm.mysql.schema.draft import OperationRefused, TableDraft
from dm.mysql.schema.index_definition import IndexDefinition, covers, read_foreign_key, read_index
from dm.mysql.schema.partition import partitions_of
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.alter import definition_kind
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor, NameRef, split_at_commas
from dm.mysql.sql.grammar import parse
from dm.mysql.sql.operation import CreateTable, TableOption, read_table_options
from dm.mysql.sql.token import tokenize

_ENGINE_ALIASES: Final = {"heap": "memory", "merge": "mrg_myisam", "ndb": "ndbcluster", "innobase": "innodb"}
_ENGINES: Final = frozenset(
    {"innodb", "myisam", "memory", "csv", "archive", "blackhole", "mrg_myisam", "aria", "federated", "ndbcluster",
     "example", "rocksdb", "tokudb", "spider", "connect", "columnstore", "s3", "mroonga", "sequence", "oqgraph"},
)  # fmt: skip


def server_collation(context: SourceContext) -> Collated:
    """A schema's default if unknown: the session's collation_server, else the servers' current default."""
    if context.server_collation is not None:
        return collated(None, context.server_collation, Collated("utf8mb4", ""), context)
    return Collated("utf8mb4", default_collation("utf8mb4", context))


def charset_options(options: list[TableOption], inherited: Collated, context: SourceContext) -> Collated:
    """The character set and collation in a table's or schema's options."""
    charset = next((option.value for option in options if option.name == "CHARSET"), None)
    collation = next((option.value for option in options if option.name == "COLLATE"), None)
    if charset is not None and charset.lower() == "default":
        charset = inherited.charset
    return collated(charset, collation, inherited, context)


def options_of(clause: Clause, cursor: Cursor) -> tuple[list[TableOption], Clause]:
    """The options of a clause, and the rest: partitions."""
    inner = cursor.within(clause)
    names: list[NameRef] = []
    options = []
    while not inner.done and not inner.sees("PARTITION", "BY"):
        before = inner.at
        options += read_table_options(inner, names)
        inner.accept(",")
        if inner.at == before:
            inner.fail("this option of a table is not known")
    return options, inner.rest()


def engine_name(name: str) -> str | None:
    """The engine's own name; None for one unknown here, since the server then substitutes another one."""
    lowered = name.lower()
    lowered = _ENGINE_ALIASES.get(lowered, lowered)
    return lowered if lowered in _ENGINES else None


def words_of(element: Clause) -> tuple[str, ...]:
    """Every word of a constraint that could be a column."""
    return tuple(dict.fromkeys(token.text.lower() for token in element.tokens if token.kind in ("word", "name")))


def has_checks(create: str, schema: TableSchema, context: SourceContext) -> bool:
    """Whether a table as a server shows it has a CHECK, besides those of columns that only ask for JSON."""
    if "CHECK" not in create.upper():
        return False
    tokens = list(tokenize(create, context))
    asked = [
        [after.upper for after in tokens[at + 1 : at + 7]] for at, token in enumerate(tokens) if token.upper == "CHECK"
    ]
    for_json = asked.count(["(", "JSON_VALID", "(", "", ")", ")"])
    return for_json < len(asked) or for_json > sum(column.json_checked for column in schema.columns)


def check_conditions(create: str, context: SourceContext) -> frozenset[tuple[object, ...]]:
    """The conditions of all CHECKs of a table as a server shows it, those of single columns included."""
    if "CHECK" not in create.upper():
        return frozenset()
    cursor, found = Cursor.over(create, context), set[tuple[object, ...]]()
    while not cursor.done:
        if cursor.take().upper == "CHECK" and cursor.word() == "(":
            found.add(tuple(token.meaning for token in cursor.skip_group().tokens))
    return frozenset(found)


def check_name(element: Clause) -> str | None:
    """The name of a CHECK constraint, if it has one."""
    tokens = element.tokens
    if [token.upper for token in tokens[:4]] == ["CONSTRAINT", "IF", "NOT", "EXISTS"]:
        tokens = tokens[:1] + tokens[4:]
    if tokens and tokens[0].upper == "CONSTRAINT" and tokens[1].upper != "CHECK":
        return tokens[1].text
    return None


def _fill(draft: TableDraft, body: Clause, cursor: Cursor) -> None:
    """Columns first, then indexes in written order: servers name unnamed ones that way."""
    indexes: list[IndexDefinition] = []
    for element in split_at_commas(body):
        inner = cursor.within(element)
        kind = definition_kind(inner)
        if kind == "column":
            name = inner.name()
            definition = read_definition(name, inner.rest(), draft.collated, cursor, draft.name)
            draft.columns.append(definition.column)
            indexes += definition.indexes()
            if definition.parent is not None:
                key, index = definition.foreign_key()
                draft.foreign_keys.append(draft.named_key(key))
                indexes.append(index)
            for check in definition.checks:
                draft.add_column_check(check, words_of(element), cursor.context.flavor)
        elif kind == "index":
            indexes.append(read_index(element, cursor))
        elif kind == "foreign key":
            key, index = read_foreign_key(element, cursor)
            draft.foreign_keys.append(draft.named_key(key))
            indexes.append(index)
        elif kind == "check":
            draft.add_check(check_name(element), words_of(element), cursor.context.flavor)
        else:
            inner.fail("application-time periods are not supported")
    draft.columns = with_implicit_timestamps(draft.columns, cursor)
    for number, index in enumerate(indexes):
        if not (index.generated and _covered(index, number, indexes)):
            draft.add_index(index)


def _covered(wanted: IndexDefinition, number: int, indexes: list[IndexDefinition]) -> bool:
    """Whether another index makes a foreign key's own one unnecessary: an explicit or an earlier generated one."""
    columns = tuple(part.column for part in wanted.parts if part.column is not None)
    for at, other in enumerate(indexes):
        if at != number and (not other.generated or at < number) and covers(other.named(()), columns):
            return True
    return False


def read_create(operation: CreateTable, inherited: Collated, cursor: Cursor) -> TableSchema:
    """The structure that a CREATE TABLE with a body makes."""
    options, partitioning = options_of(operation.options, cursor)
    text = charset_options(options, inherited, cursor.context)
    engine = next((engine_name(option.value) for option in options if option.name in ("ENGINE", "TYPE")), None)
    draft = TableDraft(
        TableSchema(operation.table, (), charset=text.charset, collation=text.collation, engine=engine),
    )
    try:
        _fill(draft, operation.body, cursor)
    except OperationRefused as refusal:
        cursor.fail(str(refusal))
    draft.partitions = partitions_of(partitioning, cursor)
    return draft.freeze()


def parse_create_table(sql: str, context: SourceContext, database: Collated | None = None) -> TableSchema:
    """The structure that a CREATE TABLE statement makes; raises DMError.

    Its kind is `structure-not-understood`, or `column-type-unknown`.
    """
    try:
        parsed = parse(sql, context)
        operation = parsed.operations[0] if parsed.operations else None
        cursor = Cursor(Clause(sql), context, "structure-not-understood")
        if not isinstance(operation, CreateTable) or operation.like is not None:
            cursor.fail("it is no CREATE TABLE with columns")
        return read_create(operation, database or server_collation(context), cursor)
    except DMError as error:
        if error.name in ("structure-not-understood", "column-type-unknown"):
            raise
        raise DMError("structure-not-understood", statement=sql, why=error.details["why"]) from error
