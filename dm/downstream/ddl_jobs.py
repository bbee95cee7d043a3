"""DDL that a TiDB still executes.

TiDB stores a DDL statement as a job, and the server that owns the queue executes it. If a server is killed or shut
down, its sessions end but its jobs do not: they continue elsewhere, or after its start. So on TiDB, the end of the
session that ran a piece does not mean that the structure is final.
"""

from __future__ import annotations

from typing import Final

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.session.answers import Row

_ENDED: Final = ("synced", "cancelled", "rollback done")
_PART: Final = "%/* subjob */%"  # of a job with several operations; it stays `done` for ever, and the job ends


def job_for(connection: TargetConnection, statement: str) -> bool:
    """Whether there is a job for this statement that has not ended; on other servers there never is."""
    if not connection.dialect.ddl_is_a_job:
        return False
    return any(str(query).strip() == statement.strip() for (query,) in _unfinished(connection, "query"))


def job_on(connection: TargetConnection, table: TableName) -> bool:
    """Whether there is such a job for this table; on other servers there never is."""
    if not connection.dialect.ddl_is_a_job:
        return False
    wanted = str(table).lower()
    return any(f"{schema}.{name}".lower() == wanted for schema, name in _unfinished(connection, "db_name, table_name"))


def _unfinished(connection: TargetConnection, columns: str) -> list[Row]:
    places = ", ".join(["%s"] * len(_ENDED))
    return connection.query(
        f"SELECT {columns} FROM information_schema.ddl_jobs WHERE state NOT IN ({places}) AND job_type NOT LIKE %s",
        (*_ENDED, _PART),
    )
