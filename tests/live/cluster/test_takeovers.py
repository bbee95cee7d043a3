"""Sources change hands while applications write and alter: by kills, members that freeze, and links that are cut.

Three members are in network namespaces of their own (`tests/testbed/namespaces.py`), with an etcd, two sources and a
target. After each fault a row that is written later has to come to the target, whoever brings it. In the end all rows
are as at the sources, those without a key exactly once, and no more runs began than the faults explain. No run has
committed after a newer one of its source, from the first commit to the last, and each belongs to one member
(`tests/testbed/committed_runs.py`).
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from dm.cluster.lease import LEASE_SECONDS
from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.live.worker.test_way_back import end_of
from tests.testbed import figures
from tests.testbed.cluster import Cluster, login
from tests.testbed.committed_runs import binlog_names, committed_runs
from tests.testbed.daemon import Daemon
from tests.testbed.etcd import EtcdServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.namespaces import Namespace, not_permitted
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(7200)]

SOURCES: Final = ("one", "two")
RELAYED: Final = "two"  # the other one is read from the source itself
MEMBERS: Final = ("a", "b", "c")
FAULTS: Final = (
    "killed",
    "stopped",
    "frozen",
    "cut from etcd",
    "cut from all",
    "cut from the target",
    "cut from others",
)
# Runs of each source that a fault may begin: a late one may end that of the rightful owner, which comes back.
_RUNS_OF_A_FAULT: Final = 3
_TASK: Final = "t"


class Workload:
    """Writes rows with and without a key at one source until it is ended, and alters the table."""

    def __init__(self, server: ThrowawayServer, schema: str, source: str, seed: int) -> None:
        self._server = server
        self._keyed, self._keyless = f"{schema}.{source}_keyed", f"{schema}.{source}_keyless"
        self._mark = f"{schema}.{source}_mark"
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"workload {source}", daemon=True)
        self.marks = 0
        self._number = self._columns = 0

    @staticmethod
    def tables(schema: str, source: str) -> list[str]:
        """Their definitions."""
        return [
            f"CREATE TABLE {schema}.{source}_keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20))",
            f"CREATE TABLE {schema}.{source}_keyless (a INT, b VARCHAR(20))",
            f"CREATE TABLE {schema}.{source}_mark (id INT PRIMARY KEY)",
        ]

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Write no more; raises what made it end before."""
        self._stop.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def mark(self) -> int:
        """A row that is to arrive."""
        self.marks += 1
        self._server.execute(f"INSERT INTO {self._mark} VALUES ({self.marks})")
        return self.marks

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.05):
                self._write()
        except BaseException as error:
            self._failed = error

    def _write(self) -> None:
        self._number += 1
        number, chance = self._number, self._chance
        some = chance.randrange(1, number + 1)
        self._server.execute(
            "BEGIN",
            f"INSERT INTO {self._keyed} (id, v, t) VALUES ({number}, {number}, 'x')",
            f"UPDATE {self._keyed} SET v = v + 1 WHERE id = {some}",
            f"INSERT INTO {self._keyless} (a, b) VALUES ({some}, 'same'), ({some}, 'same')",
            f"DELETE FROM {self._keyless} WHERE a = {chance.randrange(1, number + 1)} LIMIT 1",
            "COMMIT",
        )
        if number % 200 == 0:
            self._columns += 1
            for table in (self._keyed, self._keyless):
                self._server.execute(f"ALTER TABLE {table} ADD COLUMN c{self._columns} INT DEFAULT {self._columns}")


class Hosts(Cluster):
    """Members in namespaces."""

    def __init__(self, directory: Path, etcd: EtcdServer, servers: dict[str, PrivateServer]) -> None:
        super().__init__(directory, etcd)
        self.etcd_port = int(etcd.endpoint.rpartition(":")[2])
        self.server_ports = {name: server.port for name, server in servers.items()}
        self.spaces: dict[str, Namespace] = {}

    @contextmanager
    def namespaces(self) -> Iterator[None]:
        """Those of all members, with all links."""
        with ExitStack() as stack:
            self.spaces = {name: stack.enter_context(Namespace(name)) for name in MEMBERS}
            for name, space in self.spaces.items():
                for port in (self.etcd_port, *self.server_ports.values()):
                    space.reach(port)
                for other in MEMBERS:
                    if other != name:
                        space.reach(self.port(other), self.spaces[other])
            stack.callback(self._kill)
            yield

    def _kill(self) -> None:
        for member in self.members.values():
            self._signal(member, signal.SIGCONT)
            member.kill()

    def daemon(self, name: str) -> Daemon:
        return Daemon(self.directory / name, prefix=self.spaces[name].prefix)

    @staticmethod
    def _signal(member: Daemon, number: signal.Signals) -> None:
        if member.running:
            for pid in (member.pid, *member.hosts().values()):
                os.kill(pid, number)

    def strike(self, name: str, fault: str) -> None:
        """From now on it is so."""
        member, space = self.members[name], self.spaces[name]
        others = [self.port(other) for other in MEMBERS if other != name]
        match fault:
            case "killed":
                member.kill()
            case "stopped":
                member.stop()
            case "frozen":
                self._signal(member, signal.SIGSTOP)
            case "cut from etcd":
                space.cut(self.etcd_port)
            case "cut from all":
                space.cut(self.etcd_port, *self.server_ports.values(), *others)
            case "cut from the target":
                space.cut(self.server_ports["target"])
            case _:
                space.cut(*others)

    def heal(self, name: str, fault: str) -> None:
        """All is well again."""
        if fault in ("killed", "stopped"):
            self.start(name)
        elif fault == "frozen":
            self._signal(self.members[name], signal.SIGCONT)
        else:
            self.spaces[name].mend()


