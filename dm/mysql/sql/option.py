"""Options of tables: `NAME [=] value`, in CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.mysql.sql.cursor import Cursor, NameRef

_OPTIONS: Final = frozenset(
    {
        "ENGINE", "TYPE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHARSET", "COLLATE", "CHECKSUM", "COMMENT",
        "COMPRESSION", "CONNECTION", "DATA DIRECTORY", "INDEX DIRECTORY", "DELAY_KEY_WRITE", "ENCRYPTION",
        "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "SECONDARY_ENGINE", "INSERT_METHOD", "KEY_BLOCK_SIZE",
        "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PASSWORD", "ROW_FORMAT", "STATS_AUTO_RECALC", "STATS_PERSISTENT",
        "STATS_SAMPLE_PAGES", "STORAGE", "TABLESPACE", "TABLE_CHECKSUM", "AUTOEXTEND_SIZE", "UNION",
        "START TRANSACTION", "TRANSACTIONAL", "PAGE_CHECKSUM", "SEQUENCE",
    },
)  # fmt: skip
# Words that end a table's options or begin something else (sql_yacc.yy of both servers).
_NO_OPTION: Final = frozenset(
    {
        "PARTITION", "REMOVE", "AS", "SELECT", "IGNORE", "REPLACE", "WITH", "TABLE", "VALUES", "LIKE", "(", ")", ",",
        "", "ADD", "DROP", "ALTER", "MODIFY", "CHANGE", "RENAME", "CONVERT", "ORDER", "ALGORITHM", "LOCK", "EXCHANGE",
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableOption:
    """One option; the name in upper case, the value unquoted."""

    name: str
    value: str


def is_table_option(cursor: Cursor) -> bool:
    """Whether an option comes next."""
    token = cursor.peek()
    if token is not None and token.kind == "name":  # MariaDB's SHOW CREATE TABLE quotes an engine's own options
        return cursor.word(1) == "="
    return token is not None and token.kind == "word" and token.upper not in _NO_OPTION


def _name(cursor: Cursor) -> str:
    cursor.accept("DEFAULT")
    if cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET") or cursor.accept("CHARSET"):
        return "CHARSET"
    word = cursor.take().text.upper()
    if word in ("DATA", "INDEX"):
        cursor.expect("DIRECTORY")
        return f"{word} DIRECTORY"
    if word == "START":
        cursor.expect("TRANSACTION")
        return "START TRANSACTION"
    return word


def read_table_options(cursor: Cursor, names: list[NameRef]) -> list[TableOption]:
    """Read options up to their end; adds tables of a UNION to `names`."""
    options = []
    while is_table_option(cursor):
        name = _name(cursor)
        if name == "START TRANSACTION":
            options.append(TableOption(name, ""))
            continue
        if name == "STORAGE":  # TABLESPACE x STORAGE DISK
            options.append(TableOption(name, cursor.take().text))
            continue
        # MariaDB's engines define their own options, always with an equals sign in SHOW CREATE TABLE.
        if not cursor.accept("=") and name not in _OPTIONS:
            cursor.fail(f"{name} is not known as an option of a table")
        if name == "UNION":
            group = cursor.skip_group()
            inner = cursor.within(group)
            while not inner.done:
                names.append(inner.table())
                inner.accept(",")
            options.append(TableOption(name, ""))
            continue
        token = cursor.take()
        if token.kind == "symbol":
            cursor.at -= 1
            cursor.fail(f"expected a value of the option {name}")
        options.append(TableOption(name, token.text))
        cursor.accept(",")
    return options
