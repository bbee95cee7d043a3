"""What the text of a statement says without being parsed whole: its kind, the tables that it writes, what it is about.

**Its kind.** The beginning of the text decides. It identifies statements that need no replication: bodies of views,
routines, triggers and events have grammars that dm need not know, and accounts belong to the target.

**The tables that it writes** (`written_tables`). The binlog has a statement that changes rows when a session does not
write in row format. It can't be replicated exactly, so all that matters is whether it concerns a replicated table. Only
the tables it writes count. INSERT and LOAD name theirs at the beginning; UPDATE and DELETE can name several, and all of
them count. What the text does not say (triggers, stored functions) is the caller's concern.

**What it is about** if the rest is not understood: the tables and sequences that its head names. That is enough for a
statement on an unwanted object: it does nothing to the followed tables. A statement that could move a table into or out
of the task's scope has no subjects here.

**Temporary tables.** Of a CREATE or DROP only the names matter: a temporary table has no rows in the binlog. MariaDB's
temporary sequences share their names with tables, and the DROP at the end of a session names both as tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Cursor
from dm.mysql.sql.grammar import skip_set_statement
from dm.mysql.sql.token import scan

StatementKind = Literal["ddl", "skip", "begin", "commit", "rollback", "savepoint", "xa", "dml"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and its kind."""

    kind: StatementKind
    text: str
    tables: tuple[TableName, ...] | None = None  # for 'dml': the tables it writes; None if unknown


_PLAIN: Final[dict[str, StatementKind]] = {"BEGIN": "begin", "COMMIT": "commit", "ROLLBACK": "rollback"}

# The kind of object follows at once, or a DEFINER and the like, which tables have not. Text further on may be in two
# character sets (`dm.mysql.binlog.query`).
_HEAD: Final = 6
# As many are enough where `SET STATEMENT .. FOR` precedes, or empty statements.
_LONG_HEAD: Final = 40