class Scene:
    """A task over both sources, with its workload."""

    def __init__(
        self, hosts: Hosts, upstreams: tuple[ThrowawayServer, ...], target: ThrowawayServer, schema: str, seed: int
    ) -> None:
        self.hosts, self.upstreams, self.target, self.schema = hosts, upstreams, target, schema
        self.workloads = {
            source: Workload(server, schema, source, seed) for source, server in zip(SOURCES, upstreams, strict=True)
        }
        self.seconds: dict[str, list[float]] = {}
        self.faults = self.moves = 0
        self._first_file = ""  # of the target's binlog

    def begin(self) -> None:
        hosts = self.hosts
        self.target.execute("FLUSH BINARY LOGS")
        self._first_file = binlog_names(self.target)[-1]
        for source, server in zip(SOURCES, self.upstreams, strict=True):
            for definition in Workload.tables(self.schema, source):
                server.execute(definition)
                self.target.execute(definition)
        hosts.start(*MEMBERS)
        files = [
            hosts.file(
                f"{source}.yaml",
                {"source-id": source, "from": login(server), "enable-relay": source == RELAYED},
            )
            for source, server in zip(SOURCES, self.upstreams, strict=True)
        ]
        hosts["a"].must("operate-source", "create", *files)
        hosts.until_owned("b", dict.fromkeys(SOURCES))
        hosts["a"].must("start-task", self._file())
        for each in self.workloads.values():
            each.start()
        self.arrive(SOURCES)

    def _file(self) -> str:
        instances = [
            {
                "source-id": source,
                "block-allow-list": source,
                "meta": {"binlog-name": (end := end_of(server)).binlog_name, "binlog-pos": end.binlog_pos},
            }
            for source, server in zip(SOURCES, self.upstreams, strict=True)
        ]
        lists = {source: {"do-tables": [{"db-name": self.schema, "tbl-name": f"{source}_*"}]} for source in SOURCES}
        return self.hosts.file(
            "task.yaml",
            {
                "name": _TASK, "task-mode": "incremental", "meta-schema": f"meta_{self.schema}",
                "target-database": login(self.target), "mysql-instances": instances, "block-allow-list": lists,
            },
        )  # fmt: skip

    def arrive(self, sources: tuple[str, ...]) -> float:
        """Rows that are written now come to the target; in so many seconds."""
        began = time.monotonic()
        wanted = {source: self.workloads[source].mark() for source in sources}

        def there() -> bool:
            return all(
                self.target.query(f"SELECT COUNT(*) FROM {self.schema}.{source}_mark WHERE id = {mark}")[0][0]
                for source, mark in wanted.items()
            )

        wait_until(there, f"rows of {sources} are at the target", 300)
        return time.monotonic() - began

    def take_over(self, fault: str, source: str) -> None:
        """One fault at the owner of a source, until it is over and everything runs."""
        hosts = self.hosts
        owners = hosts.owners(MEMBERS[0])
        name = owners[source]
        hit = tuple(source for source, owner in owners.items() if owner == name)
        witness = next(other for other in MEMBERS if other != name)
        self.faults += 1
        hosts.strike(name, fault)
        for server in self.upstreams:  # what is not applied yet is not in the newest file
            server.execute("FLUSH BINARY LOGS")
        moves = fault not in ("cut from the target", "cut from others")
        if moves:
            self.moves += 1
            self.seconds.setdefault(fault, []).append(self.arrive(hit))
            wait_until(lambda: self._moved(witness, name), f"the sources of {name} move", 180)
        elif fault == "cut from others":
            self.seconds.setdefault(fault, []).append(self.arrive(hit))  # nobody needs them for that
        else:
            for other in SOURCES:
                if other not in hit:
                    self.arrive((other,))
            wait_until(self._past_a_lease(), "a lease has gone by", 120)
            assert hosts.owners(witness) == owners, "a member that lacks the target only keeps its sources"
        hosts.heal(name, fault)
        self.arrive(SOURCES)
        wait_until(self._one_each, "each source runs at one member only", 180)

    @staticmethod
    def _past_a_lease() -> Callable[[], bool]:
        over = time.monotonic() + LEASE_SECONDS + 3
        return lambda: time.monotonic() > over

    def _moved(self, witness: str, name: str) -> bool:
        """Whether a member sees all sources at others than this one."""
        owners = self._owners(witness)
        return owners.keys() == {*SOURCES} and name not in owners.values()

    def _owners(self, at: str) -> dict[str, str]:
        """As a member sees it; nothing as long as it can't tell."""
        with suppress(ValueError, KeyError, IndexError):
            return self.hosts.owners(at)
        return {}

    def _one_each(self) -> bool:
        """Whether all members agree, and each source's task runs at its owner."""
        seen = [self._owners(name) for name in MEMBERS]
        return all(each.keys() == {*SOURCES} and each == seen[0] for each in seen) and all(
            self._status(source).get("stage") == "Running" for source in SOURCES
        )

    def _status(self, source: str) -> dict[str, Any]:
        """Of the task on a source, as any member tells it; nothing as long as its owner does not answer."""
        with suppress(DMError, KeyError):
            return self.hosts[MEMBERS[0]].status(_TASK)[source]
        return {}

    def reads_relay(self, source: str) -> bool:
        """Whether the syncer of a source reads relay files."""
        sync = self._status(source).get("sync")
        return isinstance(sync, dict) and sync.get("binlogType") == "local"

    def finish(self) -> None:
        """All that was written is there, and no more than that."""
        for each in self.workloads.values():
            each.end()
        self.arrive(SOURCES)
        pairs = pair_tables(list(self.upstreams), [self.schema])
        wait_until(lambda: compare(pairs, self.target).identical, "all rows are at the target", 120)
        report = compare(pairs, self.target)
        assert report.identical, str(report)
        worker = f"`meta_{self.schema}`.`{_TASK}_syncer_worker`"
        for source in SOURCES:
            epochs = {row[0] for row in self.target.query(f"SELECT epoch FROM {worker} WHERE id = '{source}'")}
            assert len(epochs) == 1
            assert int(*epochs) <= 1 + _RUNS_OF_A_FAULT * self.faults, "members fought"
        runs = committed_runs(self.target, self._first_file, f"meta_{self.schema}", _TASK)
        assert runs.commits.keys() == {*SOURCES}
        assert not runs.late(), "two owners of a source have committed in turn"
        assert not runs.unowned()
        assert sum(runs.changes(source) for source in SOURCES) >= self.moves


