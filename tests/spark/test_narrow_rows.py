"""Twenty million narrow rows need no more memory than two million, in the driver and in the workers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from dm.demo.servers import ThrowawayServer
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, rows
from tests.testbed.figures import record
from tests.testbed.fixtures import ServerFactory
from tests.testbed.memory import NoMemory, memory_of
from tests.testbed.standalone import family

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(3600)]

SIZES = (2_000_000, 20_000_000)
CHUNK_ROWS = 500_000
MOST_GROWTH = 64 << 20
_MILLION = 1_000_000


def fill(server: ThrowawayServer, schema: str, size: int) -> None:
    server.execute(
        f"USE `{schema}`",
        "SET SESSION sql_log_bin = 0",
        "CREATE TABLE narrow (id INT PRIMARY KEY, v TINYINT)",
        *(
            f"INSERT INTO narrow SELECT {first} + seq, seq % 100 FROM seq_1_to_{_MILLION}"
            for first in range(0, size, _MILLION)
        ),
        "ANALYZE TABLE narrow",
    )


@contextmanager
def peaks_of(process: Popen[str]) -> Iterator[Counter[str]]:
    """The most memory that any driver, JVM or worker had until the end of the block."""
    peaks: Counter[str] = Counter()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            for pid in family(process.pid):
                try:
                    name = Path(f"/proc/{pid}/comm").read_text().strip()
                    kind = "driver" if pid == process.pid else "jvm" if name == "java" else "worker"
                    peaks[kind] = max(peaks[kind], memory_of(pid, "VmHWM"))
                except (FileNotFoundError, ProcessLookupError, NoMemory):
                    continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def copy(load: FullLoad, log: Path) -> dict[str, Counter[str]]:
    """Dump and load, each in a process of its own; gives their peaks."""
    found = {}
    for unit in ("Dump", "Load"):
        process = load.start(unit, "", log)
        with peaks_of(process) as found[unit.lower()]:
            assert process.wait() == 0, log.with_suffix(".out").read_text()
    return found


def test_memory_does_not_grow_with_the_rows(server: ServerFactory, full_load: LoadFactory, tmp_path: Path) -> None:
    upstream = server("mariadb", innodb_buffer_pool_size=256 << 20)
    target = server("mariadb", innodb_buffer_pool_size=256 << 20)
    found: dict[int, dict[str, Counter[str]]] = {}
    for size in SIZES:
        load = full_load(upstream, target, rows=CHUNK_ROWS, mode="full")
        fill(upstream, load.schema, size)
        found[size] = copy(load, tmp_path / f"log-{size}")
        sums = [
            rows(where, f"SELECT COUNT(*), SUM(CRC32(CONCAT(id, ' ', v))) FROM `{schema}`.narrow")
            for where, schema in ((upstream, load.schema), (target, load.target_schema))
        ]
        assert sums[0] == sums[1]
        assert sums[0][0][0] == size
    record(
        "full.narrow_rows.mariadb",
        {f"peak_rss_of_{size}_rows": {unit: dict(peaks) for unit, peaks in found[size].items()} for size in SIZES},
    )
    few, many = (found[size] for size in SIZES)
    for unit, peaks in many.items():
        for kind in ("driver", "worker"):  # the JVM's heap has a limit of its own
            assert peaks[kind] - few[unit][kind] < MOST_GROWTH, (unit, kind, found)
