"""Many tables, 1,000 and 10,000 at scale 1: what a syncer's start costs, the first row of each, and each row then.

The servers of this part keep their tables in one file and never wait for a disk, since making the tables would
otherwise take longer than everything else.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from benchmarks.measure import Comparison, Series, process_seconds
from benchmarks.recording import SOURCE_OPTIONS, TARGET_OPTIONS
from dm.demo.servers import Option, ThrowawayServer
from dm.unit import JSON
from tests.testbed.sync import FreshProcess, SyncProcess, subtask_for

COUNTS = (1_000, 10_000)
GOAL = 1.15
_OPTIONS: Mapping[str, Option] = {
    "innodb_file_per_table": False,
    "innodb_flush_method": "nosync",
    "table_open_cache": 20_000,
    "open_files_limit": 65_535,
}
_SESSIONS = 4
_PER_TRANSACTION = 100
_FURTHER_ROWS = 6  # of each table, whatever their number: the second row of a table is dearer than the ones after it
_POLL_SECONDS = 0.2
_SYNCED_SECONDS = 600.0


def measure(scale: float) -> Iterator[Comparison]:
    """So many tables, fewer where the scale is below 1."""
    small, large = (int(count * min(1.0, scale)) for count in COUNTS)
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        ThrowawayServer("mysql", Path(directory) / "s", server_id=73, options={**SOURCE_OPTIONS, **_OPTIONS}) as source,
        ThrowawayServer("mysql", Path(directory) / "t", server_id=74, options={**TARGET_OPTIONS, **_OPTIONS}) as target,
    ):
        found = {count: _follow(source, target, count, Path(directory) / f"work-{count}") for count in (small, large)}
    names = {
        "first": ("us of CPU per table", "the first row of each table"),
        "row": ("us of CPU per row", "each further row, one per event"),
        "start": ("us of CPU per table", "start of a task that knows them all"),
    }
    for key, (unit, what) in names.items():
        ours, peer = (Series(f"dm, {count:,} tables", unit, [found[count][key]]) for count in (large, small))
        notes: dict[str, JSON] = {
            "seconds": {str(count): round(found[count][f"{key} seconds"], 2) for count in found},
            "settings": " ".join(f"{name}={value}" for name, value in _OPTIONS.items()),
        }
        title = f"{large:,} tables: {what}"
        yield Comparison(f"tables.{key}", title, ours, peer, GOAL, judged_by="limit", notes=notes)


def _follow(source: ThrowawayServer, target: ThrowawayServer, count: int, directory: Path) -> dict[str, float]:
    """Microseconds of CPU, and seconds, of each step with so many tables."""
    schema = f"many_{count}"
    _create(source, target, schema, count)
    subtask = subtask_for(source, target, schema, task=schema, workers=16)
    found: dict[str, float] = {}

    def book(key: str, each: int, sync: SyncProcess, began: float, before: float) -> None:
        _wait(sync)
        found[f"{key} seconds"] = time.monotonic() - began
        found[key] = (process_seconds(sync.process.pid) - before) * 1e6 / each

    sync = SyncProcess(subtask, work_directory=directory, ready=FreshProcess())
    try:
        _wait(sync)
        for key, passes in (("first", range(1)), ("row", range(1, 1 + _FURTHER_ROWS))):
            began, before = time.monotonic(), process_seconds(sync.process.pid)
            for number in passes:
                _write(source, schema, count, number)
            book(key, count * len(passes), sync, began, before)
    finally:
        sync.close()
    process = FreshProcess()
    before = _imported(process.pid)
    began = time.monotonic()
    sync = SyncProcess(subtask, work_directory=directory, ready=process)
    try:
        book("start", count, sync, began, before)
    finally:
        sync.close()
    return found


def _imported(pid: int) -> float:
    """Wait until a process has nothing more to import; gives the CPU seconds that it took."""
    used, now = -1.0, 0.0
    while now == 0.0 or used != now:
        time.sleep(2 * _POLL_SECONDS)
        used, now = now, process_seconds(pid)
    return now


def _wait(sync: SyncProcess) -> None:
    """Wait until everything is applied, without asking all the time."""
    deadline = time.monotonic() + _SYNCED_SECONDS
    while (status := sync.status()) is not None and status["synced"] is not True and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if status is None or status["synced"] is not True:
        raise RuntimeError(f"not synced: {status or sync.errors()}")


def _create(source: ThrowawayServer, target: ThrowawayServer, schema: str, count: int) -> None:
    """The tables on both servers, in no binlog of the source."""

    def create(server: ThrowawayServer, first: int) -> None:
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            for number in range(first, count, _SESSIONS):
                cursor.execute(f"CREATE TABLE {schema}.t{number} (id INT PRIMARY KEY, k INT, c VARCHAR(60))")

    for server in (source, target):
        server.execute(f"CREATE DATABASE {schema}")
    with ThreadPoolExecutor(2 * _SESSIONS) as pool:
        for done in [pool.submit(create, server, n) for server in (source, target) for n in range(_SESSIONS)]:
            done.result()


def _write(source: ThrowawayServer, schema: str, count: int, key: int) -> None:
    """One row into each table."""
    with closing(source.connect()) as connection, connection.cursor() as cursor:
        for first in range(0, count, _PER_TRANSACTION):
            cursor.execute("BEGIN")
            for number in range(first, min(first + _PER_TRANSACTION, count)):
                cursor.execute(
                    f"INSERT INTO {schema}.t{number} VALUES ({key}, {number}, 'row {key} of table {number}')"
                )
            cursor.execute("COMMIT")
