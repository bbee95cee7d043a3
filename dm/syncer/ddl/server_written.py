"""Statements that the source's server wrote may be incomplete: what their text leaves open is asked of the source.

Two things may be open. For some CREATE TABLE .. SELECT and DROP TABLE, nothing tells the text's character set
(`dm.mysql.binlog.query`). And for CREATE TABLE .. LIKE a temporary table, the text does not name the table's default
character set, which is the temporary table's: a column with that default is written without one. A server that executes
the text uses the schema's default instead, and so do replicas. The source's own table, and the bytes of its rows, have
the other one.

The source's present table decides, if it is the one that the statement made:

- Of two readings of a CREATE, the source's table must have all names and texts beyond ASCII of the right one. For a
  DROP, whose tables are gone, the right reading is the one whose tables are tracked; else MySQL 5 writes UTF-8.
- For the default character set, the table must have been created at the time of the statement, and be the same except
  for the default. MariaDB's time is that of the last change of the structure, so a later CONVERT is not mistaken for
  it. MySQL's time can be older than such a change, but its row events name the character sets, and contradicting rows
  pause.

A third thing is open in a client's text: what CHARACTER SET DEFAULT of a table means. MySQL takes it after CONVERT TO
alone, where it is the default of the session's schema with its collation (sql_yacc.yy: `collation_database`; as it was
at the session's USE, so rows contradict where it was altered since). MariaDB 10.5 does the same, and takes it as an
option, too, where it is the default of the table's schema. In MariaDB 10.11 it is the character set of the table's
schema with its own default collation, in both. The target's schemas may have other defaults, and dm's session is in
none. So the character set is written out.

If that does not decide, neither of two readings is executed. For the character set, the schema's default is taken if
later rows will prove it. MySQL's row events name the character set. MariaDB's tell the longest character of a CHAR or
VARCHAR, which proves utf8mb4: of its other character sets, only UTF-16 and UTF-32 have four bytes. Otherwise a table of
a MariaDB source is not created, unless all its texts have a character set of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import from_structure
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.charset import Collated, default_collation
from dm.mysql.schema.normal import same_structure
from dm.mysql.schema.parse import options_of, read_create, server_collation
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor
from dm.mysql.sql.grammar import parse
from dm.mysql.sql.operation import CreateTable, DropTable
from dm.mysql.sql.token import Token, tokenize
from dm.sourcelog.stream.source_server import PresentTable

_CLOCK: Final = 1  # a second may end between the statement's begin and what its table says


@dataclass(frozen=True, slots=True)
class SourceNow:
    """Questions to the source, and what is known."""

    present: Callable[[TableName], PresentTable | None]
    tracked: Callable[[TableName], object | None]
    default_of: Callable[[str], Collated | None]  # of a schema
    followed: Callable[[TableName], bool]


def meant_text(query: Query, context: SourceContext, source: SourceNow) -> str:
    """The statement's text as it is meant, with the character set that it leaves out; raises DMError if unclear."""
    found = query.readings
    if context.no_backslash_escapes and b"\\" in query.sql and from_structure(query.sql):
        # In a MyISAM's CREATE TABLE .. SELECT a backslash is an escape, in a client's statement it is not. The table's
        # name precedes all literals, so it is the same either way.
        read = [one for text in found for one in _read(text, context)]
        if not read or any(source.followed(one.table) for one in read):
            raise DMError("ddl-not-understood", statement=found[0], why="its backslashes may be escapes of the server")
        return found[0]
    text = found[0] if len(found) == 1 else _meant(found, context, source)
    if query.like_temporary:
        return _with_charset(text, query, context, source)
    return _without_default(text, query, context, source)


def _meant(found: tuple[str, ...], context: SourceContext, source: SourceNow) -> str:
    operations = [(text, read) for text in found if (read := _read(text, context))]
    if not any(source.followed(one.table) for _, read in operations for one in read):
        return found[0]
    if len(operations) == 1:  # the source could read it; in the other reading, quotes have no end
        return operations[0][0]
    fitting = [text for text, read in operations if _fits(text, read, context, source)]
    dropped = all(isinstance(one, DropTable) for _, read in operations for one in read)
    if not fitting and dropped and not context.dialect.logs_clients_bytes:
        return found[1]
    if len(fitting) != 1:
        raise DMError("statement-charset-unclear", statement=found[0], other=found[1])
    return fitting[0]


def _read(text: str, context: SourceContext) -> list[CreateTable | DropTable]:
    try:
        operations = parse(text, context).operations
    except DMError:
        return []
    return [one for one in operations if isinstance(one, CreateTable | DropTable)]


def _creation(text: str, context: SourceContext) -> CreateTable | None:
    read = _read(text, context)
    return read[0] if read and isinstance(read[0], CreateTable) and read[0].like is None else None


