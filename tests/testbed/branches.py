"""Tables that leave a task's stream and come back, each stream in a thread of the test's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.progress.joining.branches import release
from dm.progress.joining.table_joining import Joining, find_all
from dm.progress.tables import SubtaskKey
from dm.task.progress import key_of
from dm.task.share_unit import JoinUnit
from tests.testbed.joining import join_unit
from tests.testbed.sync import RunningSync, running_sync, wait_until
from tests.testbed.unit_thread import UnitThread


@dataclass
class Branching:
    """A task whose tables may leave it."""

    subtask: SubtaskConfig
    directory: Path

    @contextmanager
    def main(self) -> Iterator[RunningSync]:
        """The task's own stream."""
        with running_sync(self.subtask, work_directory=self.directory / "main") as sync:
            yield sync

    def branches(self) -> list[Joining]:
        """What the target says."""
        with closing(TargetConnection(self.subtask.target)) as connection:
            return find_all(connection, key_of(self.subtask))

    def of(self, table: str) -> Joining | None:
        """The branch that has a table, by the table's name."""
        return next((one for one in self.branches() if any(each.table == table for each in one.names)), None)

    def rests(self, table: str) -> bool:
        """Whether a table is aside."""
        found = self.of(table)
        return found is not None and found.phase == "aside"

    def change(self, verb: Callable[[TargetConnection, SubtaskKey, Joining], bool], table: str) -> None:
        """`release` or `drop`, as a person asks for it."""
        branch = self.of(table)
        assert branch is not None
        with closing(TargetConnection(self.subtask.target)) as connection:
            assert verb(connection, key_of(self.subtask), branch)

    def unit(self, branch: Joining) -> JoinUnit:
        """What brings a branch back, as a host makes it."""
        return join_unit(self.subtask, self.directory / "join", None, branch.number)

    @contextmanager
    def coming(self, table: str) -> Iterator[UnitThread]:
        """The branch of a table runs."""
        branch = self.of(table)
        assert branch is not None
        with UnitThread(self.unit(branch), f"branch-{table}") as running:
            yield running

    def comes_back(self, table: str) -> None:
        """Release a branch, and wait until its tables are main's, which has to run."""
        self.change(release, table)
        with self.coming(table) as running:
            wait_until(lambda: self.of(table) is None, f"{table} is back", 120)
            running.wait_ended()
