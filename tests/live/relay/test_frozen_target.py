"""A target that stops answering holds its syncer, a stopped syncer itself: the relay goes on, in bounded memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.sourcelog.relaylog.layout import RelayDirectory, file_number
from tests.live.relay.relaying import has_reached, wait_until
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import RelayProcess, SyncProcess, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

MIB = 1 << 20
ROWS, ROW_SIZE = 16, 4096
FROZEN_SECONDS = 60
BYTES_PER_SECOND = 5_000_000


class Writer:
    """Transactions of 64 KiB on the source."""

    def __init__(self, source: ThrowawayServer, schema: str) -> None:
        source.execute(f"CREATE TABLE {schema}.a (id INT PRIMARY KEY, b BLOB)")
        self._cursor = source.connect().cursor()
        self._schema = schema
        self.rows = 0

    def write(self, transactions: int) -> None:
        for _ in range(transactions):
            ids = range(self.rows, self.rows + ROWS)
            self.rows += ROWS
            values = ", ".join(f"({id_}, REPEAT(SHA2({id_}, 256), {ROW_SIZE // 64}))" for id_ in ids)
            self._cursor.execute(f"INSERT INTO {self._schema}.a VALUES {values}")


@contextmanager
def replicating(
    subtask: SubtaskConfig, target: ThrowawayServer, root: Path
) -> Iterator[tuple[RelayProcess, SyncProcess]]:
    relay = RelayProcess(subtask.source, root)
    sync = SyncProcess(subtask, relay_directory=root)
    try:
        sync.wait_synced()
        yield relay, sync
    finally:
        target.thaw()
        sync.thaw()
        sync.close()
        relay.close()


def with_quota(subtask: SubtaskConfig, quota: int) -> SubtaskConfig:
    """The same task with a quota of so many bytes."""
    syncer = subtask.syncer.model_copy(update={"memory_quota": quota})
    return subtask.model_copy(update={"syncer": syncer})


def test_the_relay_goes_on_and_the_reader_catches_up(
    server: ServerFactory, upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory, tmp_path: Path
) -> None:
    target = server(flavor)
    name = schema(upstream, target)
    writer = Writer(upstream, name)
    target.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY, b BLOB)")
    subtask = with_quota(subtask_for(upstream, target, name, task=name), MIB)
    with replicating(subtask, target, tmp_path) as (_, sync):
        writer.write(2)
        sync.wait_synced()
        target.freeze()
        writer.write(100)  # more than six times the quota
        wait_until(lambda: has_reached(tmp_path, upstream), "the relay to reach a source whose target is frozen")
        target.thaw()
        sync.wait_synced()
        sync.freeze()
        writer.write(30)
        wait_until(lambda: has_reached(tmp_path, upstream), "the relay to reach a source while its reader is stopped")
        sync.thaw()
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


def memory(pid: int) -> dict[str, int]:
    """Resident bytes of a process, and its share of them where pages belong to several."""
    found: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size, *_ = line.split()
        if name in {"Rss:", "Pss:"}:
            found[name[:-1].lower()] = int(size) << 10
    return found


class LagMeter:
    """How far the relay's newest file is behind the source's: an upper bound in seconds, by one interval too high."""

    def __init__(self, source: ThrowawayServer, root: Path) -> None:
        self._source, self._root = source, root
        self._waiting: deque[tuple[float, tuple[int, int]]] = deque()  # the source's ends that are not relayed yet
        self._base = str(source.query("SHOW BINARY LOGS")[-1][0]).rpartition(".")[0]
        self.greatest = 0.0
        self.samples = 0
        self._before = time.monotonic()

    def sample(self) -> None:
        before, self._before = self._before, time.monotonic()
        names = [path.name for path in Path(self._source.data).glob(f"{self._base}.[0-9]*")]
        newest = max(names, key=file_number)
        # What is there now and was not at the last sample may be as old as that.
        self._waiting.append((before, (file_number(newest), (Path(self._source.data) / newest).stat().st_size)))
        sub = RelayDirectory(self._root).last()
        assert sub is not None
        file = sub.files()[-1]
        relayed = (file_number(file), sub.file(file).stat().st_size)
        while self._waiting and self._waiting[0][1] <= relayed:
            self._waiting.popleft()
        self.samples += 1
        if self._waiting:
            self.greatest = max(self.greatest, time.monotonic() - self._waiting[0][0])


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_a_minute_of_a_frozen_target(
    server: ServerFactory, flavor: Flavor, schema: SchemaFactory, tmp_path: Path
) -> None:
    source, target = server(flavor), server(flavor)
    name = schema(source, target)
    writer = Writer(source, name)
    target.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY, b BLOB)")
    quota = 128 * MIB
    subtask = with_quota(subtask_for(source, target, name, task=name), quota)
    with replicating(subtask, target, tmp_path) as (relay, sync):
        writer.write(16)
        sync.wait_synced()
        pids = {"relay": relay.process.pid, "syncer": sync.process.pid}
        before = {unit: memory(pid) for unit, pid in pids.items()}
        most = {unit: dict(found) for unit, found in before.items()}
        most_together = sum(found["pss"] for found in before.values())
        meter = LagMeter(source, tmp_path)
        frozen_over = threading.Event()

        def load() -> None:
            begin, count = time.monotonic(), 0
            while not frozen_over.is_set():
                writer.write(1)
                count += ROWS * ROW_SIZE
                frozen_over.wait(max(0.0, begin + count / BYTES_PER_SECOND - time.monotonic()))

        target.freeze()
        loader = threading.Thread(target=load)
        loader.start()
        rows, began = writer.rows, time.monotonic()
        while time.monotonic() < began + FROZEN_SECONDS:
            meter.sample()
            found = {unit: memory(pid) for unit, pid in pids.items()}
            most_together = max(most_together, sum(each["pss"] for each in found.values()))
            for unit, each in found.items():
                most[unit] = {kind: max(size, most[unit][kind]) for kind, size in each.items()}
            time.sleep(0.05)
        frozen_over.set()
        loader.join()
        rate = (writer.rows - rows) * ROW_SIZE / (time.monotonic() - began)
        target.thaw()
        sync.wait_synced(600)
    growth = most_together - sum(found["pss"] for found in before.values())
    bound = round(quota * 1.1)
    record(
        f"relay.frozen_target.{flavor}",
        {
            "frozen_seconds": FROZEN_SECONDS,
            "source_bytes_per_second": round(rate),
            "greatest_relay_lag_seconds": round(meter.greatest, 3),
            "lag_samples": meter.samples,
            "memory_growth_bytes_pss_relay_and_syncer": growth,
            "memory_growth_bytes_rss_relay": most["relay"]["rss"] - before["relay"]["rss"],
            "memory_growth_bytes_rss_syncer": most["syncer"]["rss"] - before["syncer"]["rss"],
            "memory_bound_bytes": bound,
        },
    )
    assert rate >= BYTES_PER_SECOND * 0.9
    assert meter.greatest < 2
    assert growth < bound
    report = compare(pair_tables([source], [name]), target)
    assert report.identical, str(report)
