"""Which privileges the statements of SHOW GRANTS grant.

The server's own text is parsed, since no other question covers all levels at once. `GRANT a, b ON *.* TO ..` covers
everything. In `` ON `schema`.* `` the schema's name is a LIKE pattern (`_` and `%` are wildcards unless escaped; MySQL
Reference Manual, "GRANT Statement"). In `` ON `schema`.`table` `` both are plain names. Privileges on single columns do
not count, because dm reads and writes whole rows. MySQL's partial revokes (`REVOKE .. ON` lines) remove privileges
again. MariaDB 10.5 renamed some privileges and prints only the new names.

If several patterns match a schema, one decides and the others do not count: a narrower GRANT can remove privileges. A
name without a wildcard comes first. Among the rest MySQL uses the pattern whose first wildcard comes last (`get_sort`),
MariaDB the one that the fewest names match (`get_magic_sort`). Between equal patterns the order of their creation
decides. No statement shows it, so a privilege counts only if both grant it. MariaDB decides separately for the account,
its roles and PUBLIC, and unites the three. MySQL with active roles has one list of all: a name without `_` and `%`
comes first there, else the first match in byte order (9.7; 8.0 unites all that match, which is never less). Under
`partial_revokes` a pattern is a plain name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dm.ident import TableName
from dm.mysql.dialect import Flavor, dialect
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, SqlRow, fetch
from dm.sourcelog.upstream.facts import ServerFacts

_NAME: Final = r"`(?:[^`]|``)*`"
_LINE = re.compile(
    r"^(?P<verb>GRANT|REVOKE) (?P<privileges>.+?) ON (?:TABLE )?"
    rf"(?P<schema>\*|{_NAME})\.(?P<table>\*|{_NAME}) (?:TO|FROM) (?P<whose>PUBLIC\b|{_NAME}(?!@))?",
    re.DOTALL,
)
_COLUMNS = re.compile(r"[A-Z ]+\((?:[^`)]|`(?:[^`]|``)*`)*\)")
_RENAMED = {
    "BINLOG MONITOR": "REPLICATION CLIENT",
    "ALL": "ALL PRIVILEGES",
}
# MySQL and MariaDB have these at the global level only; ALL PRIVILEGES ON schema.* does not include them.
_GLOBAL_ONLY = frozenset({"RELOAD", "REPLICATION SLAVE", "REPLICATION CLIENT", "SUPER", "PROCESS", "SHOW DATABASES"})
_LONGEST_NAME: Final = 64
_MOST_WILDCARDS: Final = 31


@dataclass(frozen=True, slots=True)
class _Grant:
    given: bool
    privileges: frozenset[str]
    schema: str  # "*" or the pattern as the server keeps it
    table: str  # "*" or a name
    whose: str  # "account", "role", "PUBLIC"

    def gives(self, privilege: str) -> bool:
        everything = "ALL PRIVILEGES" in self.privileges and (self.schema == "*" or privilege not in _GLOBAL_ONLY)
        return everything or privilege in self.privileges


@dataclass
class Grants:
    """The privileges of one account."""

    lines: Sequence[str]
    flavor: Flavor = "mysql"
    united: bool = False  # MySQL with active roles, all in one list
    literal: bool = False  # MySQL with partial_revokes: `_` and `%` are literal
    _grants: list[_Grant] = field(init=False)

    def __post_init__(self) -> None:
        self._grants = [grant for grant in map(_read, self.lines) if grant is not None]

    @property
    def restricted(self) -> tuple[str, ...]:
        """Schemas with a partial revoke: the only ones that a global privilege does not show."""
        return tuple(grant.schema for grant in self._grants if not grant.given and grant.schema != "*")

    def globally(self, privilege: str) -> bool:
        """Whether the privilege holds for the server as a whole."""
        return any(grant.given and grant.schema == "*" and grant.gives(privilege) for grant in self._grants)

    def on_schema(self, privilege: str, schema: str) -> bool:
        """Whether the privilege holds for every table of the schema."""
        if self.globally(privilege) and not any(
            grant.gives(privilege) and grant.schema == schema for grant in self._grants if not grant.given
        ):
            return True
        return any(
            all(any(grant.gives(privilege) for grant in rows) for rows in deciding)
            for whose in ("account", "role", "PUBLIC")
            if (deciding := list(self._deciding(whose, schema).values()))
        )

    def on_table(self, privilege: str, table: TableName) -> bool:
        """Whether the privilege holds for the table."""
        return self.on_schema(privilege, table.schema) or any(
            grant.gives(privilege) and grant.table == table.table and _unescaped(grant.schema) == table.schema
            for grant in self._grants
        )

    def on_schemas_from(self, privilege: str, beginning: str) -> bool:
        """Whether a pattern grants the privilege on all schemas with this prefix, narrower patterns aside."""
        return any(
            grant.gives(privilege)
            and grant.given
            and (grant.table, self.literal) == ("*", False)
            and [*_pieces(grant.schema)][-1][1] == "%"
            and pattern_matches(grant.schema, beginning)
            for grant in self._grants
        )

    def patterns(self, schema: str) -> tuple[str, ...]:
        """The patterns that a GRANT on the schema must name, lest it removes what another pattern grants."""
        return tuple(self._deciding("account", schema)) or (schema,)

    def _deciding(self, whose: str, schema: str) -> dict[str, list[_Grant]]:
        """The patterns that may decide about the schema, and what they grant."""
        found: dict[str, list[_Grant]] = {}
        for grant in self._grants:
            of_schemas = grant.given and grant.table == "*" and grant.schema != "*"
            if of_schemas and grant.whose == whose and self._matches(grant.schema, schema):
                found.setdefault(grant.schema, []).append(grant)
        first = min(map(self._order, found), default=None)
        return {pattern: grants for pattern, grants in found.items() if self._order(pattern) == first}

    def _matches(self, pattern: str, schema: str) -> bool:
        if self.literal:
            return pattern == schema  # a backslash is literal, too
        return pattern_matches(pattern, schema)

    def _order(self, pattern: str) -> tuple[int, bytes]:
        """Lower comes earlier; patterns of equal order may come in either order."""
        if self.literal:
            return 0, b""
        if self.united:
            return int(re.search(r"[\\%_]", pattern) is not None), pattern.encode()
        return (_order_of_mysql if dialect(self.flavor).prefers_exact_patterns else _order_of_mariadb)(pattern), b""


@reads_answers
def read_grants(connection: Connection, facts: ServerFacts, *, role: str = "upstream") -> Grants:
    """Our privileges, those of our active roles included."""
    return grants_told(lambda sql: fetch(connection, sql, role=role), facts.flavor, facts.version)


def grants_told(ask: Callable[[str], Sequence[SqlRow]], flavor: Flavor, version: int) -> Grants:
    """The same of the account of any session, which `ask` queries."""
    roles = "NONE"
    literal = False
    if dialect(flavor, version).unites_roles:
        roles = str(ask("SELECT CURRENT_ROLE()")[0][0])
        literal = any(value == "ON" for _, value in ask("SHOW GLOBAL VARIABLES LIKE 'partial_revokes'"))
    using = "" if roles == "NONE" else f" FOR CURRENT_USER() USING {roles}"  # the server's own quoting of account names
    lines = [str(row[0]) for row in ask(f"SHOW GRANTS{using}")]
    return Grants(lines, flavor, united=bool(using), literal=literal)


def _read(line: str) -> _Grant | None:
    match = _LINE.match(line)
    if match is None:  # roles, PROXY, routines: not needed here
        return None
    words = _COLUMNS.sub("", match["privileges"]).split(",")
    privileges = frozenset(_RENAMED.get(word.strip(), word.strip()) for word in words if word.strip())
    whose = {None: "account", "PUBLIC": "PUBLIC"}.get(match["whose"], "role")
    return _Grant(match["verb"] == "GRANT", privileges, _name(match["schema"]), _name(match["table"]), whose)


def _name(quoted: str) -> str:
    return quoted if quoted == "*" else quoted[1:-1].replace("``", "`")


def _unescaped(pattern: str) -> str:
    return re.sub(r"\\(.)", r"\1", pattern)


def _pieces(pattern: str) -> Iterator[tuple[int, str]]:
    """The characters of a pattern with their places; an escaped one keeps its backslash."""
    for match in re.finditer(r"\\?.", pattern, re.DOTALL):
        yield match.start(), match[0]


def _wildcard_at(pattern: str) -> int | None:
    return next((at for at, piece in _pieces(pattern) if piece in ("%", "_")), None)


def _order_of_mysql(pattern: str) -> int:
    at = _wildcard_at(pattern)
    if at is None:
        return -128
    return -1 if pattern == "%" else -min(len(pattern[:at].encode()) + 2, 127)


def _order_of_mariadb(pattern: str) -> int:
    """How many names match: L characters that `%` may stand for, M single wildcards, K multiple ones."""
    shortened = re.sub(r"(?<!\\)%+", "%", pattern)
    pieces = [piece for _, piece in _pieces(shortened)]
    plain = sum(len(piece.removeprefix("\\").encode()) for piece in pieces if piece not in ("%", "_"))
    ones, many = min(pieces.count("_"), _MOST_WILDCARDS), min(pieces.count("%"), _MOST_WILDCARDS)
    before = next((at for at, piece in enumerate(pieces) if piece in ("%", "_")), 0)
    longest = _LONGEST_NAME * 3  # in bytes
    free = longest - plain - ones if many else 0
    size, least = longest + 1, min(longest + 1, 32)
    if free > ones:
        return (((free * 2 + 1) * size + many) * least + ones) * size + before
    return ((ones * 2 * size + free) * least + many) * size + before


def pattern_matches(pattern: str, schema: str) -> bool:
    """Whether the pattern of a GRANT takes in a schema."""
    wild = {"%": b".*", "_": b"."}  # a single wildcard stands for a byte
    expression = b"".join(wild.get(piece) or re.escape(piece[-1].encode()) for _, piece in _pieces(pattern))
    return re.fullmatch(expression, schema.encode(), re.DOTALL) is not None
