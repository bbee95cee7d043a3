"""Rows spoiled at the target while a workload runs, over kills of syncer and validator: each is found, and no other."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from tests.live.relay.relaying import end_of
from tests.testbed.diffing import compared
from tests.testbed.dying_units import DyingSync, DyingValidator, checkpoint_of
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until
from tests.testbed.validation import ValidatorProcess, errors_of, running_validator, validated

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(900)]

ROWS, BUSY = 600, 200  # those above ROWS the workload changes all the time
SPOILED, EARLY, ROUNDS = 200, 50, 10
COLUMNS = (
    "id INT PRIMARY KEY, i BIGINT, n DECIMAL(12,3), d DOUBLE, f FLOAT, v VARCHAR(40) COLLATE utf8mb4_general_ci,"
    " c CHAR(10), b VARBINARY(20), t DATETIME(3), s TIMESTAMP(6) NULL, e ENUM('small','large'), j JSON, x LONGTEXT"
)
CHANGED = (
    "UPDATE {t} SET i = i + 1 WHERE id = {n}",
    "UPDATE {t} SET n = n + 0.001 WHERE id = {n}",
    "UPDATE {t} SET d = d * (1 + 2.3e-16) WHERE id = {n}",
    "UPDATE {t} SET f = f * 1.0000002 WHERE id = {n}",
    "UPDATE {t} SET v = UPPER(v) WHERE id = {n}",
    "UPDATE {t} SET v = CONCAT(v, ' ') WHERE id = {n}",
    "UPDATE {t} SET c = NULL WHERE id = {n}",
    "UPDATE {t} SET b = CONCAT(b, x'00') WHERE id = {n}",
    "UPDATE {t} SET t = t + INTERVAL 1000 MICROSECOND WHERE id = {n}",
    "UPDATE {t} SET s = s + INTERVAL 1 MICROSECOND WHERE id = {n}",
    "UPDATE {t} SET e = 'small' WHERE id = {n}",
    # By one UPDATE MySQL would keep the number's type: the documents are equal.
    "UPDATE {t} SET j = NULL WHERE id = {n}; UPDATE {t} SET j = '{{\"n\": {n}.0}}' WHERE id = {n}",
    "UPDATE {t} SET x = CONCAT(x, '.') WHERE id = {n}",
)
MISSING = "DELETE FROM {t} WHERE id = {n}"
BACK = "INSERT INTO {t} (id) VALUES ({n})"


def values(number: int) -> str:
    return (
        f"({number}, {number}, {number}.125, {number} / 7 + 1, {number} / 3 + 1, 'row {number}', 'c', x'ff',"
        f" '2024-01-01 00:00:00.5', '2024-01-01 00:00:01', 'large', '{{\"n\": {number}}}',"
        f" REPEAT('long', {number % 50}))"
    )


def execute(server: PrivateServer, statements: Iterable[str]) -> None:
    """One transaction each."""
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


class Workload:
    """Changes rows after the others, until the context is over."""

    def __init__(self, source: ThrowawayServer, table: str, seed: int) -> None:
        self._source, self._table, self._random = source, table, random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: BaseException | None = None
        self.turns = 0

    def __enter__(self) -> Workload:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            execute(self._source, self._statements())
        except BaseException as error:
            self.error = error

    def _statements(self) -> Iterable[str]:
        while not self._over.wait(0.01):
            self.turns += 1
            number = self._random.randrange(ROWS + 1, ROWS + BUSY)
            yield self._random.choice(
                [
                    f"REPLACE INTO {self._table} VALUES {values(number)}",
                    f"UPDATE {self._table} SET v = 'turn {self.turns}' WHERE id = {number}",
                    f"DELETE FROM {self._table} WHERE id = {number}",
                    f"UPDATE {self._table} SET id = {number + BUSY} WHERE id = {number}"
                    f" AND NOT EXISTS (SELECT 1 FROM (SELECT id FROM {self._table}) o"
                    f" WHERE o.id = {number + BUSY})",
                ]
            )


class Spoiler:
    """Somebody who writes to the target, and knows where."""

    def __init__(self, source: ThrowawayServer, subtask: SubtaskConfig, target: ThrowawayServer, table: str) -> None:
        self._source, self._subtask, self._target, self._table = source, subtask, target, table
        self.lasting: dict[int, str] = {}  # wrong for good
        self.passing: set[int] = set()  # the syncer may write them once more

    def spoil(self, numbers: list[int], early: list[int], syncer: DyingSync, draw: random.Random) -> None:
        """The source writes the rows, and they are wrong at the target soon after."""
        gone = [number for number in numbers if number % 10 == 0]
        written = ", ".join(map(str, [*set(numbers).difference(gone), *early]))
        execute(self._source, [f"UPDATE {self._table} SET i = -i WHERE id IN ({written})"])
        execute(self._source, [f"DELETE FROM {self._table} WHERE id = {number}" for number in gone])
        end = end_of(self._source)
        # These the syncer has yet to write, or writes again when it has died.
        self.passing.update(early)
        self._write((number, draw.choice(CHANGED)) for number in early)

        def applied() -> bool:
            syncer.check()
            return checkpoint_of(self._subtask) >= end

        wait_until(applied, "no syncer writes the rows any more", 120)
        how = {number: BACK if number in gone else draw.choice((*CHANGED, MISSING)) for number in numbers}
        self.lasting |= how
        self._write(how.items())

    def spoil_busy(self, numbers: list[int], draw: random.Random) -> None:
        """At any time, where the workload changes rows; it changes them once more in the end."""
        self.passing.update(numbers)
        self._write((number, draw.choice(CHANGED)) for number in numbers)

    def _write(self, rows: Iterable[tuple[int, str]]) -> None:
        execute(
            self._target,
            itertools.chain.from_iterable(how.format(t=self._table, n=number).split("; ") for number, how in rows),
        )


def test_every_spoiled_row_is_found_and_no_other(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)
    name = schema(upstream, target)
    table = f"{name}.t"
    upstream.execute(f"CREATE TABLE {table} ({COLUMNS})")
    target.execute(f"CREATE TABLE {table} ({COLUMNS})")
    subtask = validated(subtask_for(upstream, target, name, task=name))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as first:
            first.wait("0/0/0")
        upstream.execute(f"INSERT INTO {table} VALUES {', '.join(map(values, range(1, ROWS + 1)))}")
        sync.wait_synced()
    numbers = draw.sample(range(1, ROWS + 1), SPOILED)
    early = draw.sample([number for number in range(1, ROWS + 1) if number % 10 and number not in numbers], EARLY)
    spoiler = Spoiler(upstream, subtask, target, table)
    validator = DyingValidator(subtask, tmp_path / "work", draw)
    pause = threading.Event()
    with Workload(upstream, table, seed) as workload, DyingSync(subtask, upstream, seed) as syncer:
        for each in range(ROUNDS):
            with validator.held():
                spoiler.spoil(numbers[each::ROUNDS], early[each::ROUNDS], syncer, draw)
            for _ in range(3):
                pause.wait(draw.uniform(0.3, 1.5))
                spoiler.spoil_busy(draw.sample(range(ROWS + 1, ROWS + 2 * BUSY), 3), draw)
    validator.die()
    # A row that was found equal is not looked at again before it changes.
    upstream.execute(f"UPDATE {table} SET x = CONCAT(x, '!') WHERE id > {ROWS}")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        last = ValidatorProcess(subtask, tmp_path / "work")
        try:
            end = end_of(upstream)
            wait_until(lambda: settled(last, end), "nothing waits", 240)
        finally:
            last.close()
        assert sync.wait_synced()["synced"] is True
    found = {int(each.row.message.split("=")[1].split(":")[0]) for each in errors_of(subtask)}
    wrong = {int(each.key.split("=")[1]) for outcome in compared(subtask) for each in outcome.differences}
    assert len(spoiler.lasting) == SPOILED
    assert wrong.issuperset(spoiler.lasting), f"seed {seed}: healed are {set(spoiler.lasting) - wrong}"
    missed = {number: spoiler.lasting.get(number, "early") for number in wrong - found}
    assert not missed, f"seed {seed}"
    assert found <= spoiler.lasting.keys() | spoiler.passing, f"seed {seed}"
    record(
        f"validator.spoiled_rows.{upstream.flavor}",
        {
            "seed": seed, "spoiled for good": SPOILED, "written again or not": len(spoiler.passing),
            "found": len(found), "wrong in the end": len(wrong), "missed": len(missed),
            "transactions of the workload": workload.turns,
            "deaths of the syncer": dict(syncer.deaths), "deaths of the validator": dict(validator.deaths),
            "freezes of the validator": validator.freezes,
        },
    )  # fmt: skip
    assert sum(syncer.deaths.values()) >= ROUNDS, "it hurt too little"
    assert sum(validator.deaths.values()) >= 3, "it hurt too little"


def settled(process: ValidatorProcess, end: tuple[str, int]) -> bool:
    """Whether it has read all there is, and nothing waits."""
    status = process.status()
    assert status is not None, process.errors()
    file, _, offset = str(status.get("validatorBinlog", "")).strip("()").partition(", ")
    there = (file, int(offset or 0))
    return there >= end and status.get("pendingRowsStatus") == "insert/update/delete: 0/0/0"
