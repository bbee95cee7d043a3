"""What kind of statement a query event holds, before any parsing.

The beginning of the text decides. It identifies statements that need no replication: bodies of views, routines,
triggers and events have grammars that dm need not know, and accounts belong to the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dm.errors import DMError
from dm.ident import TableName
from dm.sql.context import SourceContext
from dm.sql.dml import written_tables
from dm.sql.lexeme import scan

StatementKind = Literal["ddl", "skip", "begin", "commit", "rollback", "savepoint", "xa", "dml"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and its kind."""

    kind: StatementKind
    text: str
    tables: tuple[TableName, ...] | None = None  # for 'dml': the tables it writes; None if unknown


_PLAIN: Final[dict[str, StatementKind]] = {"BEGIN": "begin", "COMMIT": "commit", "ROLLBACK": "rollback"}

# The kind of object follows at once, or a DEFINER and the like, which tables have not. Text further on may be in two
# character sets (`dm.binlog.statement_text`).
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
