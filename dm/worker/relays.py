"""Which relays run, and which tasks wait for them.

A source's relay runs when a person asked for it; where nobody has said anything, when its file says so. It also runs
when a task with a full load needs it, whatever a person has said: then the binlog has to be pulled from before the dump
starts, else the source could purge it while the dump runs. So a dump begins only once the relay is receiving.

All methods run on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dm.config import SourceConfig, TaskConfig
from dm.task.subtask import UNITS_OF_MODE
from dm.unit import UnitName
from dm.worker.job import Job
from dm.worker.known import Source, Task
from dm.worker.registry import Registry, RelayIntent


class Relays:
    """Those of all sources."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        tasks: Mapping[str, Task],
        registry: Registry,
        make: Callable[[str, SourceConfig], Job],
        directory: Callable[[str], Path],
        leave: Callable[[str], None],
    ) -> None:
        self._sources = sources
        self._tasks = tasks
        self._registry = registry
        self._make = make
        self._directory = directory
        self._leave = leave  # what else reads a relay's files begins anew without them

    def set(self, name: str, *, asked: bool, intent: RelayIntent) -> None:
        """Note what a person wants of a relay, and do it."""
        self.note(name, asked, intent)
        self.tick(name)

    def note(self, name: str, asked: bool | None, intent: RelayIntent) -> None:
        """Keep what a person wants of a relay."""
        source = self._sources[name]
        wanted = (asked, intent)
        if wanted != (source.relay_asked, source.relay_intent):
            self._registry.set_relay(name, asked=wanted[0], intent=wanted[1])
            source.relay_asked, source.relay_intent = wanted

    def tick(self, name: str) -> None:
        """Start the source's relay if it is needed and not there, stop it if it is there and not needed."""
        source = self._sources[name]
        if source.relay is not None and source.relay.subtask.stage == "Stopped":
            source.relay = None
        if self.wanted(name):
            if source.relay is None and isinstance(source.config, SourceConfig):
                source.relay = self._make(name, source.config)
                if source.relay_intent == "stopped":  # a load needs it, and keeps it
                    self.note(name, source.relay_asked, "running")
                if source.relay_intent == "paused":
                    source.relay.subtask.rest()
                else:
                    source.relay.subtask.start()
        elif source.relay is not None and source.relay.subtask.stage != "Stopping":
            source.relay.subtask.stop()
            self._read_from_source(name)

    def renew(self, name: str) -> None:
        """Have the relay connect anew, also one that rests on an error: then it looks whether its files are right."""
        source = self._sources[name]
        if source.relay is not None and source.relay_intent == "running":
            source.relay.subtask.restart()
            if source.relay.subtask.stage == "Paused":
                source.relay.subtask.resume()

    def _read_from_source(self, name: str) -> None:
        """Have syncers that read the relay's files begin anew without them: nothing is added there any more."""
        for task in self._tasks.values():
            job = task.jobs.get(name)
            if job is not None and job.reads_relay and job.subtask.unit == "Sync":
                job.remote = True
                job.subtask.restart()
        self._leave(name)

    def wanted(self, name: str) -> bool:
        """Whether the relay of a source should be there."""
        source = self._sources[name]
        asked = by_file(source) if source.relay_asked is None else source.relay_asked
        return asked or bool(self.needing(name))

    def may_read(self, name: str, config: TaskConfig) -> bool:
        """Whether a task that starts now will read the relay of a source."""
        loads = UNITS_OF_MODE[config.task_mode][0] != "Sync" and self._sources[name].relay_intent != "stopped"
        return loads or self.wanted(name)

    def needing(self, source: str) -> list[str]:
        """The tasks whose full load needs the binlog to be pulled meanwhile; they go on reading what was pulled.

        Where a person has stopped the relay, only those whose load is under way.
        """
        stopped = self._sources[source].relay_intent == "stopped"
        return [
            name
            for name, task in self._tasks.items()
            if (job := task.jobs.get(source)) is not None
            and job.subtask.units[0] != "Sync"
            and syncs(job)
            and (not stopped or job.loads)
        ]

    def loading(self, source: str) -> list[str]:
        """The tasks on a source that will follow it from before their load, which has not ended."""
        jobs = {name: task.jobs[source] for name, task in self._tasks.items() if source in task.jobs}
        return [name for name, job in jobs.items() if job.loads and syncs(job)]

    def serves(self, job: Job, unit: UnitName) -> bool:
        """Whether the relay, where there is one, has what the unit begins with."""
        if not syncs(job):
            return True
        relay = self._sources[job.source].relay
        if relay is None:
            return True
        if unit == "Sync" and (self._directory(job.source) / "server-uuid.index").exists():
            return True  # what the relay has is read, also while the relay itself can't reach the source
        if relay.subtask.restarting:
            return False
        return relay.subtask.stage == "Running" and bool(relay.status.get("relayBinlog"))

    def awaited(self, source: str) -> str:
        """What a run waits for that its source's relay does not serve yet."""
        relay, what = self._sources[source].relay, f"waits for the relay of source {source} to receive"
        if relay is None or not relay.troubles:
            return what
        error = relay.troubles[0]
        return f"{what}, which has error {error['ErrCode']}: {error['Message']}"


def by_file(source: Source) -> bool:
    """Whether the source's file wants a relay."""
    return isinstance(source.config, SourceConfig) and source.config.enable_relay


def syncs(job: Job) -> bool:
    """Whether the job follows the binlog."""
    return "Sync" in job.subtask.units
