"""A sync unit for a test: in a thread of the test's process, or in a process of its own that can be killed."""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, cast

from pydantic import SecretStr

from dm.config.endpoint import Endpoint
from dm.config.references import StartPoint
from dm.config.rules import BlockAllowList, RouteRule
from dm.config.source import SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.config.units import SyncerConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.until import Until, until_to_json
from dm.syncer.joined_sync import JoinedSync
from dm.syncer.resources import RunParts
from dm.syncer.shards.sharded import sync_unit
from dm.syncer.unit import SyncUnit
from dm.unit import JSON
from tests.testbed import unit_program
from tests.testbed.fork_server import ForkedProcess, fork_server
from tests.testbed.looks import looks
from tests.testbed.unit_thread import UnitThread

# A patch for SyncProcess: L stays where the task began.
WITHOUT_CHECKPOINTS = """
from dm.syncer.apply.progress_writer import ProgressWriter
ProgressWriter.write = lambda self: None
"""


def endpoint_of(server: PrivateServer) -> Endpoint:
    """How to log in to a throw-away server."""
    return Endpoint(host=server.host, port=server.port, user=server.user, password=SecretStr(server.password))


def subtask_for(
    upstream: ThrowawayServer,
    target: PrivateServer,
    schema: str,
    *,
    task: str,
    source_id: str = "source-1",
    routes: tuple[RouteRule, ...] = (),
    meta: StartPoint | None = None,
    workers: int = 4,
    **syncer: object,
) -> SubtaskConfig:
    """An incremental subtask that follows one schema."""
    return SubtaskConfig(
        task=task,
        source=SourceConfig(source_id=source_id, endpoint=endpoint_of(upstream)),
        mode="incremental",
        target=endpoint_of(target),
        meta_schema=f"meta_{task}",
        meta=meta,
        block_allow_list=BlockAllowList(do_dbs=(schema,)),
        routes=routes,
        syncer=SyncerConfig.model_validate({"worker_count": workers, "compact": True, "multiple_rows": True, **syncer}),
    )


@cache
def _scratch() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="dm-sync-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def work_directory_of(subtask: SubtaskConfig) -> Path:
    """Where the runs of a subtask keep what is on disk, if its test names no place: the same for all its runs."""
    return _scratch() / f"{subtask.target.port}.{subtask.task}" / subtask.source_id


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Poll a condition of a real server or process; fails with `what` when it never holds."""
    for _ in looks(seconds):
        if condition():
            return
    raise AssertionError(f"never happened within {seconds} s: {what}")


class RunningSync(UnitThread):
    """A sync unit in a thread."""

    def __init__(
        self,
        subtask: SubtaskConfig,
        relay_directory: Path | None,
        work_directory: Path | None = None,
        until: Until | None = None,
        hold: Hold | None = None,
    ) -> None:
        unit = sync_unit(
            subtask,
            relay_directory=relay_directory,
            work_directory=work_directory or work_directory_of(subtask),
            hold=hold,
            until=until,
        )
        self.unit = cast("SyncUnit", unit)  # a unit that merges shards is asked for its status only
        super().__init__(unit, "sync-unit")

    @property
    def parts(self) -> RunParts | None:
        """Those of the reading that is under way, where no shards are merged."""
        return cast("JoinedSync", self.unit)._unit._parts

    def wait_synced(self, seconds: float = 60) -> Mapping[str, JSON]:
        """Wait until everything the source has now is applied; raises the unit's own error."""

        def synced() -> bool:
            if self.error is not None:
                raise self.error
            self.unit.refresh(5)
            return self.unit.status()["synced"] is True

        try:
            wait_until(synced, "synced", seconds)
        except AssertionError as never:
            raise AssertionError(f"{never}; the status is {dict(self.unit.status())}") from None
        return self.unit.status()

    def wait_all_read(self) -> None:
        """Wait until the stream has passed all that the source has now; shards may still be held."""

        def at_the_end() -> bool:
            if self.error is not None:
                raise self.error
            self.unit.refresh(5)
            status = self.unit.status()
            return bool(status["masterBinlog"]) and status["syncerBinlog"] == status["masterBinlog"]

        wait_until(at_the_end, "the stream at the source's end")


def running_sync(
    subtask: SubtaskConfig,
    relay_directory: Path | None = None,
    work_directory: Path | None = None,
    hold: Hold | None = None,
) -> RunningSync:
    """Run a sync unit; as a context, it is stopped in the end and raises its error."""
    return RunningSync(subtask, relay_directory, work_directory, hold=hold)


