"""The verbs of `dmctl operate-source`: sources are made known, changed, shown and forgotten.

A file is read, its server asked and its directory tried on the caller's thread; then, on the loop's, it is looked
again whether the change is still possible, since another verb may have come between.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import structlog

from dm.clock import SystemClock
from dm.config import SourceConfig, SubtaskConfig
from dm.config.source import Purge
from dm.errors import DMError
from dm.relay.puller import sole_writer
from dm.relay.purge import RelayPurge, Removed, relay_size, remove_relay
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.unit import JSON
from dm.verbs import sources as declared
from dm.verbs.declaration import ConfigFile
from dm.verbs.program import Daemon, Encrypt, Shutdown
from dm.verbs.sources import CreateSources, ShowSources, StopSources, UpdateSources
from dm.worker.configuration import demand_relay_directory
from dm.worker.errands import answer_of
from dm.worker.home import installed_version
from dm.worker.hosts import PATIENCE_SECONDS
from dm.worker.job import Job, Question
from dm.worker.query_status import source_line
from dm.worker.registry import Source
from dm.worker.work import Answer, VerbWork, does


class SourceVerbs(VerbWork):
    """What a person does with sources."""

    @does(CreateSources)
    def create(self, asked: CreateSources) -> Answer:
        """All files or none."""
        return self._put(asked.files, new=True)

    @does(UpdateSources)
    def update(self, asked: UpdateSources) -> Answer:
        """Only while no task runs on the source."""
        return self._put(asked.files, new=False)

    def _put(self, files: Sequence[ConfigFile], *, new: bool) -> Answer:
        configs: dict[str, SourceConfig] = {}
        by_name: dict[str, ConfigFile] = {}
        for file in files:
            config = self._read.source(file)
            if config.source_id in configs:
                raise DMError("source-exists", source=config.source_id)
            configs[config.source_id], by_name[config.source_id] = config, file
        self._loop.call(lambda: self._may_put(configs, new=new))
        warnings: list[JSON] = [str(warning) for config in configs.values() for warning in config.warnings]
        for config in configs.values():
            warnings += self._servers.verify_source(config)

        def put() -> list[JSON]:
            self._may_put(configs, new=new)
            for name, config in configs.items():
                self._supervisor.hold_files(name, Source(by_name[name], config))
            self._supervisor.registry.put_sources(by_name)
            for name, config in configs.items():
                self._supervisor.add_source(name, Source(by_name[name], config))
            return [source_line(self._supervisor, name) for name in configs]

        with self._exclusion.sources:
            for name, config in configs.items():
                if config.enable_relay or config.relay_dir:
                    source = Source(by_name[name], config)
                    demand_relay_directory(name, self._supervisor.relay_directory(name, source))
            return {"sources": self._loop.call(put), "warnings": warnings}

    def _may_put(self, configs: Mapping[str, SourceConfig], *, new: bool) -> None:
        for name in configs:
            if new and name in self._supervisor.sources:
                raise DMError("source-exists", source=name)
            if not new:
                self._supervisor.source(name)
                running = [
                    task
                    for task in self._supervisor.tasks_of(name)
                    if self._supervisor.tasks[task].jobs[name].subtask.stage
                    in ("New", "Running", "Pausing", "Stopping")
                ]
                if running:
                    raise DMError("source-in-use", source=name, tasks=", ".join(running))

    @does(StopSources)
    def stop(self, asked: StopSources) -> Answer:
        """The source is forgotten at once; then its relay files go, unless they are to be kept.

        What can't be removed is said with the directory, and is no reason to know the source again.
        """
        names = [*(self._read.source(file).source_id for file in asked.files), *asked.sources]

        def remove() -> dict[str, Path]:
            for name in names:
                self._supervisor.source(name)
                if tasks := self._supervisor.tasks_of(name):
                    raise DMError("source-in-use", source=name, tasks=", ".join(tasks))
            directories = {name: self._supervisor.relay_directory(name) for name in names}
            for name in names:
                self._supervisor.remove_source(name)
            return directories

        lines: list[JSON] = []
        with self._exclusion.sources:
            for name, directory in self._loop.call(remove).items():
                relay = _kept(directory) if asked.keep_relay else self._without_relay(name, directory)
                lines.append({"result": True, "msg": "", "source": name, **relay})
        return {"sources": lines}

    def _without_relay(self, name: str, directory: Path) -> Answer:
        hosts = self._supervisor.hosts
        self._loop.wait_until(lambda: not hosts.busy(f"relay:{name}"), PATIENCE_SECONDS)
        try:
            return {**remove_relay(directory).to_json(), "problem": ""}
        except DMError as error:
            structlog.get_logger().warning("relay files stay", source=name, directory=str(directory), error=str(error))
            problem = f"{error.message}: {error.cause}" if error.cause else error.message
            return {**Removed(directory).to_json(), "problem": problem}

    @does(ShowSources)
    def show(self, asked: ShowSources) -> Answer:
        """Those that are named, or all."""

        def show() -> list[JSON]:
            wanted = list(asked.source) or sorted(self._supervisor.sources)
            for name in wanted:
                self._supervisor.source(name)
            return [source_line(self._supervisor, name) for name in wanted]

        return {"sources": self._loop.call(show)}


def _kept(directory: Path) -> Answer:
    files, size = relay_size(directory)
    return {"relayDirectory": str(directory), "keptFiles": files, "keptBytes": str(size)}


BEGIN_SECONDS = 30.0  # as for a task
PURGE_SECONDS = 300.0  # a thousand files of a gigabyte on a slow disk


class RelayVerbs(VerbWork):
    """Start, stop, pause, resume and purge.

    A purge is the relay's own work while it runs, since nobody else may touch the directory that it writes to. While it
    does not run the daemon takes the relay's lock and does the same, so there is always exactly one who may.
    """

    @does(declared.StartRelay, declared.StopRelay, declared.PauseRelay, declared.ResumeRelay)
    def operate(self, asked: declared.OperatedRelay) -> Answer:
        """Those that set it to work answer once it receives, or can't: the line then has its error.

        Tasks that run read a relay that is started from then on.
        """
        name, verb = asked.source, asked.operation
        if verb == "start":
            demand_relay_directory(name, self._loop.call(lambda: self._directory(name)))

        def operate() -> Answer:
            source = self._supervisor.source(name)
            if verb == "start":
                self._start(name, source)
            elif verb == "stop":
                self._stop(name)
            else:
                self._rest_or_go_on(name, source, verb)
            return source_line(self._supervisor, name)

        if verb == "stop":
            for subtask in self._loop.call(lambda: self._may_stop(name)):
                self._servers.demand_readable(subtask)
        line = self._loop.call(operate)
        if verb in ("start", "resume"):
            self._loop.wait_until(lambda: self._begun(name), BEGIN_SECONDS)
            line = self._loop.call(lambda: self._set_to_work(name))
        if verb == "start" and line["result"]:
            self._loop.call(lambda: self._have_it_read(name))
        return {"sources": [line]}

    def _directory(self, name: str) -> Path:
        source = self._supervisor.source(name)
        if isinstance(source.config, DMError):
            raise source.config
        return self._supervisor.relay_directory(name)

    def _start(self, name: str, source: Source) -> None:
        if isinstance(source.config, DMError):
            raise source.config
        self._supervisor.set_relay(name, asked=True, intent="running")
        if source.relay is not None and source.relay.subtask.stage == "Paused":
            source.relay.subtask.resume()

    def _begun(self, name: str) -> bool:
        """Whether a relay that was set to work receives, or has told why it does not."""
        relay = self._supervisor.source(name).relay
        if relay is None or relay.subtask.stage != "Running":
            return True
        return not relay.beginning and bool(relay.status.get("relayBinlog") or relay.troubles)

    def _set_to_work(self, name: str) -> Answer:
        line, relay = source_line(self._supervisor, name), self._supervisor.source(name).relay
        if relay is None or relay.subtask.stage != "Paused" or not relay.subtask.errors:
            return line
        error = relay.subtask.errors[0]
        return {**line, "result": False, "msg": error["Message"], "error": cast("JSON", error)}

    def _have_it_read(self, name: str) -> None:
        """Have syncers that read the source itself begin anew with the relay's files, as DM does."""
        for task in self._supervisor.tasks_of(name):
            job = self._supervisor.tasks[task].jobs[name]
            if not job.reads_relay and job.subtask.unit == "Sync":
                job.remote = False
                job.subtask.restart()

    def _may_stop(self, name: str) -> list[SubtaskConfig]:
        """Raise DMError where the relay has to run; gives the subtasks that have to read on without it."""
        source = self._supervisor.source(name)
        loading = self._supervisor.tasks_loading(name)
        if loading:
            raise DMError("relay-needed", source=name, tasks=", ".join(loading))
        return self._supervisor.syncers_of(name) if source.relay is not None else []

    def _stop(self, name: str) -> None:
        self._may_stop(name)
        self._supervisor.set_relay(name, asked=False, intent="stopped")

    def _rest_or_go_on(self, name: str, source: Source, verb: str) -> None:
        if source.relay is None:
            raise DMError(
                "stage-mismatch", what=f"the relay of source {name}", verb=f"{verb}d", stage="Stopped",
                wanted="running" if verb == "pause" else "paused",
            )  # fmt: skip
        source.relay.subtask.pause() if verb == "pause" else source.relay.subtask.resume()

    @does(declared.PurgeRelay)
    def purge(self, asked: declared.PurgeRelay) -> Answer:
        """Remove the relay files before one, as far as no task needs them."""
        name, file, sub_directory = asked.source, asked.filename, asked.sub_dir

        def ask() -> tuple[Job, Question] | None:
            relay = self._supervisor.source(name).relay
            question = None if relay is None else relay.ask("purge", {"file": file, "sub_directory": sub_directory})
            return None if relay is None or question is None else (relay, question)

        question = self._loop.call(ask)
        done = self._here(name, file, sub_directory) if question is None else self._answer(*question)
        line: dict[str, JSON] = {"result": True, "msg": "", "source": name}
        return {"sources": [{**line, **done}]}

    def _answer(self, relay: Job, question: Question) -> dict[str, JSON]:
        """What the relay's process says."""
        answer = answer_of(self._loop, relay, question, PURGE_SECONDS)
        if not isinstance(answer, dict):
            raise DMError("unit-not-there", question="purge")
        return answer

    def _here(self, name: str, file: str, sub_directory: str) -> dict[str, JSON]:
        """Purge in the relay's place."""
        source = self._loop.call(lambda: self._supervisor.source(name))
        root = self._loop.call(lambda: self._supervisor.relay_directory(name))
        directory = RelayDirectory(root)
        if not directory.sub_directories():
            raise DMError("relay-without-files", source=name)
        settings = source.config.purge if isinstance(source.config, SourceConfig) else Purge()
        with sole_writer(root):
            return RelayPurge(directory, settings, SystemClock()).before(file, sub_directory, name).to_json()


class ProgramVerbs(VerbWork):
    """Its processes, its end, its key."""

    @does(Daemon)
    def daemon(self, _asked: Daemon) -> Answer:
        """The process ids of the unit hosts, by host name."""
        processes = cast("JSON", self._loop.call(self._supervisor.hosts.processes))
        return {
            "version": installed_version(), "pid": os.getpid(), "processes": processes,
        }  # fmt: skip

    @does(Shutdown)
    def end(self, _asked: Shutdown) -> Answer:
        """It answers before it ends."""
        self._means.shutdown()
        return {"pid": os.getpid()}

    @does(Encrypt)
    def encrypt(self, asked: Encrypt) -> Answer:
        """The form in which files may hold a password."""
        if not asked.text:
            raise DMError("usage", problem="the password is empty", hint="dmctl encrypt '<password>'")
        return {"cipherText": self._read.encrypted(asked.text)}
