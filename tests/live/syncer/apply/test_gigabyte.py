"""A transaction of a gigabyte under a quota of 64 MiB: applied exactly, and the syncer stays small."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dm.mysql.dialect import Flavor
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.memory import ROW, begin_peak_anew, insert_rows, memory_of
from tests.testbed.sync import SyncProcess, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(3600)]

QUOTA = 64 << 20
KEYED = 1 << 30  # bytes of binlog
KEYLESS = 128 << 20
MOST_OVER_IDLE = 256 << 20


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
            begin_peak_anew(sync.process.pid)
            insert_rows(upstream, name, table, size)
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
