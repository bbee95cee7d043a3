"""Long life: many tasks on one daemon, for an hour, and nothing grows that is bounded.

`make chaos PART=soak` runs 100 tasks over ten sources for an hour; SOAK_MINUTES, SOAK_TASKS and SOAK_SOURCES make it
smaller. Every other source has a relay. Meanwhile rows are written, tables altered, binlogs and logs rotated, relays
and sources purged, tasks paused and resumed, hosts killed and the daemon restarted; Prometheus scrapes it, and the page
is read. In the end every table is equal, and memory, threads, descriptors and disk have stayed within what is
configured.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pymysql
import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.soak.footprint import MIB, Bounds, Footprint
from tests.testbed import figures
from tests.testbed.daemon import Daemon
from tests.testbed.page_reader import PageReader
from tests.testbed.park import ServerPark
from tests.testbed.prometheus import Prometheus

MINUTES = float(os.environ.get("SOAK_MINUTES") or 60)
TASKS = int(os.environ.get("SOAK_TASKS") or 100)
SOURCES = int(os.environ.get("SOAK_SOURCES") or 10)
STEP_SECONDS = 3.0
ROWS_A_STEP = 20  # of each source

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(int(MINUTES * 60 * 2 + 3600))]

PASSWORD = "canary-secret-50a4"
QUOTA = 16 * MIB
BOUNDS = Bounds(QUOTA, 256 * 1024, 3, relay=SOURCES * 64 * MIB, history=64 * MIB, rest=(64 + TASKS) * MIB)


@dataclass
class Soak:
    """The daemon, its sources and what is done to them."""

    daemon: Daemon
    sources: list[ThrowawayServer]
    target: ThrowawayServer
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    columns: dict[str, int] = field(default_factory=dict)  # how many were added, by task
    rows: int = 0

    def source_of(self, task: str) -> ThrowawayServer:
        return self.sources[int(task[1:]) % SOURCES]

    def start(self) -> None:
        directory = self.daemon.directory
        for number, server in enumerate(self.sources):
            relay = "true" if number % 2 == 0 else "false"
            (directory / f"s{number}.yaml").write_text(
                f"source-id: s{number}\nenable-gtid: true\nenable-relay: {relay}\nfrom: {{host: 127.0.0.1,"
                f" port: {server.port}, user: dm, password: {PASSWORD}}}\nchecker: {{backoff-max: 2s}}\n"
            )
            self.daemon.must("operate-source", "create", f"s{number}.yaml")
        for number in range(TASKS):
            name = f"t{number}"
            for server in (self.source_of(name), self.target):
                server.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(200))")
            (directory / f"{name}.yaml").write_text(
                f"name: {name}\ntask-mode: incremental\nignore-checking-items: [all]\n"
                f"target-database: {{host: 127.0.0.1, port: {self.target.port}, user: dm, password: {PASSWORD}}}\n"
                f"mysql-instances: [{{source-id: s{number % SOURCES}, block-allow-list: b, syncer-config-name: s}}]\n"
                f"block-allow-list: {{b: {{do-dbs: [{name}]}}}}\n"
                f"syncers: {{s: {{worker-count: 2, memory-quota: {QUOTA}}}}}\n"
            )
            self.daemon.must("start-task", f"{name}.yaml")

    def step(self) -> None:
        """Rows everywhere, and one of the other things."""
        for number, server in enumerate(self.sources):
            tasks = [f"t{one}" for one in range(number, TASKS, SOURCES)]
            connection = server.connect(autocommit=True)
            with connection, connection.cursor() as cursor:
                for _ in range(ROWS_A_STEP):
                    self.rows += 1
                    task, key = self.chance.choice(tasks), self.chance.randrange(5000)
                    cursor.execute(f"REPLACE INTO {task}.t (id, v) VALUES (%s, REPEAT(%s, 150))", (key, self.rows % 10))
        task = f"t{self.chance.randrange(TASKS)}"
        what = self.chance.choices(("alter", "rotate", "purge", "rest", "kill", "restart"), (30, 20, 15, 20, 10, 2))[0]
        self.done[what] += 1
        getattr(self, f"_{what}")(task)

    def _alter(self, task: str) -> None:
        count = self.columns.get(task, 0)
        if count < 5:
            self.source_of(task).execute(f"ALTER TABLE {task}.t ADD c{count} INT DEFAULT {count}")
        else:
            self.source_of(task).execute(f"ALTER TABLE {task}.t " + ", ".join(f"DROP c{one}" for one in range(5)))
        self.columns[task] = (count + 1) % 6

    def _rotate(self, task: str) -> None:
        self.source_of(task).execute("FLUSH BINARY LOGS")

    def _purge(self, task: str) -> None:
        """The oldest files of the source where a relay has them, and the relay's before its newest."""
        number = int(task[1:]) % SOURCES
        if number % 2:
            return
        status = self.daemon.said("operate-source", "show", "--output", "json").json()["sources"]
        relay = next(one["relayStatus"] or {} for one in status if one["source"] == f"s{number}")
        place = re.fullmatch(r"\((\S+), \d+\)", relay.get("relayBinlog", ""))
        if place is not None:
            self.daemon.said("purge-relay", "-s", f"s{number}", "--filename", place[1])
            with suppress(pymysql.err.OperationalError):  # an earlier one has purged that file, too
                self.sources[number].execute(f"PURGE BINARY LOGS TO '{place[1]}'")

    def _rest(self, task: str) -> None:
        if self.daemon.said("pause-task", task).status == 0:
            self.daemon.said("resume-task", task)

    def _kill(self, _task: str) -> None:
        hosts = self.daemon.hosts()
        if hosts:
            os.kill(self.chance.choice(sorted(hosts.values())), 9)

    def _restart(self, _task: str) -> None:
        self.daemon.stop()
        self.daemon.start(*PORTS)

    def settled(self) -> None:
        """Everything written is at the target; a task that rests is an error here."""
        for number in range(TASKS):
            self.daemon.wait(
                f"t{number}", lambda status: all(_is_synced(one) for one in status.values()), "synced", seconds=600
            )

    def different(self) -> list[str]:
        found = []
        for number in range(TASKS):
            name = f"t{number}"
            sums = [server.query(f"CHECKSUM TABLE {name}.t")[0][1] for server in (self.source_of(name), self.target)]
            if sums[0] != sums[1]:
                found.append(name)
        return found


