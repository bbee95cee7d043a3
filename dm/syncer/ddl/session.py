"""The one target session that executes DDL, in the state of the source's session.

A statement's meaning depends on its session: sql_mode decides how it is read and which defaults are legal; timestamp
and time zone decide CURRENT_TIMESTAMP and the default of a TIMESTAMP column; collations, those of literals and of a
schema that names none; the language, what DAYNAME returns for a new column. All of it is in the query event (MySQL:
Query_log_event's status variables). All of it is set for each statement, so that nothing of the last one remains.

The strict modes only decide whether a statement is allowed, and are off: the source has executed it. The other modes
decide how rows are converted: zeros that AUTO_INCREMENT numbers, impossible dates. Foreign keys are checked if the
source checked them, except for a statement that the target refuses because of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Final

from dm.downstream import ddl_jobs
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import schema_defaults
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.charset import charset_of
from dm.mysql.binlog.reader import Query
from dm.mysql.dialect.pair import both_choose_collations, both_of_mysql, same_family, same_server
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.tracker import database_schema
from dm.mysql.schema.written_timestamps import told_by_session
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import tokenize
from dm.mysql.types import printed_type
from dm.session.answers import reads_answers
from dm.sourcelog.stream.statement_context import UTC, explicit_defaults_for_timestamp
from dm.sourcelog.upstream.facts import UTF8_IS_UTF8MB3, ServerFacts
from dm.syncer.apply.lanes import Stopped
from dm.text import is_decimal

LOCK_TRIES = 10
LOCK_RETRY_SECONDS = 1.0
_JOB_SECONDS: Final = 0.2

# Modes that change a definition's meaning or a conversion. Quotes and backslashes are resolved in the text already.
_MODES: Final = {
    1 << 0: "REAL_AS_FLOAT",
    1 << 1: "PIPES_AS_CONCAT",
    1 << 3: "IGNORE_SPACE",
    1 << 6: "NO_UNSIGNED_SUBTRACTION",
    1 << 7: "NO_DIR_IN_CREATE",
    1 << 19: "NO_AUTO_VALUE_ON_ZERO",
    1 << 23: "NO_ZERO_IN_DATE",
    1 << 24: "NO_ZERO_DATE",
    1 << 25: "ALLOW_INVALID_DATES",
    1 << 29: "HIGH_NOT_PRECEDENCE",
    1 << 30: "NO_ENGINE_SUBSTITUTION",
    1 << 31: "PAD_CHAR_TO_FULL_LENGTH",
}
_FRACTION: Final = re.compile(r":\d\d\.(\d+)")
_OF_UTF8MB4: Final = 255  # utf8mb4_0900_ai_ci
_OF_OLDER_UTF8MB4: Final = 45  # utf8mb4_general_ci
# A TiDB of old collations (`new_collations_enabled_on_first_bootstrap`) takes their names and does not list them.
_UNLISTED: Final = {_OF_UTF8MB4: "utf8mb4_0900_ai_ci", _OF_OLDER_UTF8MB4: "utf8mb4_general_ci"}
_NO_FOREIGN_KEY_CHECKS: Final = 1 << 26  # OPTION_NO_FOREIGN_KEY_CHECKS of both servers
# What a server says of foreign keys; a DDL statement that is refused has changed nothing.
_FOREIGN_KEY_ERRORS: Final = tuple(
    f"{number} " for number in (1005, 1215, 1217, 1451, 1452, 1821, 1822, 1824, 1834, 3730, 3780)
)
_DATABASE: Final = re.compile(r"\s*(?:CREATE|ALTER)\s+(?:OR\s+REPLACE\s+)?(?:DATABASE|SCHEMA)\b", re.IGNORECASE)
# Collations that both flavours number alike; above stand each one's own, and 255 is MySQL's.
_SHARED_COLLATIONS: Final = range(1, 248)


class DdlSession:
    """Executes DDL statements; holds the lock of the DDL lane."""

    @reads_answers
    def __init__(
        self,
        connection: TargetConnection,
        facts: ServerFacts,
        pause: Callable[[float], bool],
        announce: Callable[[TargetConnection], None] = lambda _: None,
    ) -> None:
        self._connection = connection
        self._announce: Callable[[TargetConnection], None] | None = announce  # before the first statement
        self._facts = facts  # of the source
        self._pause = pause  # waits this many seconds; True if the run has to stop
        found = connection.query(
            "SELECT @@collation_connection, @@collation_server, @@system_time_zone, @@explicit_defaults_for_timestamp"
        )[0]
        self._collation_connection, self._collation_server, self._system_zone = map(str, found[:3])
        self._explicit_timestamps = str(found[3])
        self._names = {} if connection.dialect.takes_collation_numbers else _collation_names(connection)
        self._old_mode: str | None = None  # if the server's decides what utf8 means
        if connection.dialect.chooses_utf8:
            self._old_mode = str(connection.query("SELECT @@old_mode")[0][0])
        self._has: dict[str, object] = {}  # the variables set so far
        self._turn: TableName | None = None
        self._collations: dict[int, str] = {}  # names by number, if sessions have character_set_collations
        if both_choose_collations(facts.flavor, connection.flavor, connection.version):
            rows = connection.query(
                "SELECT id, full_collation_name FROM information_schema.collation_character_set_applicability"
            )
            self._collations = {int(number): str(name) for number, name in rows}

    @property
    def connection_id(self) -> int:
        """The target's number of this session."""
        return self._connection.connection_id

    @property
    def context(self) -> SourceContext:
        """How the target reads a statement."""
        explicit = self._explicit_timestamps == "1"
        flavor, version = self._connection.flavor, self._connection.version
        return SourceContext(flavor, version, "", explicit_defaults_for_timestamp=explicit)

    def execute(self, statement: str, query: Query) -> None:
        """Run one statement as the source ran it; raises DMError."""
        if not statement.isascii():
            self._demand_utf8(statement, query)
        if self._old_mode is None and not self._facts.utf8_is_utf8mb3:
            self._refuse_utf8(statement)
        if self._takes_fractions_otherwise(query.sql_mode or 0):
            self._refuse_fractions(statement)
        if self._announce is not None:
            self._announce(self._connection)
            self._announce = None
        self._set(self._settings(statement, query))
        try:
            self._run(statement)
        except DMError as error:
            if not error.cause.startswith(_FOREIGN_KEY_ERRORS):
                raise
            # The other table may not be migrated, or the target may use it for something else.
            self._set({"foreign_key_checks": 0})
            self._run(statement)
        finally:
            if self._connection.alive and not _reads_ours(self._has["collation_connection"]):
                # With a collation of UCS-2, even the literals of the next SET would be misread.
                self._connection.execute(f"SET SESSION collation_connection = {self._collation_connection}")
                self._has["collation_connection"] = self._collation_connection

    def pause(self, seconds: float) -> bool:
        """Wait this long; True if the unit has to stop."""
        return self._pause(seconds)

    def await_end_of(self, statement: str) -> None:
        """Wait until the target no longer executes this statement of an earlier run; raises Stopped."""
        while ddl_jobs.job_for(self._connection, statement):
            if self._pause(_JOB_SECONDS):
                raise Stopped

    @reads_answers
    def take_turn(self, table: TableName) -> None:
        """Take the turn: no other subtask looks at this table of the target or alters it. Ends the turn before.

        Waits for the subtasks that came first, as long as their statements take; raises Stopped.
        """
        if table == self._turn:
            return
        # One turn at a time: two sessions that wait while holding another turn could wait for ever.
        before, self._turn = self._turn, None
        asked, values = "SELECT GET_LOCK(%s, 1)", [_lock_name(table)]
        if before is not None:
            asked, values = "SELECT RELEASE_LOCK(%s), GET_LOCK(%s, 1)", [_lock_name(before), *values]
        while self._connection.query(asked, values)[0][-1] != 1:
            if self._pause(0):
                raise Stopped
            asked, values = "SELECT GET_LOCK(%s, 1)", values[-1:]
        self._turn = table

    @reads_answers
    def has_turn(self, connection: TargetConnection) -> bool:
        """Whether this session still has the turn that it took, as another session sees it.

        TiDB tells other sessions only that a lock is used (1 or 0); only the holder sees that it is its own.
        """
        if self._turn is None:
            return False
        asked, name = "SELECT IS_USED_LOCK(%s)", (_lock_name(self._turn),)
        found = connection.query(asked, name)[0][0]
        if not self._connection.dialect.locks_by_name and found:
            found = self._connection.query(asked, name)[0][0]
        return found is not None and int(found) == self.connection_id

    def end_turn(self) -> None:
        """End the turn, if this session has one."""
        if self._turn is not None:
            if self._connection.alive:
                self._connection.query("SELECT RELEASE_LOCK(%s)", (_lock_name(self._turn),))
            self._turn = None

    def _run(self, statement: str) -> None:
        for left in reversed(range(LOCK_TRIES)):
            try:
                self._connection.execute(statement.encode())
                return
            except DMError as error:
                # The lock was not available, and nothing was executed: DDL is atomic (MySQL 8.0, MariaDB 10.6).
                if error.name != "transaction-aborted" or left == 0 or self._pause(LOCK_RETRY_SECONDS):
                    raise

    def _demand_utf8(self, statement: str, query: Query) -> None:
        """Raise DMError for a literal with an introducer: its bytes are the client's, and our client speaks UTF-8."""
        charset = None if query.charset is None else charset_of(query.charset[0])
        if charset in (None, "utf8mb3", "utf8mb4"):
            return
        for introducer, token in pairwise(tokenize(statement, self.context)):
            if introducer.upper.startswith("_") and token.kind == "string" and not token.text.isascii():
                why = f"the literal after {introducer.text} is in {charset}"
                raise DMError("ddl-not-understood", statement=statement, why=why)

    def _refuse_utf8(self, statement: str) -> None:
        """Raise DMError for utf8, which means utf8mb3 here, and something else at the source."""
        for token in tokenize(statement, self.context):
            if token.text.lower() in ("utf8", "_utf8") or token.text.lower().startswith("utf8_"):
                why = f"{token.text} means utf8mb4 at the source (old_mode) and utf8mb3 at the target"
                raise DMError("ddl-not-understood", statement=statement, why=why)

    def _takes_fractions_otherwise(self, bits: int) -> bool:
        """Whether the source's session rounded what the target can only cut off, or the reverse."""
        source, there = self._facts.dialect, self._connection.dialect
        rounded = source.rounds_fractions is not bool(bits & source.fraction_bit)
        return not there.has_fraction_mode and rounded is not there.rounds_fractions

    def _refuse_fractions(self, statement: str) -> None:
        """In a definition only a default has any."""
        there = self._connection.dialect
        here, source = ("rounds", "cut off") if there.rounds_fractions else ("cuts off", "rounded")
        tokens = list(tokenize(statement, self.context))
        for at, token in enumerate(tokens):
            kind = printed_type(token.upper.lower())
            if kind is None or not kind.is_fractional:
                continue
            sized = [each.text for each in tokens[at + 1 : at + 4]]
            digits = int(sized[1]) if sized[:1] == ["("] and is_decimal(sized[1]) else 0
            for word, value in pairwise(tokens[at + 1 :]):
                if word.text == ",":
                    break
                fraction = _FRACTION.search(value.text) if word.upper == "DEFAULT" else None
                if fraction is not None and len(fraction[1].rstrip("0")) > digits:
                    what = f"{there.title} {here} the fraction of a second in {value.text}, which the source {source}"
                    raise DMError("ddl-values-differ", what=what, statement=statement)

    def _set(self, values: Mapping[str, object]) -> None:
        """Set the session's variables that have other values."""
        changed = {name: value for name, value in values.items() if name not in self._has or self._has[name] != value}
        if changed:
            # A number of seconds and a collation's number are no strings to the server.
            settings = [f"SESSION {name} = {_placeholder(name)}" for name in changed]
            self._connection.execute(f"SET {', '.join(settings)}", list(changed.values()))
            self._has |= changed

    def _settings(self, statement: str, query: Query) -> dict[str, object]:
        """The session's variables for a statement."""
        bits, flavor = query.sql_mode or 0, self._connection.flavor
        modes = [mode for bit, mode in _MODES.items() if bits & bit]
        if same_server(flavor, self._facts.flavor):
            modes += [mode for bit, mode in self._facts.dialect.own_modes.items() if bits & bit]
        else:
            modes += self._fractions(bits)
        increment, offset = query.session.auto_increment or (1, 1)
        values: dict[str, object] = {
            "sql_mode": ",".join(modes),
            "timestamp": f"{query.timestamp}.{query.microseconds or 0:06d}",
            "time_zone": self._time_zone(query.time_zone or "+00:00"),
            "auto_increment_increment": increment,
            "auto_increment_offset": offset,
            "lc_time_names": query.session.lc_time_names or 0,  # both servers number the languages alike
            "collation_connection": self._collation_connection,
            "collation_server": self._collation_server,
            # Without checks, InnoDB makes another constraint of the same text (NO ACTION instead of RESTRICT).
            "foreign_key_checks": int(not (query.session.flags2 or 0) & _NO_FOREIGN_KEY_CHECKS),
        }
        if query.charset is not None:
            _, connection, server = query.charset
            values["collation_connection"] = self._here(connection) or self._collation_connection
            if _DATABASE.match(statement):
                values["collation_server"] = self._here(server) or self._collation_server
        explicit = explicit_defaults_for_timestamp(self._facts, query)
        differs = explicit is not None and self._explicit_timestamps != str(int(explicit))
        if explicit is not None and differs and told_by_session(self.context):
            # Only if it differs, since it may need a privilege.
            self._explicit_timestamps = str(int(explicit))
            values["explicit_defaults_for_timestamp"] = int(explicit)
        if not self._connection.dialect.takes_collation_numbers:
            del values["lc_time_names"]  # it does not take numbers
        there = self._connection.dialect
        if both_of_mysql(self._facts.flavor, flavor) and there.chooses_utf8mb4:
            of_utf8mb4 = query.default_collation_for_utf8mb4 or self._default_of_utf8mb4
            values["default_collation_for_utf8mb4"] = self._here(of_utf8mb4)
        if self._old_mode is not None:
            kept = [mode for mode in self._old_mode.split(",") if mode and mode != UTF8_IS_UTF8MB3]
            values["old_mode"] = ",".join([*kept, UTF8_IS_UTF8MB3] if self._facts.utf8_is_utf8mb3 else kept)
        if self._collations:
            values["character_set_collations"] = self._charset_collations(statement, query)
        return values

    def _fractions(self, bits: int) -> list[str]:
        """The mode under which this flavour treats fractions of a second as the other one did at the source."""
        there = self._connection.dialect
        return [there.fraction_mode] if there.has_fraction_mode and not bits & self._facts.dialect.fraction_bit else []

    def _charset_collations(self, statement: str, query: Query) -> str:
        """The source session's; an event without them had none, or is of an older server."""
        found = []
        for owner, number in query.session.charset_collations or ():
            charset, collation = charset_of(owner), self._collations.get(number)
            if charset is None or collation is None:
                why = f"character_set_collations names collation {number}, which the target does not have"
                raise DMError("ddl-not-understood", statement=statement, why=why)
            found.append(f"{charset}={collation}")
        return ",".join(found)

    def _time_zone(self, name: str) -> str:
        """The name of the source's zone at the target, which refuses an unknown one."""
        if name != "SYSTEM" or self._facts.system_time_zone == self._system_zone:
            return name
        if self._facts.system_time_zone in UTC:
            return "+00:00"
        # Short names such as EST do not tell when clocks change, so none is tried.
        return f"SYSTEM, {self._facts.system_time_zone} at the source"

    @property
    def _default_of_utf8mb4(self) -> int:
        """The default collation of utf8mb4 at a source whose events do not tell it: before 8.0.11 there is one."""
        older = not self._connection.dialect.takes_collation_numbers and not self._facts.dialect.chooses_utf8mb4
        return _OF_OLDER_UTF8MB4 if older else _OF_UTF8MB4

    def _here(self, collation: int) -> int | str | None:
        """The target's number or name of a collation of the source; None if it has no such collation."""
        if collation not in _SHARED_COLLATIONS and not same_family(self._facts.flavor, self._connection.flavor):
            return None
        numbers = self._connection.dialect.takes_collation_numbers
        return collation if numbers else self._names.get(collation, _UNLISTED.get(collation))

    @reads_answers
    def has_table(self, table: TableName) -> bool:
        """Whether the target has a table of this name, and no view."""
        rows = self._connection.query(
            "SELECT table_type FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (table.schema, table.table),
        )
        return any(str(kind) != "VIEW" for (kind,) in rows)

    @reads_answers
    def has_rows(self, table: TableName, count: int, condition: str = "TRUE") -> bool:
        """Whether the target's table has at least this many rows for which the condition is true."""
        return len(self._connection.query(f"SELECT 1 FROM {table.sql} WHERE {condition} LIMIT {count}")) == count

    @reads_answers
    def number(self, expression: str) -> int | None:
        """The whole number that the target makes of an expression without names; None where it is another value."""
        value = self._connection.query(f"SELECT {expression}")[0][0]
        return value if isinstance(value, int) else None

    @reads_answers
    def unknown_charsets(self, names: Collection[str]) -> list[str]:
        """Those of these character sets, in lower case, that the target lacks."""
        if not names:
            return []
        rows = self._connection.query("SELECT character_set_name FROM information_schema.character_sets")
        known = {str(name).lower() for (name,) in rows} | {"utf8"}
        return sorted(set(names) - known)

    @reads_answers
    def column_checks(self, table: TableName) -> frozenset[str]:
        """The columns, in lower case, with a CHECK in their definition; MariaDB keeps these apart from the table's."""
        if not self._connection.dialect.tells_check_levels:
            return frozenset()
        rows = self._connection.query(
            "SELECT constraint_name FROM information_schema.check_constraints"
            " WHERE constraint_schema = %s AND table_name = %s AND level = 'Column'",
            (table.schema, table.table),
        )
        return frozenset(str(name).lower() for (name,) in rows)

    def database(self, schema: str) -> TableSchema | None:
        """The schema's defaults, in the form of a structure; None if there is no such schema."""
        found = schema_defaults(self._connection, schema)
        return None if found is None else database_schema(TableName(schema, ""), found)

    def close(self) -> None:
        """End the session."""
        self._connection.close()


def _lock_name(table: TableName) -> str:
    # Locks have no schemas. Two names that differ only by case may wait for each other, which is harmless.
    return f"dm:ddl:{hashlib.sha256(table.sql.lower().encode()).hexdigest()[:32]}"


def _reads_ours(collation: object) -> bool:
    """Whether this collation, given as a name or a source's number, leaves our statements' meaning unchanged."""
    charset = charset_of(collation) if isinstance(collation, int) else str(collation).partition("_")[0]
    return charset in ("utf8", "utf8mb3", "utf8mb4")


@reads_answers
def _collation_names(connection: TargetConnection) -> dict[int, str]:
    rows = connection.query("SELECT id, collation_name FROM information_schema.collations")
    return {int(number): str(name) for number, name in rows}


def _placeholder(name: str) -> str:
    return "CAST(%s AS DECIMAL(20,6))" if name == "timestamp" else "%s"