class FreshProcess(subprocess.Popen[str]):
    """A process that waits to be told which unit it is. It shares no memory with others: what it takes is measured."""

    def __init__(self) -> None:
        self._log, self._said = os.memfd_create("stderr"), ""
        super().__init__(
            [sys.executable, "-m", unit_program.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def log(self) -> str:
        """What it wrote to stderr; only once it has ended."""
        return self._said or _written(self._log)

    def close(self) -> None:
        """Close the pipes and the file of a process that has ended; what it said is kept."""
        self._said = self.log()
        assert self.stdin is not None
        assert self.stdout is not None
        self._log = _closed(self.stdin, self.stdout, self._log)


class PreparedProcess(ForkedProcess):
    """A process that waits to be told which unit it is; it begins at once.

    What it writes to stderr goes to a file: a pipe that nobody reads would hold a process that ends with a long error.
    """

    def __init__(self) -> None:
        self._log, self._said = os.memfd_create("stderr"), ""
        (commands, to_it), (from_it, answers) = os.pipe(), os.pipe()
        files = (commands, answers, self._log)
        super().__init__(*fork_server(unit_program.__name__, "dm.tools.validator.unit").fork(files))
        os.close(commands)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(to_it, "w"), os.fdopen(from_it)

    def log(self) -> str:
        """What it wrote to stderr; only once it has ended."""
        return self._said or _written(self._log)

    def close(self) -> None:
        """Close the pipes and the file of a process that has ended; what it said is kept."""
        self._said = self.log()
        self._log = _closed(self.stdin, self.stdout, self._log)

    def discard(self) -> None:
        """End a process that was not needed."""
        self.kill()
        self.wait()
        self.close()


def _written(log: int) -> str:
    if log < 0:
        return ""
    return os.pread(log, os.fstat(log).st_size, 0).decode(errors="replace")


def _closed(stdin: IO[str], stdout: IO[str], log: int) -> int:
    for stream in (stdin, stdout):
        with suppress(BrokenPipeError):  # what it was told last, it never read
            stream.close()
    if log >= 0:
        os.close(log)
    return -1


class UnitProcess:
    """A unit in a process of its own, with armed fault points, steered over pipes.

    `ready` is a process that was started earlier: it has imported everything and begins at once.
    """

    def __init__(
        self,
        unit: str,
        config: JSON,
        directory: Path | None,
        *,
        work_directory: Path | None = None,
        faults: str = "",
        fault_log: Path | None = None,
        patch: str = "",
        ready: PreparedProcess | FreshProcess | None = None,
        until: Until | None = None,
    ) -> None:
        self.process: PreparedProcess | FreshProcess = ready or PreparedProcess()
        order = {
            "unit": unit,
            "config": config,
            "directory": str(directory or ""),
            "work_directory": str(work_directory or ""),
            "patch": patch,
            "faults": faults,
            "until": until_to_json(until),
            "environment": {"DM_FAULTS_LOG": str(fault_log)} if fault_log is not None else {},
        }
        self._write(json.dumps(order))
        self._asked = False

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it died; whoever waits for it sees that

    def status(self) -> Mapping[str, JSON] | None:
        """The unit's status, waiting for it; None when the process is gone."""
        assert self.process.stdout is not None
        if not self._asked:
            self._write("status")
        self._asked = False
        line = self.process.stdout.readline()
        found: Mapping[str, JSON] | None = json.loads(line) if line.endswith("\n") else None
        return found

    def poll_status(self) -> Mapping[str, JSON] | None:
        """The status if it has answered the last question, else None; asks the next question. Never waits long."""
        assert self.process.stdout is not None
        if not self._asked:
            self._write("status")
            self._asked = True
        if not select.select([self.process.stdout], [], [], 0.02)[0]:
            return None
        return self.status()

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    def freeze(self) -> None:
        """SIGSTOP."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.process.pid, signal.SIGCONT)

    def errors(self) -> str:
        """What it wrote to stderr; only once it has ended."""
        return self.process.log()

    def wait_killed(self, seconds: float = 60) -> bool:
        """Wait for the end of the process; True when it was a SIGKILL."""
        return self.process.wait(seconds) == -signal.SIGKILL

    def close(self, *, kill: bool = False) -> None:
        """Stop it if it still runs."""
        if self.process.poll() is None:
            if kill:
                self.process.kill()
            self._write("stop")
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.close()


class SyncProcess(UnitProcess):
    """A sync unit in a process of its own."""

    def __init__(
        self,
        subtask: SubtaskConfig,
        *,
        relay_directory: Path | None = None,
        work_directory: Path | None = None,
        faults: str = "",
        fault_log: Path | None = None,
        patch: str = "",
        ready: PreparedProcess | FreshProcess | None = None,
        until: Until | None = None,
    ) -> None:
        super().__init__(
            "sync",
            subtask.to_wire(),
            relay_directory,
            work_directory=work_directory or work_directory_of(subtask),
            faults=faults,
            fault_log=fault_log,
            patch=patch,
            ready=ready,
            until=until,
        )

    def wait_synced(self, seconds: float = 60) -> Mapping[str, JSON]:
        """Wait until everything the source has now is applied."""
        for _ in looks(seconds):
            status = self.status()
            if status is None:
                raise AssertionError(f"the sync process ended with {self.process.wait()}: {self.errors()}")
            if status["synced"] is True:
                return status
        raise AssertionError(f"never synced within {seconds} s")


class RelayProcess(UnitProcess):
    """A relay unit in a process of its own."""

    def __init__(
        self,
        source: SourceConfig,
        directory: Path,
        *,
        faults: str = "",
        fault_log: Path | None = None,
        ready: PreparedProcess | FreshProcess | None = None,
    ) -> None:
        super().__init__("relay", source.to_wire(), directory, faults=faults, fault_log=fault_log, ready=ready)