PORTS = ("--metrics-addr", "127.0.0.1:0", "--listen", "127.0.0.1:0")


def _is_synced(status: dict[str, object]) -> bool:
    assert status["stage"] != "Paused" or not _lasting(status), json.dumps(status["result"])
    sync = status.get("sync")
    return isinstance(sync, dict) and sync.get("synced") is True


def _lasting(status: dict[str, object]) -> bool:
    """An error that is not tried again by itself."""
    result = status["result"]
    return isinstance(result, dict) and bool(result.get("errors")) and "again" not in str(result.get("detail"))


@pytest.fixture
def soak(park: ServerPark, tmp_path: Path) -> Iterator[Soak]:
    small = {"innodb_buffer_pool_size": 32 * MIB, "max_connections": 2000}
    servers = [park.own("mariadb", gtid=True, options=small).start() for _ in range(SOURCES + 1)]
    for server in servers:
        server.create_user("dm", PASSWORD, "ALL ON *.*")
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    one = Soak(Daemon(tmp_path, fresh=True), servers[:-1], servers[-1], random.Random(seed))
    one.daemon.start(*PORTS)
    size = BOUNDS.log_file >> 10
    one.daemon.must("config", "worker", "--log-max-size", f"{size}K", "--log-max-backups", str(BOUNDS.log_files - 1))
    one.start()
    yield one
    one.daemon.stop()
    for server in servers:
        server.destroy()


def _scraped(soak: Soak, directory: Path) -> Prometheus:
    """Its port changes with each start of the daemon, so it is told by a file."""
    directory.mkdir()
    targets = directory / "targets.json"

    def tell() -> None:
        while True:
            ports = re.findall(r'"metrics": "([^"]+)"', soak.daemon.log.read_text(encoding="utf-8"))
            targets.write_text(json.dumps([{"targets": ports[-1:]}]), encoding="utf-8")
            time.sleep(1)

    threading.Thread(target=tell, daemon=True).start()
    return Prometheus(directory).start(
        "global: {scrape_interval: 15s, scrape_timeout: 12s}\nscrape_configs:\n  - {job_name: dm, authorization:"
        f" {{credentials_file: {soak.daemon.home / 'metrics-token'}}}, file_sd_configs: [{{files: [{targets}],"
        " refresh_interval: 1s}]}\n"
    )


def test_nothing_grows_that_is_bounded(soak: Soak, tmp_path: Path) -> None:
    prometheus = _scraped(soak, tmp_path / "prometheus")
    token = soak.daemon.must("token", "create", "watcher").out.strip()
    began = time.monotonic()
    soak.settled()
    warm, most, problems, steps = None, Counter[str](), list[str](), 0
    while time.monotonic() < began + MINUTES * 60:
        soak.step()
        steps += 1
        elapsed = time.monotonic() - began
        if steps % 5 == 0:
            with PageReader(soak.daemon.log, token) as reader:
                for path in ("", f"tasks/t{soak.chance.randrange(TASKS)}", "sources", "timeline"):
                    assert reader.read(path)
                    soak.done["page"] += 1
        if steps % 5 == 0 and elapsed > MINUTES * 60 * 0.2:
            now = Footprint.of(soak.daemon)
            warm = warm or now
            problems += BOUNDS.broken(warm, now)
            for what in ("own", "threads", "descriptors"):
                most[what] = max(most[what], now.total(what))
            for what in ("logs", "relay", "history", "rest"):
                most[what] = max(most[what], getattr(now, what))
        time.sleep(STEP_SECONDS)
    soak.settled()
    assert warm is not None
    end = Footprint.of(soak.daemon)
    problems += BOUNDS.broken(warm, end)
    ((_, scrapes),) = prometheus.query('sum(count_over_time(up{job="dm"}[1d]))')
    ((_, answered),) = prometheus.query('sum(sum_over_time(up{job="dm"}[1d]))')
    prometheus.stop()
    figures.record(
        "soak",
        {
            "minutes": round((time.monotonic() - began) / 60, 1), "tasks": TASKS, "sources": SOURCES, "steps": steps,
            "rows": soak.rows, **{f"times: {what}": count for what, count in sorted(soak.done.items())},
            "scrapes": int(scrapes), "scrapes answered": int(answered),
            "processes": len(end.processes),
            "MiB, own memory of all, warm": warm.total("own") >> 20,
            "MiB, own memory of all, end": end.total("own") >> 20,
            "MiB, own memory of a syncer at the end, about": round(
                sum(one.own for name, one in end.processes.items() if name.startswith("sync:")) / MIB / TASKS, 1
            ),
            **{f"{what}, {when}": one.total(what)
               for what in ("threads", "descriptors") for when, one in (("warm", warm), ("end", end))},
            **{f"KiB on disk, {what}, most": most[what] >> 10 for what in ("logs", "relay", "history", "rest")},
            "problems": [*problems],
        },
    )  # fmt: skip
    assert soak.different() == []
    assert sorted({*problems}) == []
    assert answered > 0.5 * scrapes, "a daemon that is restarted misses some"
