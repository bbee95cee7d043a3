"""DDL statements that a TiDB still executes, though the session that sent them may be gone.

TiDB stores a DDL statement as a job, and whichever of its servers owns the queue executes it. A server that is killed
or shut down ends its sessions and not their jobs: they go on elsewhere, or after its start. So the end of the session
that ran a piece does not say, there, that the structure is what it will be.
"""

from __future__ import annotations

from typing import Final

from dm.downstream.connection import Row, TargetConnection
from dm.ident import TableName

_ENDED: Final = ("synced", "cancelled", "rollback done")
_PART: Final = "%/* subjob */%"  # of a job with several operations; it stays `done` for ever, and the job ends


def executes(connection: TargetConnection, statement: str) -> bool:
    """Whether there is a job for this statement that has not ended; on other servers there never is."""
    if not connection.tidb:
        return False
    return any(str(query).strip() == statement.strip() for (query,) in _unfinished(connection, "query"))


def alters(connection: TargetConnection, table: TableName) -> bool:
    """Whether there is such a job for this table; on other servers there never is."""
    if not connection.tidb:
        return False
    wanted = str(table).lower()
    return any(f"{schema}.{name}".lower() == wanted for schema, name in _unfinished(connection, "db_name, table_name"))


def _unfinished(connection: TargetConnection, columns: str) -> list[Row]:
    places = ", ".join(["%s"] * len(_ENDED))
    return connection.query(
        f"SELECT {columns} FROM information_schema.ddl_jobs WHERE state NOT IN ({places}) AND job_type NOT LIKE %s",
        (*_ENDED, _PART),
    )
