"""A daemon of the test's own, `dmctl` beside it, and the files to give it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dm.cli.client import Client
from dm.verbs.declaration import Verb
from dm.verbs.status import QueryStatus
from tests.testbed.daemon import run_here
from tests.testbed.fork_server import ForkedProcess, fork_server
from tests.testbed.looks import looks

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 120.0  # a limit for what hangs, not a measure of speed
REAL_DAEMON = ("tests.testbed.daemon_program",)
_FAKE_DAEMON = ("tests.unit.worker.fake_daemon", "uvicorn.protocols.http.auto")
T = TypeVar("T")


@dataclass
class Dmctl:
    """What one call of `dmctl` did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class TestHome:
    """A $DM_HOME with a daemon that the test starts, kills and starts again; its units do as told, or are real."""

    __test__ = False
    directory: Path
    daemon: ForkedProcess | None = None
    environment: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = _FAKE_DAEMON

    def start(self, *arguments: str) -> None:
        self.daemon = self.launch(*arguments)
        until(lambda: Client(None, self._environment(), print).running() or self._died())

    def launch(self, *arguments: str) -> ForkedProcess:
        self.directory.mkdir(exist_ok=True)
        with (self.directory / "daemon.log").open("ab") as log, Path(os.devnull).open("rb") as nothing:
            files = (nothing.fileno(), log.fileno(), log.fileno())
            return ForkedProcess(*fork_server(*self.program).fork(files, arguments, self._environment()))

    def kill(self) -> None:
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait(SECONDS)

    def stop(self) -> int:
        assert self.daemon is not None
        self.daemon.send(signal.SIGTERM)
        return self.daemon.wait(SECONDS)

    def dmctl(self, *arguments: str, stdin: str | None = None, **environment: str) -> Dmctl:
        done = subprocess.run(
            [sys.executable, "-m", "dm.cli.dmctl", *arguments],
            env={**self._environment(), **environment},
            capture_output=True,
            text=True,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            timeout=2 * SECONDS,
            check=False,
            cwd=self.directory,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Dmctl(done.returncode, done.stdout, done.stderr)

    def ok(self, *arguments: str) -> Any:
        """A command that must succeed."""
        done = self.said(*arguments, "--output", "json")
        assert done.status == 0, done.err
        return done.json

    def tried(self, *arguments: str) -> Any:
        """A command that sets a task to work whose unit fails, at once or in a moment."""
        done = self.said(*arguments, "--output", "json")
        assert done.status in (0, 1), done.err
        assert done.json["result"], done.err
        return done.json

    def said(self, *arguments: str) -> Dmctl:
        """A command in this process, since most of what a `dmctl` takes is its start."""
        answer = run_here(arguments, self.directory, self._environment())
        return Dmctl(answer.status, answer.out, answer.err)

    def file(self, name: str, text: str) -> str:
        (self.directory / name).write_text(text)
        return name

    def source(self, name: str = "one", **extra: object) -> str:
        text = (
            f"source-id: {name}\nfrom:\n  host: 127.0.0.1\n  port: 3306\n  user: dm\n  password: canary-5e11-Ключ-密\n"
        )
        text += "checker:\n  backoff-max: 1s\n"
        text += "".join(f"{key.replace('_', '-')}: {json.dumps(value)}\n" for key, value in extra.items())
        return self.file(f"{name}.yaml", text)

    def task(self, name: str = "t", mode: str = "incremental", sources: tuple[str, ...] = ("one",)) -> str:
        instances = "".join(f"  - source-id: {source}\n" for source in sources)
        return self.file(
            f"{name}.yaml",
            f"name: {name}\ntask-mode: {mode}\n"
            "target-database:\n  host: 127.0.0.1\n  port: 4000\n  user: root\n  password: canary-a90c-Ключ-密\n"
            f"mysql-instances:\n{instances}",
        )

    def script(self, task: str, **actions: object) -> None:
        """What the units of the task do from their next start on."""
        directory = self.directory / "work" / task
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "script.json").write_text(json.dumps(actions))

    def trace(self, task: str) -> list[str]:
        """Which units were started, in order."""
        file = self.directory / "work" / task / "trace"
        return [" ".join(line.split()[:2]) for line in file.read_text().splitlines()] if file.exists() else []

    def until_given(self, task: str) -> Any:
        """The end that the syncer started last was given."""
        return json.loads((self.directory / "work" / task / "until").read_text())

    def pid_of(self, task: str) -> int:
        """The process of the unit started last."""
        return int((self.directory / "work" / task / "trace").read_text().split()[-1])

    def ask(self, verb: Verb) -> Any:
        """What the daemon answers, without the start of a `dmctl`: for looking again and again."""
        return Client(None, self._environment(), print).ask(verb)

    def subtask(self, task: str = "t") -> Any:
        return self.ask(QueryStatus(task=task))["sources"][0]["subTaskStatus"][0]

    def stage(self, task: str = "t") -> tuple[str, str]:
        status = self.subtask(task)
        return status["stage"], status["unit"]

    def _environment(self) -> dict[str, str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("DM_")}
        return {**clean, "DM_HOME": str(self.directory), "PYTHONPATH": str(ROOT), **self.environment}

    def _died(self) -> bool:
        assert self.daemon is not None
        assert self.daemon.poll() is None, (self.directory / "daemon.log").read_text()
        return False


@contextmanager
def home(directory: Path) -> Iterator[TestHome]:
    one = TestHome(directory)
    try:
        yield one
    finally:
        if one.daemon is not None and one.daemon.poll() is None:
            one.kill()


def until(look: Callable[[], T | None]) -> T:
    """Look again and again until there is something to see."""
    for _ in looks(SECONDS):
        seen = look()
        if seen:
            return seen
    raise AssertionError("did not come about in time")
