"""One shard that waits for another: what that costs other tables, what it holds in memory, and how fast it comes after.

One shard of two is altered and then written to without a pause, while the other one is not altered. Meanwhile a row of
another table is written and looked for at the target, again and again. Then the second shard is altered, and what the
first one wrote comes in a second pass. Its speed is held against the same changes of a table that waits for nobody.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.measure import Comparison, Series
from benchmarks.recording import SCHEMA
from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON
from tests.testbed.memory import ROW, begin_peak_anew, memory_of
from tests.testbed.sync import FreshProcess, SyncProcess, subtask_for, wait_until

SIZE = 1 << 30  # bytes of scale 1 that the shard writes while it waits
SECONDS = 600.0  # of scale 1 that it waits at least
QUOTA = 64 << 20
_LAG = 2000.0  # milliseconds
_GOALS = {"lag": 1.0, "memory": 1.0, "pass": 0.8}
_TASK = "shards"
_INTERVAL = 0.05
_PER_STATEMENT = 64
_VISIBLE_SECONDS = 60.0
_SYNCED_SECONDS = 1800.0
_MB = 1e6


def measure(source: ThrowawayServer, target: ThrowawayServer, scale: float) -> Iterator[Comparison]:
    """One syncer in a process of its own, which reads from the source itself."""
    rows = max(int(SIZE * scale), QUOTA) // ROW
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as place:
        subtask = _begin(source, target)
        directory = Path(place)
        sync = SyncProcess(subtask, work_directory=directory, ready=FreshProcess())
        try:
            sync.wait_synced()
            base = memory_of(sync.process.pid, "VmRSS")
            begin_peak_anew(sync.process.pid)
            lags, size = _while_it_waits(source, target, sync, rows, SECONDS * scale)
            yield _lag(lags, size)
            yield _memory("held", "while it waits", sync, base, size)
            begin_peak_anew(sync.process.pid)
            began = time.monotonic()
            source.execute(f"ALTER TABLE {SCHEMA}.shard_2 ADD COLUMN w INT")
            _wait_merged(sync)
            passed = rows / (time.monotonic() - began)
            yield _memory("pass", "in its second pass", sync, base, size)
        finally:
            sync.close()
        yield _speed(passed, _catch_up(source, subtask, directory, rows), rows)
    found = target.query(f"SELECT (SELECT COUNT(*) FROM {SCHEMA}.merged), (SELECT COUNT(*) FROM {SCHEMA}.alone)")
    if found != ((rows, rows),):
        raise RuntimeError(f"{rows} rows were written, and the target has {found}")


def _begin(source: ThrowawayServer, target: ThrowawayServer) -> SubtaskConfig:
    columns = f"(id INT PRIMARY KEY, note VARCHAR({ROW + 100}))"
    names = {source: ("shard_1", "shard_2", "alone", "other"), target: ("merged", "alone", "other")}
    for server, tables in names.items():
        server.execute(
            f"DROP DATABASE IF EXISTS {SCHEMA}",
            f"DROP DATABASE IF EXISTS meta_{_TASK}",
            f"CREATE DATABASE {SCHEMA}",
            *(f"CREATE TABLE {SCHEMA}.{table} {columns}" for table in tables),
        )
    rule = RouteRule(schema_pattern=SCHEMA, table_pattern="shard_*", target_schema=SCHEMA, target_table="merged")
    subtask = subtask_for(source, target, SCHEMA, task=_TASK, routes=(rule,), workers=16, memory_quota=QUOTA)
    changes = {"shard_mode": "pessimistic", "shard_sources": (subtask.source.source_id,)}
    return subtask.model_copy(update=changes)


def _while_it_waits(
    source: ThrowawayServer, target: ThrowawayServer, sync: SyncProcess, rows: int, seconds: float
) -> tuple[list[float], int]:
    """Milliseconds from commit to visible of rows of another table, and bytes of the binlog that were written."""
    source.execute(f"ALTER TABLE {SCHEMA}.shard_1 ADD COLUMN w INT")
    wait_until(lambda: bool((sync.status() or {}).get("unresolvedGroups")), "the shard waits")
    before, until = _binlog_bytes(source), time.monotonic() + seconds
    writer = threading.Thread(target=_write, args=(source, "shard_1 (id, note)", rows))
    writer.start()
    lags = list[float]()
    with closing(source.connect(autocommit=True)) as writes, closing(target.connect(autocommit=True)) as looks:
        write, look = writes.cursor(), looks.cursor()
        while writer.is_alive() or time.monotonic() < until:
            write.execute(f"INSERT INTO {SCHEMA}.other VALUES ({len(lags)}, 'a row')")
            committed = time.monotonic()
            while not look.execute(f"SELECT id FROM {SCHEMA}.other WHERE id = {len(lags)}"):
                if sync.ended or time.monotonic() > committed + _VISIBLE_SECONDS:
                    raise RuntimeError(f"row {len(lags)} does not arrive")
            lags.append((time.monotonic() - committed) * 1000)
            time.sleep(_INTERVAL)
    writer.join()
    return lags, _binlog_bytes(source) - before


def _binlog_bytes(source: ThrowawayServer) -> int:
    return sum(int(row[1]) for row in source.query("SHOW BINARY LOGS"))


def _write(source: ThrowawayServer, into: str, rows: int) -> None:
    with closing(source.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for first in range(0, rows, _PER_STATEMENT):
            keys = range(first, min(first + _PER_STATEMENT, rows))
            values = ",".join(f"({key},REPEAT(SHA2({key},256),{ROW // 64}))" for key in keys)
            cursor.execute(f"INSERT INTO {SCHEMA}.{into} VALUES {values}")


def _wait_merged(sync: SyncProcess) -> None:
    """Until nothing waits and everything is applied; `synced` is said too early before the DDL is read."""

    def merged() -> bool:
        status = sync.status()
        if status is None:
            raise RuntimeError(f"the syncer has ended: {sync.errors()}")
        return status["synced"] is True and not status.get("unresolvedGroups")

    wait_until(merged, "the shards are merged", _SYNCED_SECONDS)


def _catch_up(source: ThrowawayServer, subtask: SubtaskConfig, directory: Path, rows: int) -> float:
    """Rows per second of a table that waits for nobody, from the start of the unit on."""
    ready = FreshProcess()
    _write(source, "alone (id, note)", rows)
    began = time.monotonic()
    sync = SyncProcess(subtask, work_directory=directory, ready=ready)
    try:
        sync.wait_synced(_SYNCED_SECONDS)
        return rows / (time.monotonic() - began)
    finally:
        sync.close()


def _lag(lags: list[float], size: int) -> Comparison:
    worst = Series("dm, the longest", "ms", [max(lags)])
    notes: dict[str, JSON] = {"bytes": size, "rows": len(lags), "median": round(statistics.median(lags), 2)}
    what = f"a shard waits, {size / _MB:.0f} MB after it: commit to visible in another table"
    return Comparison("shards.lag", what, worst, Series("limit", "ms", [_LAG]), _GOALS["lag"], "limit", notes)


def _memory(key: str, when: str, sync: SyncProcess, base: int, size: int) -> Comparison:
    peak = memory_of(sync.process.pid, "VmHWM")
    over, quota = Series("dm, over idle", "MB", [(peak - base) / _MB]), Series("memory-quota", "MB", [QUOTA / _MB])
    notes: dict[str, JSON] = {"bytes": size, "idle": base, "peak": peak}
    what = f"a shard with {size / _MB:.0f} MB, memory {when}"
    return Comparison(f"shards.memory-{key}", what, over, quota, _GOALS["memory"], "limit", notes)


def _speed(passed: float, caught_up: float, rows: int) -> Comparison:
    rate = "rows per second"
    ours, usual = Series("dm, second pass", rate, [passed]), Series("dm, catching up", rate, [caught_up])
    return Comparison("shards.pass", f"second pass over {rows:,} rows of 1 KB", ours, usual, _GOALS["pass"])
