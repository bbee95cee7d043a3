"""How to read the text of a query event: the logged session variables that affect its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dm.errors import DMError
from dm.mysql.binlog.charset import charset_of
from dm.mysql.binlog.reader import Query
from dm.mysql.sql.context import SourceContext
from dm.sourcelog.upstream.facts import ServerFacts

# MariaDB's OPTION_EXPLICIT_DEF_TIMESTAMP, logged since the variable is a session variable (10.10; sql/sql_priv.h).
# MySQL logs it since 5.7 where it matters (Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP). Before these versions the variable holds
# for the whole server, and is OFF by default.
_EXPLICIT_TIMESTAMP: Final = 1 << 24
UTC: Final = ("UTC", "GMT", "Etc/UTC")
"""Names under which a server has the time zone +00:00."""
# The only values default_collation_for_utf8mb4 can have (MySQL Reference Manual).
_OF_UTF8MB4: Final = {45: "utf8mb4_general_ci", 255: "utf8mb4_0900_ai_ci"}


def explicit_defaults_for_timestamp(facts: ServerFacts, query: Query) -> bool | None:
    """The session's variable; None if the event does not tell, because it made no difference."""
    flags = query.session.flags2
    if not facts.dialect.tells_explicit_timestamps:
        return facts.explicit_timestamps
    if facts.dialect.flags_explicit_timestamps and flags is not None:
        return bool(flags & _EXPLICIT_TIMESTAMP)
    return query.session.explicit_defaults_for_timestamp


def _charset_collations(query: Query, names: Mapping[int, str]) -> tuple[tuple[str, str], ...] | None:
    pairs = query.session.charset_collations
    if pairs is None:
        return None
    found = []
    for owner, number in pairs:
        charset, collation = charset_of(owner), names.get(number)
        if charset is None or collation is None:
            why = f"character_set_collations names collation {number}, which the source does not have now"
            raise DMError("ddl-not-understood", statement=query.readable, why=why)
        found.append((charset, collation))
    return tuple(found)


def _in_utc(facts: ServerFacts, query: Query) -> bool:
    zone = query.time_zone  # None where the statement did not depend on it
    return zone in (None, "+00:00", *UTC) or (zone == "SYSTEM" and facts.system_time_zone in UTC)


def query_context(facts: ServerFacts, query: Query, names: Mapping[int, str]) -> SourceContext:
    """What the meaning of a query event's text depends on; `names` are the source's collations by number."""
    context = SourceContext.of_sql_mode(facts.flavor, facts.version, query.schema, query.sql_mode or 0)
    explicit = explicit_defaults_for_timestamp(facts, query)
    return replace(
        context,
        # What the server wrote itself has escapes under any sql_mode (`dm.mysql.binlog.query`).
        no_backslash_escapes=context.no_backslash_escapes and not query.by_server,
        utf8="utf8mb3" if facts.utf8_is_utf8mb3 else "utf8mb4",
        in_utc=_in_utc(facts, query),
        lower_case_names=facts.lower_case_table_names == 1,
        explicit_defaults_for_timestamp=context.explicit_defaults_for_timestamp if explicit is None else explicit,
        utf8mb4_collation=_OF_UTF8MB4.get(query.default_collation_for_utf8mb4 or 0),
        charset_collations=_charset_collations(query, names),
        server_collation=None if query.charset is None else names.get(query.charset[2]),
    )
