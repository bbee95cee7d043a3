"""Which privileges the statements of SHOW GRANTS give.

The server's own words are read, since there is no other way to ask for all levels at once: `GRANT a, b ON *.* TO ..`
for everything, `` ON `schema`.* `` where the schema's name is a LIKE pattern (`_` and `%` are wildcards unless escaped;
MySQL Reference Manual, "GRANT Statement"), `` ON `schema`.`table` `` where both are plain names. Privileges on single
columns do not count: a row is read and written whole. MySQL's partial revokes (`REVOKE .. ON` lines) take away again.
MariaDB 10.5 renamed some privileges and prints the new names only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dm.ident import TableName

_LINE = re.compile(
    r"^(?P<verb>GRANT|REVOKE) (?P<privileges>.+?) ON (?:TABLE )?"
    r"(?P<schema>\*|`(?:[^`]|``)*`)\.(?P<table>\*|`(?:[^`]|``)*`) (?:TO|FROM) ",
    re.DOTALL,
)
_COLUMNS = re.compile(r"[A-Z ]+\((?:[^`)]|`(?:[^`]|``)*`)*\)")
_RENAMED = {
    "BINLOG MONITOR": "REPLICATION CLIENT",
    "ALL": "ALL PRIVILEGES",
}
# Of these MySQL and MariaDB know a global level only; ALL PRIVILEGES ON schema.* does not hold them.
_GLOBAL_ONLY = frozenset({"RELOAD", "REPLICATION SLAVE", "REPLICATION CLIENT", "SUPER", "PROCESS"})


@dataclass(frozen=True, slots=True)
class _Grant:
    given: bool
    privileges: frozenset[str]
    schema: str  # "*" or the pattern as the server keeps it
    table: str  # "*" or a name


class Grants:
    """The privileges of one account."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._grants = [grant for grant in map(_read, lines) if grant is not None]

    def globally(self, privilege: str) -> bool:
        """Whether the privilege holds for the server as a whole."""
        return self._holds(privilege, lambda grant: grant.schema == "*" and grant.table == "*")

    def on_schema(self, privilege: str, schema: str) -> bool:
        """Whether the privilege holds for every table of the schema."""
        return self._holds(privilege, lambda grant: grant.table == "*" and _matches(grant.schema, schema))

    def on_table(self, privilege: str, table: TableName) -> bool:
        """Whether the privilege holds for the table."""
        return self.on_schema(privilege, table.schema) or self._holds(
            privilege, lambda grant: grant.table == table.table and _unescaped(grant.schema) == table.schema
        )

    def _holds(self, privilege: str, applies: Callable[[_Grant], bool]) -> bool:
        held = False
        for grant in self._grants:
            everything = "ALL PRIVILEGES" in grant.privileges and (grant.schema == "*" or privilege not in _GLOBAL_ONLY)
            if applies(grant) and (everything or privilege in grant.privileges):
                if not grant.given:
                    return False
                held = True
        return held


def _read(line: str) -> _Grant | None:
    match = _LINE.match(line)
    if match is None:  # roles, PROXY, routines: nothing that is asked for here
        return None
    words = _COLUMNS.sub("", match["privileges"]).split(",")
    privileges = frozenset(_RENAMED.get(word.strip(), word.strip()) for word in words if word.strip())
    return _Grant(match["verb"] == "GRANT", privileges, _name(match["schema"]), _name(match["table"]))


def _name(quoted: str) -> str:
    return quoted if quoted == "*" else quoted[1:-1].replace("``", "`")


def _unescaped(pattern: str) -> str:
    return re.sub(r"\\(.)", r"\1", pattern)


def _matches(pattern: str, schema: str) -> bool:
    if pattern == "*":
        return True
    expression = ""
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            expression += re.escape(next(characters, "\\"))
        elif character == "%":
            expression += ".*"
        elif character == "_":
            expression += "."
        else:
            expression += re.escape(character)
    return re.fullmatch(expression, schema, re.DOTALL) is not None
