"""Which tables foreign keys may have changed where the binlog is silent about it.

MySQL before 9.6 and MariaDB write the DELETE or UPDATE of a parent to the binlog, and nothing of what CASCADE, SET NULL
or SET DEFAULT then do to its children. The target repeats it by foreign keys of its own, where it has them. So rows of
the children are other ones since, on one side or on both, and nobody can name them.

What a key does may set off the next one: it deletes rows of the child (ON DELETE CASCADE), or updates them (all else).
So the search goes from change to change, over the keys of the sources and of the target alike. Where a parent is not
migrated, its changes are unknown, and its children count as changed always.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Literal

from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import ACTING
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from dm.rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.stream.source_server import SourceServer
from dm.sourcelog.upstream.facts import list_tables, read_structure

Change = tuple[str, Literal["delete", "update"]]
"""What happened to rows of a table of the target, by its folded name."""

BOTH: Final[tuple[Literal["delete", "update"], ...]] = ("delete", "update")


@dataclass(frozen=True, slots=True)
class ActingForeignKey:
    """A foreign key that changes rows by itself; tables of the target by folded names."""

    parent: str | None  # None: it is not migrated
    child: str
    on_delete: str  # in upper case
    on_update: str

    def follows(self, change: Change) -> Change | None:
        """What a change of the parent may do to the child."""
        action = self.on_delete if change[1] == "delete" else self.on_update
        if change[0] != self.parent or action not in ACTING:
            return None
        return self.child, "delete" if change[1] == "delete" and action == "CASCADE" else "update"


def reached(keys: Iterable[ActingForeignKey], changes: Collection[Change] | None) -> set[str]:
    """The tables that keys may have changed after these changes; None: after any."""
    of_parent: dict[str | None, list[ActingForeignKey]] = {}
    for key in keys:
        of_parent.setdefault(key.parent, []).append(key)
    found: set[str] = set()
    left = list(changes or ())
    begins = of_parent.get(None, []) if changes is not None else [key for some in of_parent.values() for key in some]
    for key in begins:
        found.add(key.child)
        left += [(key.child, kind) for kind in BOTH]
    seen = set(left)
    while left:
        change = left.pop()
        for key in of_parent.get(change[0], ()):
            following = key.follows(change)
            if following is not None:
                found.add(following[0])
                if following not in seen:
                    seen.add(following)
                    left.append(following)
    return found


def keys_of_source(server: SourceServer, rules: TableRules) -> Iterator[ActingForeignKey]:
    """Those of the tables that are migrated; raises DMError."""
    connection, facts = server.addresses.open()
    with closing(connection):
        for table in list_tables(connection):
            if not rules.wanted(table):
                continue
            context = SourceContext(facts.flavor, facts.version, table.schema)
            for key in parse_create_table(read_structure(connection, table), context).foreign_keys:
                on_delete, on_update = key.on_delete.upper(), key.on_update.upper()
                if ACTING & {on_delete, on_update}:
                    parent = str(rules.route(key.parent)).lower() if rules.wanted(key.parent) else None
                    yield ActingForeignKey(parent, str(rules.route(table)).lower(), on_delete, on_update)


@reads_answers
def keys_of_target(connection: TargetConnection) -> list[ActingForeignKey]:
    """Those of the whole target; raises DMError."""
    rows = connection.query(
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, DELETE_RULE,"
        " UPDATE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS"
    )
    found = []
    for row in rows:
        schema, child, parent_schema, parent, on_delete, on_update = map(str, row)
        if ACTING & {on_delete, on_update}:
            names = [str(name).lower() for name in (TableName(parent_schema, parent), TableName(schema, child))]
            found.append(ActingForeignKey(names[0], names[1], on_delete, on_update))
    return found
