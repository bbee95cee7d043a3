"""The verbs of relays."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from dm.clock import SystemClock
from dm.config import SourceConfig, SubtaskConfig
from dm.config.source import Purge
from dm.errors import DMError
from dm.relay.puller import sole_writer
from dm.relay.purge import RelayPurge
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.unit import JSON
from dm.verbs import relays as declared
from dm.worker.configuration import demand_relay_directory
from dm.worker.errands import answer_of
from dm.worker.inventory import Source
from dm.worker.job import REST_SECONDS, Job, Question
from dm.worker.query_status import source_line
from dm.worker.verb_work import Answer, VerbWork, demand_member, does

BEGIN_SECONDS = 30.0  # as for a task
PURGE_SECONDS = 300.0  # a thousand files of a gigabyte on a slow disk


class RelayVerbs(VerbWork):
    """Start, stop, pause, resume and purge.

    A purge is the relay's own work while it runs, since nobody else may touch the directory that it writes to. While it
    does not run the daemon takes the relay's lock and does the same, so there is always exactly one who may.
    """

    @does(declared.StartRelay, declared.StopRelay, declared.PauseRelay, declared.ResumeRelay)
    def operate(self, asked: declared.OperatedRelay) -> Answer:
        """A pause answers once the relay rests; those that set it to work, once it receives, or can't, with its error.

        Tasks that run read a relay that is started from then on.
        """
        name, verb = asked.source, asked.operation
        warnings: list[JSON] = []
        if isinstance(asked, declared.StartRelay) and asked.worker:
            warnings = demand_member(self._means, asked.worker)
            if not warnings and asked.worker != self._supervisor.worker:
                raise DMError("source-elsewhere", source=name, member=self._supervisor.worker)
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
        elif verb == "pause":
            self._loop.wait_until(lambda: self._rests(name), REST_SECONDS)
            line = self._loop.call(lambda: source_line(self._supervisor, name))
        if verb == "start" and line["result"]:
            self._loop.call(lambda: self._have_it_read(name))
        return {"sources": [line], **({"warnings": warnings} if warnings else {})}

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

    def _rests(self, name: str) -> bool:
        relay = self._supervisor.source(name).relay
        return relay is None or relay.subtask.stage != "Pausing"

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
