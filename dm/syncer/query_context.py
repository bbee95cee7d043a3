"""How the text of a query event is to be read: the session variables logged with it that decide about its meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pymysql.charset import charset_by_id

from dm.binlog.charset import charset_of
from dm.binlog.reader import Query
from dm.schema.charset import default_collation
from dm.sql.context import SourceContext
from dm.upstream.facts import ServerFacts

# MariaDB's OPTION_EXPLICIT_DEF_TIMESTAMP, logged since the variable belongs to a session (10.10; sql/sql_priv.h).
_EXPLICIT_TIMESTAMP: Final = 1 << 24
_EXPLICIT_LOGGED: Final = 101000
# The only values default_collation_for_utf8mb4 can have (MySQL Reference Manual).
_OF_UTF8MB4: Final = {45: "utf8mb4_general_ci", 255: "utf8mb4_0900_ai_ci"}


def explicit_defaults_for_timestamp(facts: ServerFacts, query: Query) -> bool | None:
    """The session's variable; None where the event does not tell, because it made no difference."""
    flags = query.session.flags2
    if facts.flavor == "mariadb" and facts.version >= _EXPLICIT_LOGGED and flags is not None:
        return bool(flags & _EXPLICIT_TIMESTAMP)
    return query.session.explicit_defaults_for_timestamp


def _server_collation(query: Query, context: SourceContext) -> str | None:
    if query.charset is None:
        return None
    number = query.charset[2]
    try:
        known: Any = charset_by_id(number)  # its stubs lack what is needed here
    except KeyError:
        charset = charset_of(number)
        return None if charset is None else default_collation(charset, context)
    return str(known.collation)


def query_context(facts: ServerFacts, query: Query) -> SourceContext:
    """What the text of a query event depends on."""
    context = SourceContext.of_sql_mode(facts.flavor, facts.version, query.schema, query.sql_mode or 0)
    explicit = explicit_defaults_for_timestamp(facts, query)
    return replace(
        context,
        lower_case_names=facts.lower_case_table_names == 1,
        explicit_defaults_for_timestamp=context.explicit_defaults_for_timestamp if explicit is None else explicit,
        utf8mb4_collation=_OF_UTF8MB4.get(query.default_collation_for_utf8mb4 or 0),
        server_collation=_server_collation(query, context),
    )
