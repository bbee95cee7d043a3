"""200 rows spoiled at random while a workload runs, over kills of the validator: each is found, and nothing else."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until
from tests.testbed.validation import ValidatorProcess, errors_of, running_validator, validated

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(900)]

STATUS = {"mysql": "BINARY LOG", "mariadb": "MASTER"}
ROWS, SPOILED, BUSY = 600, 200, 200
COLUMNS = (
    "id INT PRIMARY KEY, i BIGINT, n DECIMAL(12,3), d DOUBLE, f FLOAT, v VARCHAR(40) COLLATE utf8mb4_general_ci,"
    " c CHAR(10), b VARBINARY(20), t DATETIME(3), s TIMESTAMP(6) NULL, e ENUM('small','large'), j JSON, x LONGTEXT"
)
SPOILERS = (
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
    "DELETE FROM {t} WHERE id = {n}",
)
GONE = "INSERT INTO {t} (id) VALUES ({n})"


def values(number: int) -> str:
    return (
        f"({number}, {number}, {number}.125, {number} / 7 + 1, {number} / 3 + 1, 'row {number}', 'c', x'ff',"
        f" '2024-01-01 00:00:00.5', '2024-01-01 00:00:01', 'large', '{{\"n\": {number}}}',"
        f" REPEAT('long', {number % 50}))"
    )


class Workload:
    """Changes rows that nobody spoils."""

    def __init__(self, source: ThrowawayServer, table: str, seed: int) -> None:
        self._source, self._table, self._random = source, table, random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: BaseException | None = None

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
            for turn in range(1_000_000):
                if self._over.wait(0.01):
                    return
                number = self._random.randrange(ROWS + 1, ROWS + BUSY)
                self._source.execute(
                    self._random.choice(
                        [
                            f"REPLACE INTO {self._table} VALUES {values(number)}",
                            f"UPDATE {self._table} SET v = 'turn {turn}' WHERE id = {number}",
                            f"DELETE FROM {self._table} WHERE id = {number}",
                            f"UPDATE {self._table} SET id = {number + BUSY} WHERE id = {number}"
                            f" AND NOT EXISTS (SELECT 1 FROM (SELECT id FROM {self._table}) o"
                            f" WHERE o.id = {number + BUSY})",
                        ]
                    )
                )
        except BaseException as error:
            self.error = error


def test_every_spoiled_row_is_found_and_no_other(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    name = schema(upstream, target)
    table = f"{name}.t"
    upstream.execute(f"CREATE TABLE {table} ({COLUMNS})")
    target.execute(f"CREATE TABLE {table} ({COLUMNS})")
    subtask = validated(subtask_for(upstream, target, name, task=name))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        upstream.execute(
            f"INSERT INTO {table} VALUES {', '.join(map(values, range(1, ROWS + 1)))}",
            f"DELETE FROM {table} WHERE id % 10 = 0",
            f"UPDATE {table} SET i = -i WHERE id % 3 = 0",
        )
        sync.wait_synced()
        numbers = draw.sample(range(1, ROWS + 1), SPOILED)
        spoiled = {number: GONE if number % 10 == 0 else draw.choice(SPOILERS) for number in numbers}
        for number, how in spoiled.items():
            target.execute(*how.format(t=table, n=number).split("; "))
        with Workload(upstream, table, seed):
            for point in ("validator.before_checkpoint=kill@3", "validator.after_checkpoint=kill@2", "", "", ""):
                killed(ValidatorProcess(subtask, tmp_path / "work", point), draw)
        sync.wait_synced()
        process = ValidatorProcess(subtask, tmp_path / "work")
        try:
            end = place(upstream.query(f"SHOW {STATUS[upstream.flavor]} STATUS")[0][:2])
            wait_until(lambda: settled(process, end), "nothing waits", 240)
        finally:
            process.close()
        assert sync.wait_synced()["synced"] is True
    found = [int(each.row.message.split("=")[1].split(":")[0]) for each in errors_of(subtask)]
    missed = {number: how for number, how in spoiled.items() if number not in found}
    assert (missed, sorted(found)) == ({}, sorted(spoiled)), f"seed {seed}"


def killed(process: ValidatorProcess, draw: random.Random) -> None:
    """The end of a life: by a fault, or after a moment."""
    try:
        process.process.wait(draw.uniform(2, 6))
    except subprocess.TimeoutExpired:  # it lives: the kill comes from outside
        process.process.kill()
    finally:
        process.process.wait()
        process.close()


def place(columns: Sequence[object]) -> tuple[str, int]:
    file, offset = columns
    return str(file), int(str(offset))


def settled(process: ValidatorProcess, end: tuple[str, int]) -> bool:
    """Whether it has read all there is, and nothing waits."""
    status = process.status()
    assert status is not None, process.errors()
    there = str(status.get("validatorBinlog", "")).strip("()").split(", ")
    return len(there) == 2 and place(there) >= end and status.get("pendingRowsStatus") == "insert/update/delete: 0/0/0"
