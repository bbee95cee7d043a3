"""Rows of a MariaDB that its own CHECKs forbid: a load reads what the source holds as it is.

A session of the source with `check_constraint_checks=0` writes what the table's CHECKs forbid, and an ALTER TABLE of
such a session adds a CHECK that rows break. The dump can't tell these rows from others, and a target that looks at the
same CHECKs refuses them. So the load looks at no CHECK where the target has those of the source and no others.

A CHECK that only the target has is a person's, and judges all rows. If the two servers print a condition in different
words, it counts as another one. A MySQL can't leave CHECKs out, neither as a source nor as a target.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dm.downstream.connection import TargetConnection
from dm.schema.parse import check_conditions
from dm.sql.context import SourceContext


def unjudged(structure: str, source: SourceContext, made: str, target: SourceContext) -> bool:
    """Whether rows are loaded without a look at CHECKs: the target's table, as it shows it, has just the source's."""
    if (source.flavor, target.flavor) != ("mariadb", "mariadb"):
        return False
    conditions = check_conditions(made, target)
    return bool(conditions) and conditions <= check_conditions(structure, source)


@contextmanager
def without_checks(connection: TargetConnection) -> Iterator[None]:
    """Meanwhile the session looks at no CHECK; a session that broke is not put back."""
    before = connection.query("SELECT @@SESSION.check_constraint_checks")[0][0]
    connection.execute("SET SESSION check_constraint_checks = 0")
    try:
        yield
    finally:
        if connection.alive:
            connection.execute("SET SESSION check_constraint_checks = %s", (before,))
