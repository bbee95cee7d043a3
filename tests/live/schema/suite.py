"""The DDL of MariaDB's own suite: scripts/fetch_statements.sh puts it in place, for long tests only.

Of each script only DDL is run, and what changes the session it runs in, as far as that is logged with a statement or
decides how it is read. Rows make no difference to a structure, so no rows are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from dm.demo.installation import cache_directory

_ROOT: Final = Path("statements/usr/share/mysql/mysql-test")
# Scripts of engines that are plugins, of clusters and of the servers' own tables are not here.
_SUITES: Final = (
    "main", "plugin/type_inet", "plugin/type_uuid", "suite/archive", "suite/binlog", "suite/compat", "suite/csv",
    "suite/engines", "suite/funcs_1", "suite/gcol", "suite/handler", "suite/heap", "suite/innodb", "suite/innodb_fts",
    "suite/innodb_gis", "suite/innodb_zip", "suite/jp", "suite/json", "suite/maria", "suite/optimizer_unfixed_bugs",
    "suite/parts", "suite/period", "suite/rpl", "suite/storage_engine", "suite/sys_vars", "suite/vcol",
    "suite/versioning",
)  # fmt: skip
_DDL: Final = re.compile(
    rb"\s*(?:/\*!?M?!?\d*\s*)?(?:set\s+statement\s.*?\sfor\s+)?(?:"
    rb"create\s+(?:or\s+replace\s+)?(?:temporary\s+)?(?:table|database|schema|(?:online\s+)?(?:unique\s+|fulltext\s+"
    rb"|spatial\s+)?index)\b"
    rb"|alter\s+(?:online\s+|ignore\s+)*(?:table|database|schema)\b"
    rb"|drop\s+(?:temporary\s+)?(?:tables?|database|schema|index)\b|rename\s+tables?\b|truncate\b)",
    re.IGNORECASE | re.DOTALL,
)
_USE: Final = re.compile(rb"use\s+`?\w+`?\s*", re.IGNORECASE)
_ASSIGNED: Final = re.compile(
    rb"(?:@\w+|(?:@@|session\s+|@@session\.|local\s+)?(?:sql_mode|foreign_key_checks|explicit_defaults_for_timestamp"
    rb"|time_zone|timestamp|character_set_client|character_set_connection|collation_connection|collation_server"
    rb"|character_set_server|default_collation_for_utf8mb4|auto_increment_increment|sql_quote_show_create"
    rb"|check_constraint_checks|system_versioning_alter_history))\s*:?=",
    re.IGNORECASE,
)
_NAMES: Final = re.compile(rb"set\s+(?:names|character\s+set|charset)\b[^,]*", re.IGNORECASE)
_SYSTEM: Final = re.compile(
    rb"\b(?:mysql|sys|information_schema|performance_schema|mtr)`?\s*\.|\bglobal\b", re.IGNORECASE
)
_SYSTEM_SCHEMA: Final = re.compile(rb"(?:use|database|schema)\s+`?(?:mysql|sys|mtr|\w+_schema)\b", re.IGNORECASE)


def scripts() -> list[Path]:
    """All scripts, in a fixed order."""
    root = cache_directory() / _ROOT
    assert root.exists(), f"{root} is missing: run scripts/fetch_statements.sh"
    return [path for suite in _SUITES for path in sorted((root / suite).rglob("*.test"))]


def _changes_session(statement: bytes) -> bool:
    if _NAMES.fullmatch(statement):
        return True
    if re.match(rb"set\s", statement, re.IGNORECASE) is None:
        return False
    parts = re.split(rb",(?![^(']*[)'])", statement[3:])
    return all(_ASSIGNED.match(part.strip()) for part in parts)


def replayed(statements: Iterable[bytes]) -> Iterator[bytes]:
    """The statements of a script that are to be run."""
    for statement in statements:
        if _SYSTEM.search(statement) or _SYSTEM_SCHEMA.search(statement):
            continue
        if _DDL.match(statement) or _USE.fullmatch(statement) or _changes_session(statement):
            yield statement
