"""DDL statements that a TiDB still executes, though the session that sent them may be gone.

TiDB stores a DDL statement as a job, and whichever of its servers owns the queue executes it. A server that is killed
or shut down ends its sessions and not their jobs: they go on elsewhere, or after its start. So the end of the session
that ran a piece does not say, there, that the structure is what it will be.
"""

from __future__ import annotations

from typing import Final

from dm.downstream.connection import TargetConnection

_ENDED: Final = ("synced", "cancelled", "rollback done")


def executes(connection: TargetConnection, statement: str) -> bool:
    """Whether there is a job for this statement that has not ended; on other servers there never is."""
    if not connection.tidb:
        return False
    places = ", ".join(["%s"] * len(_ENDED))
    rows = connection.query(f"SELECT query FROM information_schema.ddl_jobs WHERE state NOT IN ({places})", _ENDED)
    return any(str(query).strip() == statement.strip() for (query,) in rows)
