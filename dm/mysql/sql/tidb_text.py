r"""The literals that a TiDB prints without escaping their backslashes, escaped as its grammar wants them.

SHOW CREATE TABLE and information_schema print the members of an ENUM or SET, and SHOW CREATE TABLE the comments of
partitions, with quotes doubled and NUL, LF and CR as `\0`, `\n` and `\r`, but a backslash as it is (OutputFormat in
pkg/parser/format, used by FieldType.CompactStr and ddl.AppendPartitionDefs; other literals go through that of
pkg/util/format, which escapes it). So `ENUM('a\\')` comes as `enum('a\')`, and is no SQL. Here the quotes alone say
where such a literal ends. `\0`, `\n` and `\r` are taken for the control characters: where they are a backslash and a
letter, the member is another one than the source's, and is refused as such.
"""

from __future__ import annotations

import re
from typing import Final

_LITERAL: Final = r"'(?:[^']|'')*'"
_MEMBERS: Final = re.compile(rf"(?:enum|set)\({_LITERAL}(?:,{_LITERAL})*\)")
_NAME: Final = r"`(?:[^`]|``)*`"
_COLUMN: Final = re.compile(rf"^(  {_NAME} )({_MEMBERS.pattern})", re.MULTILINE)
# Values before it are escaped.
_PARTITION: Final = re.compile(
    rf"^([( ]PARTITION {_NAME}(?:[^'\n]|'(?:[^'\\]|''|\\.)*')*? COMMENT )({_LITERAL})", re.MULTILINE
)
_BARE: Final = re.compile(r"\\(?![0nr])")


def escaped_type(printed: str) -> str:
    """A column's type as information_schema has it, with members as literals of SQL."""
    return _escaped(printed) if _MEMBERS.fullmatch(printed) else printed


def escaped_table(printed: str) -> str:
    """A SHOW CREATE TABLE as SQL."""
    if "\\" not in printed:
        return printed
    head, separator, partitions = printed.partition("\nPARTITION BY ")
    head = _COLUMN.sub(lambda found: found[1] + _escaped(found[2]), head)
    return head + separator + _PARTITION.sub(lambda found: found[1] + _escaped(found[2]), partitions)


def _escaped(printed: str) -> str:
    return _BARE.sub(r"\\\\", printed)
