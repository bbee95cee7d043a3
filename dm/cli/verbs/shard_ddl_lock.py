"""The text of `shard-ddl-lock`."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.verbs.shard_ddl_lock import ListLocks, Unlock


@shows(ListLocks)
def list_locks(_asked: ListLocks, answer: Answer) -> None:
    """Each lock, and below it the shards that are waited for and those that wait."""
    if not answer["locks"]:
        printer.print_line(str(answer["msg"]))
    for lock in answer["locks"]:
        printer.print_line(f"{lock['ID']}, owner {lock['owner']}, since {lock['since']}: {'; '.join(lock['DDLs'])}")
        for source in lock["sourcesMissing"]:
            printer.print_line(f"  missing: source {source}, which has not run yet")
        for shard in sorted(lock["shards"], key=lambda one: bool(one["arrived"])):
            standing = "arrived" if shard["arrived"] else "not waited for" if shard["waived"] else "missing"
            since = f" since {shard['since']}" if shard["arrived"] else ""
            printer.print_line(f"  {standing}{since}: {shard['source']} {shard['table']}")


@shows(Unlock)
def unlock(asked: Unlock, answer: Answer) -> None:
    """What the daemon says, or that it is done."""
    printer.print_line(answer["msg"] or f"{asked.lock}: nobody is waited for")
