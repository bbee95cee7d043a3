"""What a person decides while a shard workload runs: to go on without shards that have not come to a DDL."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.task.progress import key_of
from dm.task.shard_locks import Decision, Lock, decide, read_locks
from tests.testbed.shard_ddl import ShardDdl

STILL_SECONDS = 30.0


class ShardUnlocks:
    """The locks of a workload's task."""

    def __init__(self, subtask: SubtaskConfig, target: ThrowawayServer) -> None:
        self._subtask, self._target = subtask, target

    def _locks(self) -> list[Lock]:
        with closing(TargetConnection(self._subtask.target)) as connection:
            return read_locks(connection, key_of(self._subtask))

    def go_on(self, ddls: Sequence[ShardDdl], *, by_state: bool, shards: Collection[tuple[str, TableName]]) -> bool:
        """Go on without whoever is missing, where the target takes their rows then; False where it may not.

        All these shards have to be known, and none may wait at its CREATE TABLE: it is not like the others any more
        then, and would wait for a structure that they never have again.

        Where numbers say which DDL is open, it and the next one decide: that one may be open by the time. Otherwise all
        do that shards wait for.
        """
        for lock in self._locks():
            asked = [ddl for ddl in ddls if ddl.gated] if by_state else ddls[lock.number - 1 : lock.number + 1]
            known = {(each.member.source_id, each.member.table) for each in lock.shards if not each.member.early}
            if asked and all(ddl.mild for ddl in asked) and not lock.absent and known >= set(shards):
                return self._decided(lock)
        return False

    def _decided(self, lock: Lock) -> bool:
        """Whether it was still there to be decided."""
        try:
            decide(self._subtask, Decision(lock.id))
        except DMError as error:
            if error.name != "shard-lock-not-found":
                raise
            return False
        return True

    def go_on_without(self, tables: Collection[tuple[str, TableName]]) -> int:
        """Go on where only these are missing; gives how often."""
        unlocked = 0
        for lock in self._locks():
            missing = {(each.member.source_id, each.member.table) for each in lock.shards if not each.arrived}
            if missing and missing <= set(tables):
                unlocked += self._decided(lock)
        return unlocked

    def standing(self) -> str:
        """All that is stored of the group."""
        task = self._subtask.task
        meta = f"meta_{task}.{task}_shard"
        return str(
            [
                self._target.query(f"SELECT * FROM {meta}_source"),
                self._target.query(f"SELECT * FROM {meta}_group"),
                self._target.query(f"SELECT id, s_schema, s_table, passed, ready FROM {meta}_table"),
                self._target.query(f"SELECT number, state, statements, owner FROM {meta}_ddl"),
                self._target.query(f"SELECT id, s_schema, s_table, binlog_name, binlog_pos FROM {meta}_held"),
            ]
        )


class Stillness:
    """Whether what is stored has not changed for a while."""

    def __init__(self, standing: Callable[[], str]) -> None:
        self._standing = standing
        self._last, self._since = "", time.monotonic()

    def lasts(self) -> bool:
        """Look once more; a look that finds it still begins anew."""
        standing, now = self._standing(), time.monotonic()
        if standing != self._last:
            self._last, self._since = standing, now
            return False
        if now < self._since + STILL_SECONDS:
            return False
        self._since = now
        return True