def _fits(text: str, read: list[CreateTable | DropTable], context: SourceContext, source: SourceNow) -> bool:
    """Whether the table of a CREATE exists, or a dropped table that only this reading names is tracked."""
    operation = read[0]
    if isinstance(operation, DropTable):
        return any(source.tracked(one.table) is not None for one in read if not str(one.table).isascii())
    now = source.present(operation.table)
    if now is None:
        return False
    shown = {token.text for token in tokenize(now.text, SourceContext(context.flavor, context.version, ""))}
    start = operation.body.tokens[0].start
    said = (token.text for token in tokenize(text, context) if token.start >= start)
    return all(word in shown for word in said if not word.isascii())


def _with_charset(text: str, query: Query, context: SourceContext, source: SourceNow) -> str:
    operation = _creation(text, context)
    if operation is None or not source.followed(operation.table):
        return text
    cursor = Cursor(Clause(text), context)
    options, _ = options_of(operation.options, cursor)
    if any(option.name in ("CHARSET", "COLLATE") for option in options):
        return text
    there = _default(operation, query, cursor, source)
    if there is None:
        if context.dialect.logs_no_defaults and _unproven(operation, source.default_of(operation.table.schema), cursor):
            raise DMError("ddl-charset-unclear", table=str(operation.table), statement=text)
        return text
    if there == source.default_of(operation.table.schema):
        return text
    words = f" CHARACTER SET {there.charset}"
    if there.collation != default_collation(there.charset, context):
        words += f" COLLATE {there.collation}"
    last = operation.body.tokens[-1].end
    at = next(token.end for token in tokenize(text, context) if token.start >= last)
    return f"{text[:at]}{words}{text[at:]}"


def _default(operation: CreateTable, query: Query, cursor: Cursor, source: SourceNow) -> Collated | None:
    """The default of the table that the statement made; None if the source has dropped or changed it since."""
    now = source.present(operation.table)
    if now is None or now.structure.charset is None or now.structure.collation is None:
        return None
    if now.created is None or not 0 <= now.created - query.timestamp <= query.exec_time + _CLOCK:
        return None
    there = Collated(now.structure.charset, now.structure.collation)
    return there if same_structure(read_create(operation, there, cursor), now.structure) else None


def _unproven(operation: CreateTable, default: Collated | None, cursor: Cursor) -> bool:
    """Whether a column has the table's default, and later rows would not prove the schema's."""
    one, other = (
        read_create(operation, Collated(charset, default_collation(charset, cursor.context)), cursor).columns
        for charset in ("latin1", "utf8mb4")
    )
    inherits = {second.type for first, second in zip(one, other, strict=True) if first.charset != second.charset}
    told = default is not None and default.charset == "utf8mb4" and any(each.limits_characters for each in inherits)
    return bool(inherits) and not told


def _without_default(text: str, query: Query, context: SourceContext, source: SourceNow) -> str:
    """The statement with the character set that DEFAULT stands for in it."""
    upper = text.upper()
    if "DEFAULT" not in upper or not ("CHARSET" in upper or ("SET" in upper and "CHAR" in upper)):
        return text
    try:
        parsed = parse(text, context)
    except DMError:
        return text  # the planner says what is not understood
    if parsed.verb not in ("CREATE TABLE", "ALTER TABLE"):
        return text  # of a schema it is the server's default, which the session follows
    found, table = list(_defaults(tokenize(text, context))), parsed.names[0].name
    if not found or not source.followed(table):
        return text
    for token, converting, collation in reversed(found):
        meant = _meant_by_default(table, query, context, source, converting=converting)
        if meant is None:
            schema = query.schema or table.schema
            raise DMError("ddl-default-unclear", table=str(table), schema=schema, statement=text)
        words = meant.charset
        if not collation and meant.collation != default_collation(meant.charset, context):
            words += f" COLLATE {meant.collation}"
        text = f"{text[: token.start]}{words}{text[token.end :]}"
    return text


def _defaults(tokens: Iterable[Token]) -> Iterator[tuple[Token, bool, bool]]:
    """Each DEFAULT that stands for a character set, whether CONVERT TO has it, and whether a collation follows."""
    words = [token for token in tokens if token.text != "="]
    for at, token in enumerate(words):
        if token.upper != "DEFAULT":
            continue
        before = [word.upper for word in words[max(0, at - 3) : at]]
        if before[-1:] == ["CHARSET"] or before[-2:] in (["CHARACTER", "SET"], ["CHAR", "SET"]):
            followed = at + 1 < len(words) and words[at + 1].upper == "COLLATE"
            yield token, "TO" in before, followed


def _meant_by_default(
    table: TableName, query: Query, context: SourceContext, source: SourceNow, *, converting: bool
) -> Collated | None:
    """The character set and collation; None if they are not known."""
    server = context.dialect
    if server.default_has_no_collation:
        there = source.default_of(table.schema)
        return None if there is None else Collated(there.charset, default_collation(there.charset, context))
    if not converting:
        return source.default_of(table.schema)
    if query.session.charset_database is not None:  # the session has set another one than its schema's
        return None
    if not query.schema:
        return server_collation(context)
    # Of a schema that is not migrated nobody has followed the statements.
    followed = query.schema == table.schema or source.followed(TableName(query.schema, ""))
    return source.default_of(query.schema) if followed else None