_WITHOUT_REPLICATION: Final = frozenset(
    {
        "GRANT", "REVOKE", "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "CHECKSUM", "CACHE", "INSTALL",
        "UNINSTALL", "LOCK", "UNLOCK", "RESET", "PURGE", "KILL", "SHUTDOWN", "USE", "SHOW", "HELP", "SET", "DESCRIBE",
        "DESC", "EXPLAIN", "DEALLOCATE", "PREPARE", "EXECUTE", "BINLOG", "BACKUP", "CHANGE", "STOP", "CLONE", "SIGNAL",
        "RESIGNAL", "RESTART",
    },
)  # fmt: skip
_DML: Final = frozenset(
    {"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "CALL", "DO", "WITH", "SELECT", "VALUES", "TABLE", "HANDLER", "(",
     "IMPORT"},
)  # fmt: skip
_OBJECTS_NOT_REPLICATED: Final = frozenset(
    {
        "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE", "UNDO", "LOGFILE",
        "RESOURCE", "PACKAGE", "LIBRARY", "INSTANCE", "PREPARE", "DEFINER", "ALGORITHM", "SQL", "AGGREGATE", "JSON",
        "TEMPORARY",
    },
)  # fmt: skip
_DDL_OBJECTS: Final = frozenset(
    {
        "TABLE", "TABLES", "DATABASE", "SCHEMA", "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE",
        "OFFLINE", "IGNORE", "SEQUENCE",
    },
)  # fmt: skip


def _kind(words: list[str]) -> StatementKind | None:
    verb = words[0]
    following = words[1] if len(words) > 1 else ""
    if verb == "SET" and following == "STATEMENT":
        return _kind(words[words.index("FOR") + 1 :] or [""]) if "FOR" in words else None
    if verb == "ROLLBACK":
        return "savepoint" if "TO" in words[1:3] else "rollback"
    if verb in ("SAVEPOINT", "RELEASE"):
        return "savepoint"
    if verb in _PLAIN:
        return _PLAIN[verb]
    if verb == "START":
        return "begin" if following == "TRANSACTION" else "skip"
    if verb == "XA":
        return "xa"
    if verb == "LOAD" and following == "INDEX":
        return "skip"
    if verb in _WITHOUT_REPLICATION:
        return "skip"
    if verb in _DML:
        return "dml"
    if verb in ("CREATE", "ALTER", "DROP", "RENAME"):
        rest = words[3:] if words[1:3] == ["OR", "REPLACE"] else words[1:]
        return _object_kind(rest)
    return "ddl" if verb == "TRUNCATE" else None


def _object_kind(rest: list[str]) -> StatementKind | None:
    # DEFINER, ALGORITHM and SQL SECURITY only precede views, routines, triggers and events, and a TEMPORARY table has
    # no rows in the binlog. So the first word decides in every case but one.
    first = rest[0] if rest else ""
    if rest[:3] == ["SPATIAL", "REFERENCE", "SYSTEM"]:
        return "skip"
    if first in _OBJECTS_NOT_REPLICATED:
        return "skip"
    return "ddl" if first in _DDL_OBJECTS else None


def _head(text: str, context: SourceContext, limit: int) -> list[str]:
    lexed = scan(text, context, limit)
    words = [
        lexed.bare[lexeme.start : lexeme.end].upper() if lexeme.kind in ("word", "symbol") else ""
        for lexeme in lexed.lexemes
    ]
    while words and words[0] == ";":
        del words[0]
    return words


def kind_of(text: str, context: SourceContext) -> StatementKind:
    """The kind of a statement from the binlog, by its beginning; raises DMError."""
    plain = _PLAIN.get(text)
    if plain is not None:
        return plain
    words = _head(text, context, _HEAD)
    if not words or words[:2] == ["SET", "STATEMENT"]:
        words = _head(text, context, _LONG_HEAD)
    if not words:
        return "skip"  # only comments, or code that the source skipped
    kind = _kind(words)
    if kind is None:
        raise DMError("ddl-not-understood", statement=text, why=f"nothing known begins with {' '.join(words[:3])}")
    return kind


def classify(text: str, context: SourceContext) -> Statement:
    """The statement with its kind, and what it writes; raises DMError."""
    kind = kind_of(text, context)
    return Statement(kind, text, written_tables(text, context) if kind == "dml" else None)


_MODIFIERS: Final = ("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE")


def written_tables(text: str, context: SourceContext) -> tuple[TableName, ...] | None:
    """The tables of an INSERT, REPLACE, LOAD, UPDATE or DELETE; None if they are unknown."""
    try:
        cursor = Cursor.over(text, context)
        if cursor.accept("SET", "STATEMENT"):
            while not cursor.accept("FOR"):
                cursor.take()
        verb = cursor.accept_any("INSERT", "REPLACE", "LOAD", "UPDATE", "DELETE")
        if verb == "LOAD":
            while not cursor.accept("INTO", "TABLE"):
                cursor.take()
            return (cursor.table().name,)
        while cursor.accept_any(*_MODIFIERS):
            pass
        if verb in ("INSERT", "REPLACE"):
            cursor.accept("INTO")
            return (cursor.table().name,)
        rest = cursor.ahead.source
    except DMError:
        return None
    return _named(f"{verb} {rest}", context)


def _named(text: str, context: SourceContext) -> tuple[TableName, ...] | None:
    try:
        tree = sqlglot.parse_one(text, dialect="mysql")
    except (SqlglotError, RecursionError):
        return None
    if isinstance(tree, exp.Command):
        return None
    found = tuple(TableName(table.db or context.schema, table.name) for table in tree.find_all(exp.Table) if table.name)
    if context.lower_case_names:
        found = tuple(TableName(name.schema.lower(), name.table.lower()) for name in found)
    return found or None


_OF_A_TABLE = ("COLUMN", "INDEX", "KEY")


def subjects(text: str, context: SourceContext) -> tuple[TableName, ...]:
    """The tables and sequences that a CREATE, ALTER or DROP can change; empty if its head does not tell."""
    try:
        cursor = Cursor.over(text, context)
        skip_set_statement(cursor)
        verb = cursor.accept_any("CREATE", "ALTER", "DROP")
        cursor.accept("OR", "REPLACE")
        while cursor.accept_any("ONLINE", "OFFLINE", "IGNORE"):
            pass
        kind = cursor.accept_any("TABLE", "SEQUENCE")
        if not verb or not kind:
            return ()
        cursor.accept("IF", "NOT", "EXISTS") or cursor.accept("IF", "EXISTS")
        names = [cursor.table().name]
        while verb == "DROP" and cursor.accept(","):
            names.append(cursor.table().name)
        return () if verb == "ALTER" and _moves(cursor) else tuple(names)
    except DMError:
        return ()


def _moves(cursor: Cursor) -> bool:
    """Whether an ALTER may give a table another name, or exchange its rows with another one's."""
    while not cursor.done:
        word = cursor.take().upper
        if word == "EXCHANGE" or (word == "RENAME" and cursor.word() not in _OF_A_TABLE):
            return True
        if word == "CONVERT" and not (cursor.sees("TO", "CHARACTER") or cursor.sees("TO", "CHARSET")):
            return True
    return False


@dataclass(frozen=True, slots=True)
class TemporaryTableChange:
    """Temporary tables that a statement creates or drops."""

    created: bool
    tables: tuple[TableName, ...]


def read_temporary(text: str, context: SourceContext) -> TemporaryTableChange | None:
    """The content of a CREATE or DROP TEMPORARY TABLE; None for any other statement."""
    try:
        cursor = Cursor.over(text, context)
        skip_set_statement(cursor)
        created = cursor.accept("CREATE")
        if created:
            cursor.accept("OR", "REPLACE")
        else:
            cursor.expect("DROP")
        cursor.expect("TEMPORARY")
        if not cursor.accept_any("TABLE", "TABLES", "SEQUENCE"):
            return None
        cursor.accept("IF", "NOT", "EXISTS") if created else cursor.accept("IF", "EXISTS")
        tables = [cursor.table().name]
        while not created and cursor.accept(","):
            tables.append(cursor.table().name)
    except DMError:
        return None
    return TemporaryTableChange(created, tuple(tables))
