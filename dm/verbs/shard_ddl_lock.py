"""Verbs of shards that wait at a DDL."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from dm.errors import DMError
from dm.verbs.declaration import READS, Record, Sources, Tasks, Verb, VerbGroup, argument, option, shape

LOCKS: Final = shape("LocksTold", locks=list[Record])

GROUPS = (VerbGroup("shard-ddl-lock", "Show which shards wait at a DDL, and waive one.", default="list"),)


class ListLocks(Verb, name="shard-ddl-lock list", route="GET shard-ddl-locks", permission=READS, answer=LOCKS):
    """Show the DDLs that are not executed yet, who came first, and who is missing."""

    task: Tasks = ""


class Unlock(Verb, name="shard-ddl-lock unlock", route="POST shard-ddl-locks/unlock"):
    """Wait no more for the shards that are missing at a DDL; what they have is still merged when they come."""

    lock: Annotated[str, argument("the lock's ID, as `shard-ddl-lock list` shows it")]
    sources: Sources = ()
    action: Annotated[
        Literal["exec", "skip"],
        option("--action -a", "execute the DDL once all others are there, or leave it out"),
    ] = "exec"
    database: Annotated[str, option("--database -d", "only this table's schema at the source")] = ""
    table: Annotated[str, option("--table -t", "only this table of the source")] = ""
    owner: Annotated[str, option("--owner -o", "no effect: whoever comes last executes the DDL", sent=False)] = ""
    force_remove: Annotated[
        bool,
        option(
            "--force-remove -f",
            "with --source: give up its shards, or the one table, with the rows that wait there",
        ),
    ] = False

    def demand_consistent(self) -> None:
        """Raise DMError for half a table."""
        if bool(self.database) != bool(self.table):
            raise DMError("usage", problem="--database and --table go together", hint="name both, or none")
