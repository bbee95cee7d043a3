"""A daemon in this process whose units say what the stage has them say: for pages of many tasks, without any server.

Everything but the host processes and the servers is real: registry, loop, supervisor, verbs, tokens, port. What would
ask a database server is counted, so that a test can tell that a page asks none.
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dm.clock import Clock, SystemClock
from dm.task.host import REPEAT_SECONDS
from dm.unit import JSON, UnitName
from dm.verbs.declaration import ConfigFile
from dm.worker.access import TokenDemanded, Tokens
from dm.worker.api import create_app
from dm.worker.audit import AuditLog
from dm.worker.connection import BACKLOG, CertificateFiles, LimitedConnection, encrypting
from dm.worker.daemon import serving
from dm.worker.home import Home
from dm.worker.hosts import Hosts
from dm.worker.job import Job
from dm.worker.loop import Loop
from dm.worker.metrics import Metrics
from dm.worker.operations import Operations
from dm.worker.page.application import PageBesideApi, create_page
from dm.worker.registry import Registry, SubtaskRecord
from dm.worker.supervisor import Supervisor
from dm.worker.verb_work import Servers


class StagedHosts:
    """Runs nothing: a run is there until it is halted."""

    ending = False

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post
        self._numbers = itertools.count(1)
        self._runs: dict[int, Job] = {}
        self.questions = 0  # that would have gone to a unit, and from there to its servers

    def launch(self, _host: str, unit: UnitName, _payload: object, job: Job) -> int:
        number = next(self._numbers)
        self._runs[number] = job
        said: Mapping[str, JSON] = {**syncing(), **job.status}
        if unit == "Relay":
            said = {"relayBinlog": "(mysql-bin.000017, 88213)", "masterBinlog": "(mysql-bin.000017, 88213)",
                    "relayCatchUpMaster": True}  # fmt: skip
        self._post(lambda: job.unit_status(said, last=False))
        return number

    def halt(self, run: int) -> None:
        self._post(self._runs.pop(run).unit_stopped)

    def refresh(self, _run: int, _request: int) -> None:
        self.questions += 1

    def busy(self, _host: str) -> bool:
        return False

    def tick(self) -> None:
        """Units go on saying what they have said, as real ones do every five seconds."""
        for job in list(self._runs.values()):
            if job.words.silence > REPEAT_SECONDS:
                job.unit_status(job.status, last=False)

    def keep_logs(self, _settings: object) -> None:
        """Nobody logs."""


@dataclass
class StagedDaemon:
    """The parts that a test looks at."""

    home: Home
    loop: Loop
    supervisor: Supervisor
    operations: Operations
    hosts: StagedHosts
    clock: Clock
    certificate: CertificateFiles | None = None
    address: str = ""

    @property
    def url(self) -> str:
        """Of its port."""
        return f"{'http' if self.certificate is None else 'https'}://{self.address}"

    @property
    def token(self) -> str:
        """The one that opens everything."""
        return self.home.token.read_text().strip()

    def say(self, task: str, source: str, status: Mapping[str, JSON]) -> None:
        """Have a unit say something."""

        def say() -> None:
            job = self.supervisor.tasks[task].jobs[source]
            job.unit_status(status, last=False)

        self.loop.call(say)

    def fail(self, task: str, source: str, report: Any, place: Mapping[str, Any] | None = None) -> None:
        """Have a unit end with an error that nobody but a person resumes."""

        def fail() -> None:
            self.supervisor.tasks[task].jobs[source].unit_failed(report, retryable=False, place=place)

        self.loop.call(fail)

    def settled(self) -> None:
        """Wait until every unit works that is to work."""
        jobs = self.loop.call(lambda: [job for task in self.supervisor.tasks.values() for job in task.jobs.values()])
        assert self.loop.wait_until(
            lambda: all(job.host_run is not None for job in jobs if job.subtask.stage == "Running"), 60
        )


def config_file(directory: Path, name: str, text: str) -> ConfigFile:
    """A file as `dmctl` would send it."""
    return ConfigFile(name, text, str(directory))


def source_text(name: str) -> str:
    """The file of a source that nobody asks."""
    return f"source-id: {name}\nfrom: {{host: 10.0.0.1, port: 3306, user: dm, password: canary-71d4}}\n"


def task_text(name: str, sources: Sequence[str]) -> str:
    """The file of a task on these sources."""
    instances = "".join(f"  - source-id: {source}\n" for source in sources)
    target = "{host: 10.0.0.2, port: 4000, user: root, password: canary-9f20}"
    return f"name: {name}\ntask-mode: incremental\ntarget-database: {target}\nmysql-instances:\n{instances}"


@contextmanager
def staged(
    directory: Path,
    tasks: Mapping[str, Sequence[str]],
    certificate: CertificateFiles | None = None,
    clock: Clock | None = None,
) -> Iterator[StagedDaemon]:
    """A daemon with these tasks, each on its sources, serving at a free port."""
    home = Home(directory)
    home.create()
    with ExitStack() as stack:
        registry = Registry(home.registry)
        stack.callback(registry.close)
        sources = dict.fromkeys(source for of in tasks.values() for source in of)
        registry.put_sources({name: config_file(directory, f"{name}.yaml", source_text(name)) for name in sources})
        for name, of in tasks.items():
            registry.put_task(name, config_file(directory, f"{name}.yaml", task_text(name, of)), dict.fromkeys(of))
            for source in of:
                registry.record(name, source, SubtaskRecord("running", "Running", "Sync", None))
        clock = clock or SystemClock()
        loop = Loop(clock)
        hosts = StagedHosts(loop.post)
        supervisor = Supervisor(home, registry, cast(Hosts, hosts), loop.post, clock, lambda _: "Sync")
        loop.start(supervisor.tick)
        stack.callback(loop.end)
        operations = Operations(loop, supervisor, no_servers(), lambda: None)
        stack.callback(operations.end)
        operations.take_up()
        one = StagedDaemon(home, loop, supervisor, operations, hosts, clock, certificate)
        one.settled()
        tokens, audit = Tokens.kept(home), AuditLog(home.audit_log, told=operations.history.verb)
        stack.callback(audit.close)
        api = create_app(operations.work, operations.openapi, Metrics(loop, supervisor), audit)
        app = PageBesideApi(TokenDemanded(api, tokens), create_page(operations, tokens, audit, clock))
        listener = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP))
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        one.address = f"127.0.0.1:{listener.getsockname()[1]}"
        protocol = LimitedConnection if certificate is None else encrypting(certificate)
        stack.enter_context(serving(app, listener, f"staged {threading.get_ident()}", protocol))
        yield one


def no_servers() -> Servers:
    """Whoever asks a server fails, but for the place of relay files."""

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("a server was asked")

    held = refuse, lambda *_: None  # at its start a daemon asks where the files of a relay without any begin
    return Servers(refuse, refuse, refuse, refuse, refuse, refuse, refuse, cast(Any, None), *held)


def syncing(lag: float = 0.0, **more: JSON) -> dict[str, JSON]:
    """What a syncer says, as far as the page shows it."""
    said: dict[str, JSON] = {
        "totalRows": 120_000, "totalEvents": 240_000, "recentTps": 120, "recentRps": 1_450, "totalTps": 100,
        "totalRps": 1_000, "ioTotalBytes": 1 << 30, "recentBytesPerSecond": 3 << 20, "synced": lag == 0.0,
        "masterBinlog": "(mysql-bin.000017, 88213)", "syncerBinlog": "(mysql-bin.000017, 87544)",
        "readBinlog": "(mysql-bin.000017, 88100)", "secondsBehindMaster": lag, "sourceAnswers": True,
        "targetAnswers": True, "queuedTransactions": 3, "queuedRows": 81, "queuedBytes": 91_000, "waiting": "",
        "blockingDDLs": [], "blockingDDLSeconds": None, "unresolvedGroups": [], "compared": [], "tables": [],
        "tablesNotShown": 0, "timeShares": {
            "readerWorks": 0.2, "readerWaitsForSource": 0.7, "readerWaitsForMemory": 0.0, "lanesBusy": 0.55,
            "dispatcherWaitsForReader": 0.3, "dispatcherWaitsForLanes": 0.1, "dispatcherRunsDdl": 0.0,
        },
    }  # fmt: skip
    return {**said, **more}


def counted_table(name: str, inserts: int = 100) -> dict[str, JSON]:
    """A table of a syncer's status."""
    return {
        "table": name, "schema": name.partition(".")[0], "inserts": inserts, "updates": 40, "deletes": 2, "ddl": 0,
        "rowFormat": "events", "rowFormatReason": "",
    }  # fmt: skip
