"""Main or the share killed at a fault point while tables join, or their TiDB, and what is begun again after it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dm.errors import DMError
from tests.testbed.joining import Task, join_process
from tests.testbed.sync import UnitProcess, wait_until
from tests.testbed.tidb import TidbServer
from tests.testbed.tidb_kills import TidbKill

OF_THE_EMPTYING = ("join.emptying", "join.emptied", "join.loading")
OF_THE_LOAD = (
    "dumper.after_p0", "dumper.finished", "loader.chunk_inserted", "loader.finished", "syncer.bound_persisted",
)  # fmt: skip
OF_THE_COPY = (  # what a load of any task passes, too
    "dumper.chunk_written", "dumper.chunk_recorded", "dumper.before_p1", "loader.chunk_committed",
    "loader.indexes_recorded", "loader.indexes_off", "loader.index_added",
)  # fmt: skip
# No share passes `loader.table*` and `dumper.tables_given_up`: they are of tables that a load makes for itself alone
# and copies without files by its own choice, which it never does beside a stream (`SubtaskConfig.copies`).
OF_THE_SHARE = (*OF_THE_EMPTYING, *OF_THE_LOAD, "join.near", "join.before_ready", "join.ready")
OF_MAIN = ("join.given_up", "join.called", "join.before_return", "join.returned")
TRIED_AGAIN = 3  # the exit status
_SECONDS = 300  # a limit for what hangs: Spark starts
_TRIES = 3


@contextmanager
def _tried_again(stream: AbstractContextManager[object]) -> Iterator[None]:
    """Beside the block; the stream may end by an error that is tried again."""
    try:
        with stream:
            yield
    except DMError as error:
        if not error.retryable:
            raise


@dataclass
class Death:
    """A kill at a point, the first time that it is passed or later; `directory` is for what is written of it."""

    point: str
    directory: Path
    passage: int = 1

    @property
    def of_main(self) -> bool:
        """Whether main passes the point."""
        return self.point in OF_MAIN

    def strikes(self, task: Task) -> None:
        """Kill the stream at the point; what is loaded beside it rests after that."""
        if self.of_main:
            with self.main(task) as main, task.joining(ends=False):
                wait_until(lambda: main.ended, f"{self.point} is passed", _SECONDS)
        else:
            with task.following():
                process = self._share(task, f"{self.point}=kill@{self.passage}")
                # A worker of Spark may be who dies: then the process ends with an error that is tried again.
                assert process.wait(_SECONDS) in (-signal.SIGKILL, TRIED_AGAIN), process.returncode
        assert self._struck.exists()

    def strikes_target(self, task: Task, target: TidbServer) -> None:
        """Kill the target while the stream is at the point; both streams end by errors that are tried again."""
        kill = TidbKill(target, self.point, self.directory)
        if self.of_main:
            main = UnitProcess(
                "sync",
                task.subtask.to_wire(),
                None,
                work_directory=task.directory / "main",
                faults=kill.faults,
                fault_log=kill.log,
            )
            try:
                with _tried_again(task.joining(ends=False)):
                    kill.strike(lambda: main.ended)
            finally:
                main.close(kill=True)
        else:
            with _tried_again(task.following()):
                process = join_process(task.subtask, task.directory / "join", kill.faults, kill.log)
                kill.strike(lambda: process.poll() is not None)
            if process.poll() is None:  # where it had no session open it goes on, and needs main, begun again
                with _tried_again(task.following()):
                    process.wait(120)
            assert process.returncode in (0, TRIED_AGAIN), process.returncode

    def goes_on(self, task: Task) -> None:
        """Both streams begin again and run until the tables have joined."""
        for left in reversed(range(_TRIES)):
            try:
                with task.following(), task.joining():
                    pass
                return
            except DMError as error:  # what is left of a dead process may be in the way, as for auto-resume
                if not error.retryable or not left:
                    raise

    @property
    def _struck(self) -> Path:
        return self.directory / f"{self.point}.struck"

    @contextmanager
    def main(self, task: Task) -> Iterator[UnitProcess]:
        """Main, which dies at the point."""
        self._struck.unlink(missing_ok=True)
        process = UnitProcess(
            "sync",
            task.subtask.to_wire(),
            None,
            work_directory=task.directory / "main",
            faults=f"{self.point}=kill@{self.passage}",
            fault_log=self._struck,
        )
        try:
            yield process
        finally:
            process.close(kill=True)

    def _share(self, task: Task, fault: str) -> subprocess.Popen[str]:
        if fault:
            self._struck.unlink(missing_ok=True)
        return join_process(task.subtask, task.directory / "join", fault, self._struck)
