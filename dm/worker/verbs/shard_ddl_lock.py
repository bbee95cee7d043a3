"""The verbs of `dmctl shard-ddl-lock`, in DM's JSON."""

from __future__ import annotations

from collections.abc import Mapping

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.ident import TableName
from dm.task.shard_locks import NO_LOCK, Decision
from dm.verbs.shard_ddl_lock import ListLocks, Unlock
from dm.worker.verb_work import Answer, VerbWork, does


class ShardVerbs(VerbWork):
    """Locks of all tasks that merge shards."""

    @does(ListLocks)
    def show(self, asked: ListLocks) -> Answer:
        """Those of one task, or of all when none is named; raises DMError."""
        found = [lock for config in self._configs(asked.task).values() for lock in self._servers.locks.locks(config)]
        return {"msg": "" if found else NO_LOCK, "locks": found}

    @does(Unlock)
    def unlock(self, asked: Unlock) -> Answer:
        """Store the decision at the target; raises DMError."""
        table = TableName(asked.database, asked.table) if asked.table else None
        decision = Decision(asked.lock, asked.sources, table, asked.action == "skip", asked.force_remove)
        for name, config in self._configs("").items():
            if decision.lock.startswith(f"{name}-`"):
                return {"msg": self._servers.locks.decide(config, decision)}
        raise DMError("shard-lock-not-found", lock=decision.lock)

    def _configs(self, task: str) -> Mapping[str, SubtaskConfig]:
        """A subtask of each task that merges shards: all of them have the target and the schema of its progress."""

        def read() -> Mapping[str, SubtaskConfig]:
            tasks = self._supervisor.tasks
            if task and task not in tasks:
                raise DMError("task-unknown", task=task)
            sources = self._supervisor.source_configs()
            found = dict[str, SubtaskConfig]()
            for name, one in tasks.items():
                config = one.config
                if isinstance(config, DMError) or not config.merges or task not in ("", name):
                    continue
                there = [source for source in one.jobs if source in config.source_ids]
                if there:
                    found[name] = config.subtask(there[0], sources)
            return found

        return self._loop.call(read)
