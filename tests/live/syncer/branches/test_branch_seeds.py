"""Drawn writes, errors, holds, releases and kills: in the end all tables are the source's, each keyless row once."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.joining.branches import release
from dm.task.branch_requests import hold
from tests.testbed.branches import Branching
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.looks import looks
from tests.testbed.sync import SyncProcess, subtask_for
from tests.testbed.unit_thread import UnitThread

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

FORMS = {
    "keyed": "(id INT PRIMARY KEY, u INT UNIQUE, v INT)",
    "bag": "(id INT, u INT, v INT)",
    "other": "(id INT PRIMARY KEY, u INT, v INT)",
}
STEPS = 24
VICTIM, INTRUDER = 1_000_000, 2_000_000  # rows that only an error is about


class Drawn(Branching):
    """A task of three tables, what was damaged at its target, and the processes that run."""

    def __init__(
        self, upstream: ThrowawayServer, target: ThrowawayServer, schema: str, directory: Path, seed: int
    ) -> None:
        subtask = subtask_for(upstream, target, schema, task=schema, on_error="table", checkpoint_flush_interval=1)
        super().__init__(subtask, directory)
        self.upstream, self.target, self.schema = upstream, target, schema
        self.chance = random.Random(seed)
        self.mends: list[tuple[str, str]] = []  # table, and the statement that mends it
        self.running: dict[str, UnitThread] = {}
        self.number = 0
        victims = ", ".join(f"({VICTIM + each}, {VICTIM + each}, 0)" for each in range(STEPS))
        for server in (upstream, target):
            for table, form in FORMS.items():
                server.execute(
                    f"CREATE TABLE {schema}.{table} {form}", f"INSERT INTO {schema}.{table} VALUES {victims}"
                )

    def write(self) -> None:
        """A transaction of the source over several tables."""
        statements = list[str]()
        for _ in range(self.chance.randint(1, 4)):
            table, row = self.chance.choice([*FORMS]), self.chance.randint(1, 30)
            name, value = f"{self.schema}.{table}", self.chance.randint(0, 9)
            statements.append(
                self.chance.choice(
                    [
                        f"INSERT IGNORE INTO {name} VALUES ({row}, {row + 100}, {value})",
                        f"UPDATE {name} SET v = v + {value} WHERE id = {row}",
                        f"DELETE FROM {name} WHERE id = {row}",
                    ]
                )
            )
        self.upstream.execute("BEGIN", *statements, "COMMIT")

    def damage(self) -> None:
        """Something at the target that the next change of the source can't be applied over."""
        self.number += 1
        table = self.chance.choice([*FORMS])
        name, number = f"{self.schema}.{table}", self.number
        kind = self.chance.choice(
            ["missing", "statement"] if table == "bag" else ["missing", "in the way", "statement"]
        )
        if kind == "missing":
            victim = VICTIM + number
            self.target.execute(f"DELETE FROM {name} WHERE id = {victim}")
            self.upstream.execute(f"UPDATE {name} SET v = 1 WHERE id = {victim}")
            # Other columns may have come by now; they have no value in such a row.
            self.mends.append((table, f"INSERT INTO {name} (id, u, v) VALUES ({victim}, {victim}, 0)"))
        elif kind == "in the way":
            intruder = INTRUDER + number
            self.target.execute(f"INSERT INTO {name} (id, u, v) VALUES ({intruder}, {intruder}, 7)")
            self.upstream.execute(f"INSERT INTO {name} (id, u, v) VALUES ({intruder}, {intruder}, 8)")
            self.mends.append((table, f"DELETE FROM {name} WHERE id = {intruder}"))
        else:
            self.target.execute(f"CREATE INDEX i{number} ON {name} (v)")
            self.upstream.execute(f"ALTER TABLE {name} ADD INDEX i{number} (u)")
            self.mends.append((table, f"DROP INDEX i{number} ON {name}"))

    def hold(self) -> None:
        """A person puts a table aside; refused where it is out."""
        try:
            hold({"source-1": self.subtask}, TableName(self.schema, self.chance.choice([*FORMS])), None)
        except DMError as error:
            if error.name != "branch-refused":
                raise

    def mend(self, table: str) -> None:
        """Mend all that was done to a table."""
        for own in [each for each in self.mends if each[0] == table]:
            self.mends.remove(own)
            self.target.execute(own[1])

    def release(self, *, mended: bool) -> None:
        """Let one that rests come back, perhaps too early."""
        resting = [one for one in self.branches() if one.phase == "aside"]
        if resting:
            table = self.chance.choice(resting).names[0].table
            if mended:
                self.mend(table)
            self.change(release, table)

    def tend(self, stack: ExitStack) -> None:
        """What the daemon does: a run for each branch that is to come back."""
        for one in self.branches():
            running = self.running.get(one.number)
            if running is not None and not running.ended:
                continue
            if running is not None and running.error is not None:
                assert isinstance(running.error, DMError), running.error
                assert running.error.retryable, running.error
                running.error = None
            if one.phase not in ("asked", "aside", "dropped"):
                self.running[one.number] = stack.enter_context(UnitThread(self.unit(one), "branch"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(1, 100))])
def test_all_tables_come_back(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")
    task = Drawn(upstream, target, schema(upstream, target), tmp_path, seed)
    main = SyncProcess(task.subtask, work_directory=tmp_path / "main")

    def again(*, kill: bool) -> None:
        nonlocal main
        main.close(kill=kill)
        main = SyncProcess(task.subtask, work_directory=tmp_path / "main")

    def put_aside() -> None:
        task.hold()
        again(kill=False)

    main.wait_synced()
    acts: list[Callable[[], None]] = [task.write] * 8 + [task.damage] * 3
    acts += [partial(task.release, mended=True), partial(task.release, mended=False)]
    acts += [partial(again, kill=True), put_aside]
    try:
        with ExitStack() as stack:
            for _ in range(STEPS):
                task.chance.choice(acts)()
                task.tend(stack)
            for _ in looks(240):
                for one in task.branches():
                    if one.phase == "aside":
                        task.mend(one.names[0].table)
                        task.release(mended=True)
                task.tend(stack)
                status = main.status()
                assert status is not None, main.errors()
                if status["synced"] is True and not task.branches():
                    break
            else:
                raise AssertionError(f"never all back: {task.branches()}")
    finally:
        main.close()
    for table in FORMS:
        query = f"SELECT * FROM {task.schema}.{table} ORDER BY id, u, v"
        assert target.query(query) == upstream.query(query), table
