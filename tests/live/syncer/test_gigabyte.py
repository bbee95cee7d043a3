"""A transaction of a gigabyte under a quota of 64 MiB: applied exactly, and the syncer stays small."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.gtid import Flavor
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import SyncProcess, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(3600)]

QUOTA = 64 << 20
KEYED = 1 << 30  # bytes of binlog
KEYLESS = 128 << 20
ROW = 1024
MOST_OVER_IDLE = 256 << 20


def memory_of(pid: int, what: str) -> int:
    """`VmRSS` or `VmHWM`, bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"no {what}")


def insert(server: ThrowawayServer, schema: str, table: str, size: int) -> None:
    """Write rows of 1 KiB, so many bytes in all, in one transaction."""
    rows = size // ROW
    select = f"n, RPAD(CONCAT(n, '-'), {ROW - 20}, HEX(n * 7919))"
    if server.flavor == "mariadb":
        server.execute(
            f"USE {schema}", f"INSERT INTO {table} SELECT {select} FROM (SELECT seq AS n FROM seq_1_to_{rows}) s"
        )
    else:
        server.execute(
            f"USE {schema}",
            f"SET SESSION cte_max_recursion_depth = {rows + 1}",
            f"INSERT INTO {table} WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})"
            f" SELECT {select} FROM s",
        )


def test_a_transaction_of_a_gigabyte_needs_no_more_than_the_quota_and_what_one_part_takes(
    flavor: Flavor, server: ServerFactory, schema: SchemaFactory, tmp_path: Path
) -> None:
    upstream = server(flavor, innodb_buffer_pool_size=256 << 20)
    target = server(flavor, innodb_buffer_pool_size=256 << 20, innodb_flush_log_at_trx_commit=2)
    name = schema(upstream, target)
    for where in (upstream, target):
        where.execute(
            f"CREATE TABLE {name}.keyed (id INT PRIMARY KEY, note VARCHAR(1100))",
            f"CREATE TABLE {name}.keyless (a INT, note VARCHAR(1100))",
        )
    subtask = subtask_for(upstream, target, name, task=name, workers=16, memory_quota=QUOTA)
    sync = SyncProcess(subtask, work_directory=tmp_path)
    try:
        sync.wait_synced()
        idle = memory_of(sync.process.pid, "VmRSS")
        figures: dict[str, object] = {"flavor": flavor, "quota": QUOTA, "idle_rss": idle}
        for table, size in (("keyed", KEYED), ("keyless", KEYLESS)):
            Path(f"/proc/{sync.process.pid}/clear_refs").write_text("5")  # begin VmHWM anew (proc(5))
            insert(upstream, name, table, size)
            began = time.monotonic()
            most_used = most_spooled = 0
            status = sync.status()
            while status is not None and status["synced"] is not True:
                most_used = max(most_used, int(str(status["memoryUsed"])))
                most_spooled = max(most_spooled, int(str(status["spooledBytes"])))
                time.sleep(0.2)
                status = sync.status()
            assert status is not None, sync.errors()
            peak = memory_of(sync.process.pid, "VmHWM")
            figures[table] = {
                "transaction_bytes": size,
                "seconds_behind_its_commit": round(time.monotonic() - began, 1),
                "peak_rss": peak,
                "over_idle": peak - idle,
                "memory_used_at_most": most_used,
                "spooled_at_most": most_spooled,
            }
            assert most_spooled > size - QUOTA
        record(f"syncer.gigabyte_transaction.{flavor}", figures)  # type: ignore[arg-type]
        for table in ("keyed", "keyless"):
            found = figures[table]
            assert isinstance(found, dict)
            assert found["over_idle"] < MOST_OVER_IDLE, figures
    finally:
        sync.close()
    assert list((tmp_path / "spool").iterdir()) == []
    for table in ("keyed", "keyless"):
        # The servers' own sum over all bytes of all rows; reading a gigabyte twice would take longer than the rest.
        sums = [
            (where.query(f"CHECKSUM TABLE {name}.{table}"), where.query(f"SELECT COUNT(*) FROM {name}.{table}"))
            for where in (upstream, target)
        ]
        assert sums[0] == sums[1], table
        assert sums[0][1] == ((figures[table]["transaction_bytes"] // ROW,),)  # type: ignore[index]
