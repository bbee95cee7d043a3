"""What a statement of an SQL dump file wants, and the statement that the target gets for it.

Dump tools write few kinds of statements: settings, `USE`, and INSERT or REPLACE of rows. Only these are executed, so a
file can change no other table. Of an INSERT the beginning is cut off, up to VALUES, by the offsets
of its tokens, and one of ours is put in its place: our table, the columns by name, the verb that the task asks for. The
rows stay the bytes of the file, and are literals alone (`literal_rows.py`): what the target would compute is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dm.ident import TableName
from dm.loader.literal_rows import not_literal
from dm.loader.sql_source import without_comments
from dm.session.state import OTHER_QUOTES

_NAME: Final = rb"`(?:[^`]|``)+`|[A-Za-z0-9_$\x80-\xff]+"
_INSERT: Final = re.compile(
    rb"(?:INSERT(?:\s+IGNORE)?|REPLACE)\s+INTO\s*(?:(?P<schema>" + _NAME + rb")\s*\.\s*)?(?P<table>" + _NAME + rb")\s*"
    rb"(?:\(\s*(?P<columns>(?:(?:" + _NAME + rb")(?:\s*,\s*(?:" + _NAME + rb"))*)?)\s*\)\s*)?VALUES?\s*(?=\()",
    re.IGNORECASE,
)
_NAMES: Final = re.compile(_NAME)
_USE: Final = re.compile(rb"USE\s*(?P<schema>" + _NAME + rb")\s*", re.IGNORECASE)
_EXECUTED: Final = re.compile(rb"/\*M?![0-9]*\s*(?P<code>.*?)\s*\*/\s*", re.DOTALL)
_SET_NAMES: Final = re.compile(rb"SET\s+NAMES\s+'?(?P<charset>[a-z0-9_]+)'?", re.IGNORECASE)
_SET: Final = re.compile(
    rb"SET\s+(?:SESSION\s+|@@SESSION\.|@@)?(?P<name>[a-z_]+)\s*:?=\s*'?(?P<value>[A-Za-z0-9_,+:/ \-]*)'?", re.IGNORECASE
)
# In none of these a byte of a longer character looks like a quote or a backslash.
_CHARSETS: Final = frozenset({"binary", "ascii", "latin1", "utf8", "utf8mb3", "utf8mb4"})


@dataclass(frozen=True, slots=True)
class Setting:
    """What the session is to be for the rows; empty where its own setting is what they need."""

    sql: str = ""
    charset: str = ""  # for SET NAMES
    name: str = ""  # of the variable


@dataclass(frozen=True, slots=True)
class Rows:
    """An INSERT: what it names, and where its first row begins."""

    schema: str  # "" where it names none
    table: str
    columns: tuple[str, ...]  # () where it names none
    rows_at: int
    text: bytes


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """Why a statement is not executed."""

    why: str


def understand(text: bytes, table: TableName) -> Setting | Rows | NotUnderstood | None:
    """What a statement of a file of the table wants; None when there is only white space and comments."""
    text = without_comments(text)
    if not text:
        return None
    executed = _EXECUTED.fullmatch(text)
    code = text if executed is None else executed["code"]
    insert = _INSERT.match(code)
    if insert is not None:
        named = tuple(_name(name) for name in _NAMES.findall(insert["columns"] or b""))
        schema = "" if insert["schema"] is None else _name(insert["schema"])
        why = not_literal(code, insert.end())
        return NotUnderstood(why) if why else Rows(schema, _name(insert["table"]), named, insert.end(), code)
    use = _USE.fullmatch(code)
    if use is not None:
        found = _name(use["schema"])
        return Setting() if found == table.schema else NotUnderstood(f"it changes to schema {found}")
    setting = _setting(code)
    if setting is not None:
        return setting
    words = code[:40].decode(errors="replace").split()
    return NotUnderstood(f"a statement that begins with {' '.join(words[:3])!r}")


def _setting(code: bytes) -> Setting | NotUnderstood | None:
    names = _SET_NAMES.fullmatch(code)
    if names is not None:
        charset = names["charset"].decode("ascii").lower()
        if charset not in _CHARSETS:
            return NotUnderstood(f"it is written in character set {charset}")
        return Setting(charset=charset)
    match = _SET.fullmatch(code)
    if match is None:
        return None
    name, value = match["name"].decode("ascii").lower(), match["value"].decode("ascii")
    if name == "time_zone":
        return Setting(f"SET SESSION time_zone = '{value}'", name=name)
    if name == "sql_mode":
        modes = OTHER_QUOTES & {mode.strip().upper() for mode in value.split(",")}
        return NotUnderstood(f"it is written for sql_mode {min(modes)}") if modes else Setting()
    # Both are off, or as strict as they can be, in our session anyway.
    return Setting(name=name) if name in ("foreign_key_checks", "unique_checks", "sql_notes") else None


def _name(token: bytes) -> str:
    text = token.decode("utf-8", "surrogateescape")
    return text[1:-1].replace("``", "`") if text.startswith("`") else text
