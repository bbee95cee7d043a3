"""Columns of the target's own that it fills with the local time: in the task's time zone, whatever the session's is.

Sessions of the target are at +00:00, since a TIMESTAMP is exact only there: in a zone with daylight saving time one
hour a year stands for two, so that what was read as 02:30 could be either. A DATETIME of the target's own with
`DEFAULT CURRENT_TIMESTAMP` would then get UTC. In DM it gets the time of the task's `timezone`, or of the target's
global zone.

So the statement that writes a row names such a column and computes its value, by the target's own default with its
"now" taken to the zone: from +00:00 that is a function, for every moment and every zone. Where ON UPDATE sets the
column, an UPDATE does the same. All else stays with the session: a TIMESTAMP is the same instant in any zone, and what
counts seconds (UNIX_TIMESTAMP) asks for no zone.

A zone that the server does not know would give NULL, so it is asked for it (`dm.downstream.source_computing`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from dm.errors import DMError
from dm.ident import Ident
from dm.mysql.schema.table import Column, TableSchema

_SECONDS: Final = ("unix_timestamp", "from_unixtime")
# What a default's text consists of, as far as it matters: texts and names in quotes, which stay, and calls for "now".
_PART: Final = re.compile(
    r"'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\"|`(?:[^`]|``)*`"
    r"|\b(?P<name>current_timestamp|now|localtimestamp|localtime|sysdate|curdate|current_date|curtime|current_time)\b"
    r"(?P<call>\s*\(\s*(?P<digits>\d?)\s*\))?",
    re.IGNORECASE,
)
_DAY: Final = frozenset({"curdate", "current_date"})
_CLOCK: Final = frozenset({"curtime", "current_time"})
_NEEDS_CALL: Final = frozenset({"now", "sysdate", "curdate", "curtime"})  # without parentheses they are names


@dataclass(frozen=True, slots=True)
class OwnColumn:
    """A column that the source does not have, and what its value is now."""

    column: Column
    inserted: bytes | None  # in a new row; None: as the target has it
    updated: bytes | None  # in a row that an UPDATE changes; None: it stays

    @property
    def sql(self) -> bytes:
        """The column's name."""
        return Ident(self.column.name).sql.encode()


@dataclass(frozen=True, slots=True)
class LocalTime:
    """The time zone of what the target computes itself; an empty one is the session's."""

    zone: str = ""  # as SQL
    unknown: str = ""  # its name, where the server does not know it

    def own_columns(self, target: TableSchema, filled: Collection[str]) -> tuple[OwnColumn, ...]:
        """The columns of a table that depend on the zone, but those that rows fill (names in lower case).

        Raises DMError `time-zone-unknown`.
        """
        if not self.zone:
            return ()
        found = []
        for column in target.columns:
            if column.name.lower() not in filled and column.generated is None and not column.type.is_moment:
                inserted, updated = self._local(column.default), self._local(column.on_update)
                if inserted or updated:
                    found.append(OwnColumn(column, inserted, updated))
        if found and self.unknown:
            raise DMError("time-zone-unknown", zone=self.unknown, table=target.name, column=found[0].column.name)
        return tuple(found)

    def _local(self, expression: str | None) -> bytes | None:
        """The expression with its moments in the zone; None where there are none."""
        if expression is None or any(word in expression.lower() for word in _SECONDS):
            return None
        local = _PART.sub(self._moved, expression)
        return None if local == expression else f"({local})".encode()

    def _moved(self, part: re.Match[str]) -> str:
        name = (part["name"] or "").lower()
        if not name or (name in _NEEDS_CALL and part["call"] is None):
            return part[0]
        digits = part["digits"] or ""
        # Some tables' sessions are in another zone (`computing.py`).
        now = f"SYSDATE({digits}), @@SESSION.time_zone" if name == "sysdate" else f"UTC_TIMESTAMP({digits}), '+00:00'"
        local = f"CONVERT_TZ({now}, {self.zone})"
        return f"DATE({local})" if name in _DAY else f"TIME({local})" if name in _CLOCK else local


SESSION_TIME: Final = LocalTime()
"""The session's own."""
