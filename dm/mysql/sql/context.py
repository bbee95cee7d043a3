"""What the meaning of a statement's text depends on, besides the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Self

from dm.errors import DMError
from dm.mysql.dialect import Dialect, Flavor, dialect

# sql_mode bits as in the binlog's query events, equal in both flavours (sql/sql_class.h).
_REAL_AS_FLOAT: Final = 1
_ANSI_QUOTES: Final = 4
_ORACLE: Final = 512  # in MySQL only an alias of other modes
_MAXDB: Final = 4096
_NO_BACKSLASH_ESCAPES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The server and the session in which a statement ran."""

    flavor: Flavor
    version: int  # as in executable comments: 90704 is 9.7.4, 101119 is 10.11.19
    schema: str  # the session's default schema, "" for none
    ansi_quotes: bool = False
    no_backslash_escapes: bool = False
    real_as_float: bool = False
    other_types: bool = False  # sql_mode ORACLE or MAXDB: DATE or TIMESTAMP mean DATETIME, and more
    explicit_defaults_for_timestamp: bool = True
    in_utc: bool = True  # time_zone of the session; a literal of a TIMESTAMP column means another moment elsewhere
    lower_case_names: bool = False  # lower_case_table_names=1: table maps spell every name in lower case
    utf8: Literal["utf8mb3", "utf8mb4"] = "utf8mb3"  # what this alias means (old_mode of MariaDB 10.6)
    utf8mb4_collation: str | None = None  # default_collation_for_utf8mb4 of the session, if the event has it
    # The session's character_set_collations (MariaDB 11.2), if the event has it.
    charset_collations: tuple[tuple[str, str], ...] | None = None
    server_collation: str | None = None  # collation_server of the session: CREATE DATABASE uses it

    @property
    def dialect(self) -> Dialect:
        """What the server has."""
        return dialect(self.flavor, self.version)

    @classmethod
    def of_sql_mode(cls, flavor: Flavor, version: int, schema: str, sql_mode: int) -> Self:
        """The context of a query event, with its sql_mode as the event's number."""
        return cls(
            flavor,
            version,
            schema,
            ansi_quotes=bool(sql_mode & _ANSI_QUOTES),
            no_backslash_escapes=bool(sql_mode & _NO_BACKSLASH_ESCAPES),
            real_as_float=bool(sql_mode & _REAL_AS_FLOAT),
            other_types=bool(sql_mode & (_MAXDB | _ORACLE if dialect(flavor).has_oracle_mode else _MAXDB)),
        )


_VERSION = re.compile(r"^(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)")


def version_number(text: str) -> int:
    """A version text as the number in executable comments: 8.0.36 is 80036, 10.11.19 is 101119.

    Raises DMError where a text does not begin with a version. A MariaDB's greeting begins with `5.5.5-`.
    """
    match = _VERSION.match(text)
    if match is None:
        raise DMError("server-version-unknown", version=text)
    major, minor, patch = (int(part) for part in match.groups())
    return major * 10000 + minor * 100 + patch
