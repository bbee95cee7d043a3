"""A `dm-worker` of the test's own and the `dmctl` that talks to it, both as a user runs them: separate processes.

The daemon dies with the test run, and its unit hosts with it; the fork server has imported for them what they need, or
they are `fresh`, as a user's. Verbs
go through the real `dmctl`; only polling uses the client inside `dmctl` directly, and `said` runs a verb in this
process, since most of what a `dmctl` takes is its start.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch

from dm.cli.client import Client
from dm.cli.dmctl import execute
from dm.cli.invocation import Settings, settings
from dm.demo.private_server import GuardedProcess
from dm.verbs.status import QueryStatus
from tests.testbed.fork_server import ForkedProcess, fork_server
from tests.testbed.frozen import children
from tests.testbed.looks import looks

_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Answer:
    """How one run of `dmctl` ended."""

    arguments: tuple[str, ...]
    status: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """What was printed with --output json."""
        printed: dict[str, Any] = json.loads(self.out)
        return printed

    def __str__(self) -> str:
        return f"dmctl {' '.join(self.arguments)} ended with {self.status}\n{self.out}{self.err}"


def run_here(arguments: Sequence[str], directory: Path, environment: Mapping[str, str]) -> Answer:
    """Run `dmctl` in this process, as if it stood in the directory and had this environment."""
    out, err = io.StringIO(), io.StringIO()
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, environment, clear=True))
        stack.enter_context(chdir(directory))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        # What stands before a verb holds for all that this process does, as in the shell.
        stack.enter_context(patch.multiple(settings, **asdict(Settings())))
        status = execute(list(arguments))
    return Answer(tuple(arguments), status, out.getvalue(), err.getvalue())


class Daemon:
    """A running dm-worker in a home of its own.

    One that is `fresh` shares no memory with other processes, and it and its hosts have arguments and environments of
    their own in /proc. A `prefix` runs its command, as `ip netns exec NAME` does; then it is fresh.
    """

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        *,
        fresh: bool = False,
        prefix: Sequence[str] = (),
    ) -> None:
        self.home = directory / "home"
        self.directory = directory
        self._fresh = fresh or bool(prefix)
        self._prefix = prefix
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(_REPOSITORY),
            "DM_HOME": str(self.home),
            **(environment or {}),
        }
        self._client = Client(None, self._environment, lambda _: None)
        self._process: GuardedProcess | ForkedProcess | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        """What the daemon prints."""
        return self.directory / "daemon.out"

    def start(self, *arguments: str, **environment: str) -> Self:
        """Start the daemon, with arguments and more environment variables (DM_FAULTS), and wait until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = self._begin(arguments, {**self._environment, **environment})
        pause = threading.Event()
        while not self._client.running():
            if self._process.poll() is not None:
                raise AssertionError(f"dm-worker ended at once:\n{self.log.read_text(encoding='utf-8')}")
            pause.wait(0.05)
        return self

    def _begin(self, arguments: Sequence[str], environment: Mapping[str, str]) -> GuardedProcess | ForkedProcess:
        if self._fresh:
            command = [*self._prefix, sys.executable, "-m", "dm.worker.daemon", *arguments]
            return GuardedProcess(command, log=self.log, environment=environment)
        with self.log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            files = (nothing.fileno(), log.fileno(), log.fileno())
            server = fork_server("tests.testbed.daemon_program", environment=environment)
            return ForkedProcess(*server.fork(files, arguments, environment))

    def stop(self) -> None:
        """End the daemon in order; kill it when it takes more than half a minute."""
        if self._process is None:
            return
        self._process.send(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.send(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The daemon's process id."""
        assert self._process is not None
        return self._process.pid

    def hosts(self) -> dict[str, int]:
        """The process ids of the unit hosts, by name."""
        found: dict[str, int] = {}
        for child in children(self.pid):
            for pid in (child, *children(child)):  # of one that is not fresh they are its fork server's
                try:
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                except FileNotFoundError:
                    continue  # it ended meanwhile
                if "dm.task.host" in command:
                    found[command[command.index("dm.task.host") + 1]] = pid
        return found

    def kill_hosts(self) -> list[str]:
        """SIGKILL every unit host; says which. The daemon starts them again."""
        hosts = self.hosts()
        for pid in hosts.values():
            os.kill(pid, signal.SIGKILL)
        return sorted(hosts)

    def dmctl(self, *arguments: str) -> Answer:
        """Run `dmctl` in the daemon's directory."""
        done = subprocess.run(
            [sys.executable, "-m", "dm.cli.dmctl", *arguments],
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Answer(arguments, done.returncode, done.stdout, done.stderr)

    def said(self, *arguments: str) -> Answer:
        """The same in this process."""
        return run_here(arguments, self.directory, self._environment)

    def must(self, *arguments: str) -> Answer:
        """Run `dmctl` and insist on success."""
        answer = self.dmctl(*arguments)
        assert answer.status == 0, str(answer)
        return answer

    def status(self, task: str) -> dict[str, dict[str, Any]]:
        """DM's subTaskStatus of each source, by source id."""
        answer = self._client.ask(QueryStatus(task=task))
        return {source["sourceStatus"]["source"]: source["subTaskStatus"][0] for source in answer["sources"]}

    def wait(
        self, task: str, wanted: Callable[[dict[str, dict[str, Any]]], bool], what: str, *, seconds: float = 120
    ) -> dict[str, dict[str, Any]]:
        """Ask for the status until it is as wanted; fails with the last one."""
        for _ in looks(seconds):
            status = self.status(task)
            if wanted(status):
                return status
        raise AssertionError(f"{what}: not within {seconds} s\n{json.dumps(self.status(task), indent=2)}")
