"""The verbs of `dmctl shard-ddl-lock`, in DM's JSON."""

from __future__ import annotations

from collections.abc import Mapping

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.task.shard_locks import NO_LOCK, Decision, ShardLocks
from dm.unit import JSON
from dm.worker.loop import Loop
from dm.worker.supervisor import Supervisor

Answer = dict[str, JSON]


class ShardVerbs:
    """Locks of all tasks that merge shards."""

    def __init__(self, loop: Loop, supervisor: Supervisor, locks: ShardLocks) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._locks = locks

    def show(self, task: str) -> Answer:
        """`shard-ddl-lock list`: of one task, or of all when none is named; raises DMError."""
        found = [lock for config in self._configs(task).values() for lock in self._locks.locks(config)]
        return {"result": True, "msg": "" if found else NO_LOCK, "locks": found}

    def unlock(self, decision: Decision) -> Answer:
        """`shard-ddl-lock unlock`; raises DMError."""
        for name, config in self._configs("").items():
            if decision.lock.startswith(f"{name}-`"):
                return {"result": True, "msg": self._locks.decide(config, decision)}
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
