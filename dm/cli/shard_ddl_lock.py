"""The text of `shard-ddl-lock`."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.verbs.shard_ddl_lock import ListLocks, Unlock


@shows(ListLocks)
def list_locks(_asked: ListLocks, answer: Answer) -> None:
    """Each lock with its shards."""
    printer.locks_table(answer)


@shows(Unlock)
def unlock(asked: Unlock, answer: Answer) -> None:
    """What the daemon says, or that it is done."""
    printer.print_line(answer["msg"] or f"{asked.lock}: nobody is waited for")