@pytest.fixture
def scene(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    own_etcd: EtcdServer,
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
) -> Iterator[tuple[Scene, random.Random]]:
    if why := not_permitted():
        pytest.skip(why)
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    servers: dict[str, PrivateServer] = {**dict(zip(SOURCES, upstreams, strict=True)), "target": target}
    hosts = Hosts(tmp_path / "hosts", own_etcd, servers)
    with hosts, hosts.namespaces():
        made = Scene(hosts, upstreams, target, schema(*upstreams, target), seed)
        made.begin()
        try:
            yield made, random.Random(seed)
        finally:
            for each in made.workloads.values():
                each.end()


@pytest.mark.ci_flavor("mysql")
def test_a_member_that_was_frozen_beyond_its_lease_finds_its_source_with_another(
    scene: tuple[Scene, random.Random],
) -> None:
    made, _ = scene
    made.take_over("frozen", RELAYED)
    wait_until(lambda: made.reads_relay(RELAYED), "the new relay begins where the task is", 180)
    made.finish()


@pytest.mark.chaos
def test_a_hundred_takeovers(scene: tuple[Scene, random.Random]) -> None:
    made, chance = scene
    count = int(os.environ.get("TAKEOVERS", "100"))
    for number in range(count):
        made.take_over(FAULTS[number % len(FAULTS)], chance.choice(SOURCES))
    made.finish()
    moved = [seconds for fault in FAULTS[:5] for seconds in made.seconds.get(fault, [])]
    figures.record(
        "hosts.takeovers",
        {
            "takeovers": count,
            "without_progress_p50_s": round(statistics.median(moved), 1),
            "without_progress_worst_s": round(max(moved), 1),
            **{f"worst_{fault.replace(' ', '_')}_s": round(max(each), 1) for fault, each in made.seconds.items()},
        },
    )
