"""What a target computes of rows by itself: generated columns, keys that are expressions, CHECKs, local times.

The problem. A server computes these in the session that writes the row: `HOUR(ts)` of a TIMESTAMP is another number in
another time zone, `DAYNAME(d)` another word in another language. dm's sessions are at +00:00, in English and so on,
whatever the servers' settings are; so the target would compute other values than the source has. A native replica
computes in the session that its server's global settings make. Where both servers have the same, it is exact.

The rule. Whatever such an expression depends on is set as the source's server has it (`SourceSettings`, read when a run
begins; a dump stores it with its plan).

- What only expressions depend on is set in every session (`SourceSettings.variables`). It must be every session: MySQL
  keeps what it has worked out of an expression with the open table, for whatever session comes next (the digits of a
  quotient, NO_UNSIGNED_SUBTRACTION, names of days). Sessions of others do so as well. So the target's global settings
  count, and `check-task` compares them.
- The time zone and PAD_CHAR_TO_FULL_LENGTH also change what literals and comparisons mean. So they are set for the
  statements of those tables alone whose expressions may depend on them (`Computing.settings`), and the literals of
  TIMESTAMPs are of a form that names the moment in any zone.

In a zone with daylight saving time one hour a year stands for two. MySQL takes an offset after a literal since 8.0.19.
MariaDB, TiDB and older servers do not, so there the literal is converted and taken back: where another moment comes
out, it is a text that no TIMESTAMP takes, and the statement is refused. (As a row event the row is exact.)

The source's sessions may be in other zones than its server. Then its own replica has other values in STORED columns as
well, and nobody can compute them. What the source has stored is in the row's image, and is compared
(`dm.downstream.exchange`); a dump has the source compare it.

Columns of the target's own that it fills with the local time get it in the task's time zone. Sessions of the target are
at +00:00, since a TIMESTAMP is exact only there: in a zone with daylight saving time one hour a year stands for two, so
that what was read as 02:30 could be either. A DATETIME of the target's own with `DEFAULT CURRENT_TIMESTAMP` would then
get UTC. In DM it gets the time of the task's `timezone`, or of the target's global zone.

So the statement that writes a row names such a column and computes its value, by the target's own default with its
"now" taken to the zone: from +00:00 that is a function, for every moment and every zone. Where ON UPDATE sets the
column, an UPDATE does the same. All else stays with the session: a TIMESTAMP is the same instant in any zone, and what
counts seconds (UNIX_TIMESTAMP) asks for no zone.

A zone that the server does not know would give NULL, so the server is asked first
(`dm.downstream.source_session_settings`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dm.errors import DMError
from dm.ident import Ident
from dm.mysql.binlog.value import Value
from dm.mysql.schema.expressions import depends_on_zone, reads_padded
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.literal import Encoder
from dm.session.state import Offsets

UTC: Final[Offsets] = ((0, 0),)
PADDING: Final = "PAD_CHAR_TO_FULL_LENGTH"
# Modes that decide an expression's value and nothing else of a row.
_VALUE_MODES: Final = ("NO_UNSIGNED_SUBTRACTION",)
# What sessions have that nobody has given another value.
_USUAL: Final = {"div_precision_increment": "4", "lc_time_names": "en_US", "default_week_format": "0"}
VARIABLES: Final = (*_USUAL, "sql_mode", "time_zone")


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """What the sessions of a server begin with, as far as expressions depend on it."""

    zone: str = "+00:00"  # by name
    offsets: Offsets = UTC  # of the zone
    modes: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)  # variables by name

    @property
    def variables(self) -> Mapping[str, str]:
        """What every session at the target needs besides its usual settings; the modes are added to its sql_mode."""
        return {name: value for name, value in self.others.items() if value != _USUAL[name]}

    @property
    def value_modes(self) -> tuple[str, ...]:
        """The modes that every session at the target needs besides its own."""
        return tuple(mode for mode in _VALUE_MODES if mode in self.modes)

    def to_json(self) -> dict[str, Any]:
        """For a dump's plan."""
        offsets = [list(each) for each in self.offsets]
        return {"zone": self.zone, "offsets": offsets, "modes": list(self.modes), "others": dict(self.others)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> SourceSettings:
        """The inverse of `to_json`."""
        offsets = tuple((int(week), int(minutes)) for week, minutes in found["offsets"])
        return cls(str(found["zone"]), offsets, tuple(found["modes"]), dict(found["others"]))


@dataclass(frozen=True, slots=True)
class TableSettings:
    """What the session of a table's statements has otherwise than the usual one."""

    zone: str = ""  # empty: the session's own
    pads: bool = False

    def mode(self, own: str) -> str:
        """The sql_mode that it has then, where `own` is its usual one."""
        return f"{own},{PADDING}" if self.pads else own


PLAIN: Final = TableSettings()


@dataclass(frozen=True, slots=True)
class Computing:
    """How a target computes as the source does."""

    zone: str = ""  # of the source's server, in the target's words; empty: that of our sessions
    unknown: str = ""  # its name where the target has no words for it
    pads: bool = False
    offset_literals: bool = False  # the target takes a TIMESTAMP with its offset
    files: bool = False  # statements are for a person's session, which is at UTC

    def settings(self, table: TableSchema, *, unread_checks: bool = False) -> TableSettings:
        """Those of a table's statements; raises DMError `expression-zone-unknown`."""
        zoned = bool(self.zone or self.unknown) and depends_on_zone(table, unread_checks=unread_checks)
        if zoned and self.files:
            raise DMError("expression-zone-in-files", table=table.name, zone=self.unknown)
        if zoned and self.unknown:
            raise DMError("expression-zone-unknown", table=table.name, zone=self.unknown)
        pads = self.pads and reads_padded(table, unread_checks=unread_checks)
        return TableSettings(self.zone if zoned else "", pads)

    def moment(self, encode: Encoder, source: Column) -> Encoder:
        """The encoder of a TIMESTAMP's value for any zone, made of that of its text in UTC."""
        offsets = self.offset_literals and source.type.is_timed
        parts = [None if part == TEXT else part.encode() for part in moment_parts(offsets=offsets)]
        timed = source.type.is_timed

        def encoded(value: Value) -> bytes:
            literal = encode(value)
            text = literal[1:-1]
            if literal in _NO_MOMENT or (timed and text.startswith(ZERO)):
                return literal
            if not timed:
                return b"IF(CONVERT_TZ(%b)=%b,%b,CONCAT(%b,' UTC is one of two moments'))" % (
                    b"CONVERT_TZ(" + literal + _THERE + b",@@SESSION.time_zone,'+00:00'",
                    b"CAST(" + literal + b" AS DATETIME(6))",
                    b"CONVERT_TZ(" + literal + _THERE,
                    literal,
                )
            return b"".join([text if part is None else part for part in parts])

        return encoded


def in_files(source: SourceSettings) -> Computing:
    """For statements that are written into a file, which is executed at UTC."""
    return Computing(unknown="" if source.offsets == UTC else source.zone, files=True)


NEUTRAL: Final = Computing()
"""The target computes in our own sessions' settings."""

ZERO: Final = b"0000-"
"""How the zero of a TIMESTAMP begins, which is no moment."""
TEXT: Final = ""
"""Stands for the value's text in UTC among the parts of a literal."""
_THERE: Final = b",'+00:00',@@SESSION.time_zone)"
_NO_MOMENT: Final = frozenset({b"NULL", b"0"})
_TOLD: Final = re.compile(
    rb"(?:IF\(CONVERT_TZ\(CONVERT_TZ\()?'(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)(?:\+00:00)?'(?!')"
)


TWO_MOMENTS: Final = "is one of two moments with one local time"
"""In what a server says that takes no offsets, of a TIMESTAMP that it can't be given in the session's zone."""


def moment_parts(*, offsets: bool) -> Sequence[str]:
    """The parts of a TIMESTAMP's literal that means the same in any zone; with `offsets` the target takes an offset."""
    if offsets:
        return "'", TEXT, "+00:00'"
    there = "'" + _THERE.decode()
    return (
        *("IF(CONVERT_TZ(CONVERT_TZ('", TEXT, there, ",@@SESSION.time_zone,'+00:00')='", TEXT, "',"),
        *("CONVERT_TZ('", TEXT, there, ",'", TEXT, f" UTC {TWO_MOMENTS}')"),
    )


def moment_text(literal: bytes) -> bytes | None:
    """The text in UTC that a TIMESTAMP's literal was made of; None where the value was no time."""
    told = _TOLD.match(literal)
    return None if told is None else told[1]


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
