"""Whether a target column holds each value of the source's, or may silently store another value.

A strict server refuses what is out of range, too long or not of the type. But without an error it rounds fractions,
pads bytes, and cuts white space (line ends and tabs, too) at the end of a text that is too long. It also reads text and
numbers its own way in another kind of type: 2 in an ENUM is its second member, 5 in a YEAR is 2005. It refuses NULL in
a column without NULL, except in two kinds of columns, which store the next number or the present time. So a column may
change values unless it is listed here. This is another question than `faithful` asks of keys, where equal values must
stay equal. The servers' behaviour was measured, each type into each (tests/live/changes/test_narrowing.py), and all of
Unicode into each character set.

Some pairs that would change few values or none are left out on purpose:

- TIMESTAMP and DATETIME: the one is a moment, the other a clock reading in an unknown time zone.
- FLOAT, DOUBLE, BIT, YEAR and INET6 as text, and DECIMAL fractions as DOUBLE: the same value, but written differently.
- Integers of more than six digits as FLOAT, which has room for some, but a server prints no more digits of it.
- Bytes as text (and labels that are bytes), shapes as either, text as numbers or dates: the result is another text.
- Text as MySQL's JSON, also of a MariaDB column with the check `json_valid`. What comes out is another text, and need
  not be equal as a document either: a number of many digits becomes a DOUBLE without a word.
"""

from __future__ import annotations

from collections.abc import Iterable

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.show import described
from dm.mysql.schema.table import Column


def keeps_values(source: Column, target: Column) -> bool:
    """Whether a strict target stores every value but NULL that it accepts from the source unchanged."""
    return source.type.keeps(source, target)


def refuse_narrower(
    source: TableName, target: TableName, columns: Iterable[tuple[Column, Column]], *, null_is_now: bool
) -> None:
    """Raise DMError `columns-narrower` if one of these target columns may change values of the source's.

    `null_is_now`: NULL in a TIMESTAMP without NULL is the present moment there.
    """
    found = [
        (to.name, f"{described(of)} into {described(to)}{null}")
        for of, to in columns
        if to.generated is None and ((null := _of_null(of, to, null_is_now)) or not keeps_values(of, to))
    ]
    if found:
        raise DMError(
            "columns-narrower",
            source=source,
            target=target,
            columns=", ".join(f"{name} ({types})" for name, types in found),
            target_sql=target.sql,
            first=Ident(found[0][0]).sql,
        )


def _of_null(source: Column, target: Column, null_is_now: bool) -> str:
    """What the target makes of the source's NULL without an error, for a person; empty if it refuses."""
    if source.nullable and target.auto_increment:
        return " AUTO_INCREMENT: NULL becomes the next number"
    if source.nullable and not target.nullable and target.type.is_moment and null_is_now:
        return " NOT NULL: NULL becomes the present moment"
    return ""
