"""Full dump and full load beside mydumper and myloader: sysbench's table, and 20 mixed columns with JSON.

Ours is compressed Parquet; the goals are those of mydumper with compression (speed, and size on disk) and without. Both
read one moment of the source under its own global lock, cut tables into chunks of the same number of rows, and write
into one target with a binlog. mydumper 0.10 cuts by what EXPLAIN estimates, which it finds in a table; MySQL 9.7
answers with a tree unless it is told otherwise, and one thread would do all the work of the dump and of the load. The
servers offer no TLS: dm takes it wherever it is offered, mydumper does not ask, and what encryption costs is not what
is compared. Ours runs in one Spark session, which is there before the clock starts, its Python workers included. Rows
beyond the first 100,000 are copies of these under other keys: so far from each other that no compression sees it. The
target admits LOAD DATA LOCAL, which dm uses where it may. After each load the tables are compared by CHECKSUM TABLE:
ours must be the same, and myloader's is told (it loses digits of FLOAT, which its dump has not got).
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import Comparison, Cost, Series, apart, run_program, server_seconds, tree_seconds
from benchmarks.recording import SCHEMA, SOURCE_OPTIONS, TARGET_OPTIONS
from benchmarks.spark_process import SparkProcess
from benchmarks.workload import WORKLOADS, Transaction, narrow_rows, play, wide_rows
from dm.config.endpoint import Endpoint, Security
from dm.config.rules import BlockAllowList
from dm.config.source import SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import Option, ThrowawayServer
from dm.unit import JSON
from tests.testbed.sync import endpoint_of

PEERS = ("mydumper", "myloader")
COMPRESSED, PLAIN, SIZE, LOAD = 5.0, 0.6, 1.0, 1.5  # design's goals
_CHUNKS = 8
_LEAST_CHUNK = 10_000
_MADE = 100_000  # rows
_THREADS = 4  # both programs' default
_MB = 1e6
_DEFAULTS: Mapping[str, JSON] = {}
_NO_TLS: Mapping[str, Option] = {"tls_version": ""}
_EXPLAIN: Mapping[str, Option] = {"explain_format": "TRADITIONAL"}  # which mydumper can read
_DUMP_OPTIONS: Mapping[str, Option] = {**SOURCE_OPTIONS, **_NO_TLS, **_EXPLAIN}
_LOAD_OPTIONS: Mapping[str, Option] = {**TARGET_OPTIONS, **_NO_TLS, "local_infile": 1}


@dataclass(frozen=True, slots=True)
class FullTable:
    """A table that is dumped and loaded; `rows` are those of scale 1."""

    name: str
    what: str
    create: str
    fill: Callable[[random.Random, int], Iterator[Transaction]]
    rows: int
    dump_with: Mapping[str, JSON] = field(default_factory=dict)  # options of `spark` with which it is dumped as well
    load_with: Mapping[str, JSON] = field(default_factory=dict)  # and loaded


SYSBENCH = FullTable(
    "sysbench", "sysbench rows", WORKLOADS["A"].create, narrow_rows, 1_000_000, load_with={"defer_indexes": False}
)
WIDE = FullTable("wide", "wide rows", WORKLOADS["C"].create, wide_rows, 300_000, dump_with={"json_types": "text"})


@dataclass(frozen=True, slots=True)
class Filled:
    """Such a table in a schema of its own on the source."""

    table: FullTable
    schema: str
    rows: int

    @property
    def chunk(self) -> int:
        """Rows of a chunk, for both programs."""
        return max(_LEAST_CHUNK, self.rows // _CHUNKS)


def fill(source: ThrowawayServer, table: FullTable, rows: int) -> Filled:
    """Write the table's rows into a schema named after it and their number."""
    filled = Filled(table, f"{SCHEMA}_{table.name}_{rows}", rows)
    with closing(source.connect()) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(f"CREATE DATABASE {filled.schema}")
            cursor.execute(table.create.replace("{name}", f"{filled.schema}.t"))
        made = min(rows, _MADE)
        play(connection, f"{filled.schema}.t", table.fill(random.Random(table.name), made))
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {filled.schema}.t LIMIT 0")
            key, *others = [column[0] for column in cursor.description]
            while made < rows:
                more = min(made, rows - made)
                values = ", ".join([f"{key} + {made}", *others])
                cursor.execute(
                    f"INSERT INTO {filled.schema}.t ({', '.join([key, *others])})"
                    f" SELECT {values} FROM {filled.schema}.t WHERE {key} <= {more}"
                )
                cursor.execute("COMMIT")
                made += more
            cursor.execute(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {filled.schema}.t")  # what it says is from the beginning
    return filled


def missing_peer() -> str | None:
    """The program that is not installed."""
    return next((peer for peer in PEERS if shutil.which(peer) is None), None)


@dataclass
class Servers:
    """Source and target, where dumps go, and what the peer does there."""

    source: ThrowawayServer
    target: ThrowawayServer
    directory: Path

    def dump_peer(self, filled: Filled, *options: str) -> tuple[Cost, Path]:
        """mydumper's dump."""
        directory = _empty(self.directory / f"{filled.schema}.mydumper{''.join(options)}")
        before = server_seconds(self.source)
        command = ("mydumper", *self._login(self.source), f"--outputdir={directory}", f"--rows={filled.chunk}")
        done = run_program((*command, f"--database={filled.schema}", *options))
        return Cost(done.cost.wall, done.cost.client, server_seconds(self.source) - before), directory

    def load_peer(self, filled: Filled, directory: Path) -> Cost:
        """myloader's load of mydumper's dump, into the binlog as ours."""
        self.forget(filled)
        before = server_seconds(self.target)
        done = run_program(("myloader", *self._login(self.target), f"--directory={directory}", "--enable-binlog"))
        return Cost(done.cost.wall, done.cost.client, server_seconds(self.target) - before)

    def same(self, filled: Filled) -> bool:
        """Whether source and target have the same sum of the table."""
        question = f"CHECKSUM TABLE {filled.schema}.t"
        found = [server.query(question)[0][1] for server in (self.source, self.target)]
        return found[0] is not None and found[0] == found[1]

    def forget(self, filled: Filled) -> None:
        """Drop what is loaded at the target."""
        self.target.execute(*(f"DROP DATABASE IF EXISTS {kind}{filled.schema}" for kind in ("", "meta_")))

    def subtask(self, filled: Filled, options: Mapping[str, JSON]) -> SubtaskConfig:
        """A full task with defaults but for the size of a chunk and these options of `spark`."""
        config = SubtaskConfig(
            task=f"bench_{filled.schema}",
            source=SourceConfig(source_id="bench", endpoint=_without_tls(self.source)),
            mode="full",
            target=_without_tls(self.target),
            meta_schema=f"meta_{filled.schema}",
            block_allow_list=BlockAllowList(do_dbs=(filled.schema,)),
            clean_dump_file=False,
        )
        dumper, spark = config.dumper.model_copy(update={"rows": filled.chunk}), config.spark.model_copy(update=options)
        return config.model_copy(update={"dumper": dumper, "spark": spark})

    def _login(self, server: ThrowawayServer) -> tuple[str, ...]:
        file = self.directory / f"{server.port}.cnf"
        file.touch(mode=0o600)
        file.write_text(f"[client]\npassword={server.password}\n", encoding="utf-8")
        where = (f"--host={server.host}", f"--port={server.port}", f"--user={server.user}")
        return (f"--defaults-file={file}", *where, f"--threads={_THREADS}")


@dataclass
class Place(Servers):
    """With dm's process."""

    ours: SparkProcess

    def dump(self, filled: Filled, options: Mapping[str, JSON] = _DEFAULTS) -> tuple[Cost, Path]:
        """dm's dump."""
        directory = _empty(self.directory / f"{filled.schema}.dm{''.join(options)}")
        return self._run("Dump", self.subtask(filled, options), directory, self.source), directory

    def load(self, filled: Filled, directory: Path, options: Mapping[str, JSON] = _DEFAULTS) -> Cost:
        """dm's load of it; the target's table is the source's to the last bit."""
        self.forget(filled)
        cost = self._run("Load", self.subtask(filled, options), directory, self.target)
        if not self.same(filled):
            raise RuntimeError(f"{filled.schema}: the loaded table differs")
        return cost

    def _run(self, unit: str, subtask: SubtaskConfig, directory: Path, server: ThrowawayServer) -> Cost:
        """Run `Dump` or `Load` to its end; the server is the one whose CPU counts."""
        client, busy = tree_seconds(self.ours.pid), server_seconds(server)
        wall = float(self.ours.ask({"unit": unit, "subtask": subtask.to_wire(), "directory": str(directory)}))
        return Cost(wall, tree_seconds(self.ours.pid) - client, server_seconds(server) - busy)


@contextmanager
def servers() -> Iterator[Servers]:
    """Source and target."""
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        ThrowawayServer("mysql", Path(directory) / "source", server_id=71, options=_DUMP_OPTIONS) as source,
        ThrowawayServer("mysql", Path(directory) / "target", server_id=72, options=_LOAD_OPTIONS) as target,
    ):
        yield Servers(source, target, Path(directory))


@contextmanager
def place() -> Iterator[Place]:
    """Source, target and a Spark session."""
    with servers() as where, SparkProcess("benchmarks.full_ours") as ours:
        yield Place(where.source, where.target, where.directory, ours)


def _without_tls(server: ThrowawayServer) -> Endpoint:
    return endpoint_of(server).model_copy(update={"security": Security(get_server_public_key=True)})


def _empty(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    return directory


def _size(directory: Path) -> float:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file()) / _MB


def _rate(name: str) -> Series:
    return Series(name, "rows per second")


def _named(options: Mapping[str, JSON]) -> str:
    """Options as a task file has them."""
    return ", ".join(f"{name.replace('_', '-')}: {str(value).lower()}" for name, value in options.items())


class _TableFigures:
    """All figures of one table."""

    def __init__(self, filled: Filled) -> None:
        self.filled = filled
        self.dump, self.compressed, self.plain = _rate("dm"), _rate("mydumper --compress"), _rate("mydumper")
        self.load, self.load_peer = _rate("dm"), _rate("myloader")
        self.dump_with = _rate(f"dm {_named(filled.table.dump_with)}")
        self.load_with = _rate(f"dm {_named(filled.table.load_with)}")
        self.sizes = {name: Series(name, "MB") for name in ("dm", "mydumper --compress", "mydumper")}
        self.costs: dict[str, list[JSON]] = {}
        self.same: list[JSON] = []  # whether myloader's table is the source's, per round

    def round(self, where: Place) -> None:
        """Dump and load, ours and theirs in turn."""
        filled = self.filled
        cost, directory = where.dump(filled)
        self._book("dump, dm", self.dump, cost)
        self.sizes["dm"].values.append(_size(directory))
        if filled.table.dump_with:
            self._book(f"dump, {self.dump_with.name}", self.dump_with, where.dump(filled, filled.table.dump_with)[0])
        for series, options in ((self.compressed, ("--compress",)), (self.plain, ())):
            cost, theirs = where.dump_peer(filled, *options)
            self._book(f"dump, {series.name}", series, cost)
            self.sizes[series.name].values.append(_size(theirs))
        self._book("load, dm", self.load, where.load(filled, directory))
        if filled.table.load_with:
            self._book(
                f"load, {self.load_with.name}", self.load_with, where.load(filled, directory, filled.table.load_with)
            )
        self._book("load, myloader", self.load_peer, where.load_peer(filled, theirs))
        self.same.append(where.same(filled))

    def _book(self, what: str, series: Series, cost: Cost) -> None:
        series.values.append(self.filled.rows / cost.wall)
        each: dict[str, JSON] = {
            "client": round(cost.client * 1e6 / self.filled.rows, 2),
            "server": round(cost.server * 1e6 / self.filled.rows, 2),
        }
        self.costs.setdefault(what, []).append(each)

    def comparisons(self) -> Iterator[Comparison]:
        """The lines of the table."""
        key, what = self.filled.table.name, self.filled.table.what
        dumps: dict[str, JSON] = {
            "rows": self.filled.rows,
            "megabytes": {name: series.to_json() for name, series in self.sizes.items()},
            "microseconds": {name: each for name, each in self.costs.items() if name.startswith("dump")},
            "settings": {
                "dm": f"mode full, spark.master by default, threads {_THREADS}, rows {self.filled.chunk}, Parquet",
                "mydumper": f"--threads={_THREADS} --rows={self.filled.chunk}, with and without --compress",
            },
        }
        yield Comparison(f"dump.{key}", f"dump, {what}", self.dump, self.compressed, COMPRESSED, notes=dumps)
        yield Comparison(f"dump-plain.{key}", f"dump, {what}", self.dump, self.plain, PLAIN)
        if self.filled.table.dump_with:
            named = f"dump, {what}, {_named(self.filled.table.dump_with)}"
            yield Comparison(f"dump-plain.{key}.options", named, self.dump_with, self.plain, PLAIN)
        sizes = (self.sizes["dm"], self.sizes["mydumper --compress"])
        yield Comparison(f"dump-size.{key}", f"size of the dump, {what}", *sizes, SIZE, judged_by="limit")
        loads: dict[str, JSON] = {
            "rows": self.filled.rows,
            "dm's table is the source's to the bit": True,  # a load that is not ends the run
            "myloader's table is the source's to the bit": self.same,
            "microseconds": {name: each for name, each in self.costs.items() if name.startswith("load")},
            "settings": {
                "dm": "pool-size 16, spark.master by default, of its own dump, by LOAD DATA (local_infile=ON)",
                "myloader": f"--threads={_THREADS} --enable-binlog, of mydumper's dump without compression",
            },
        }
        yield Comparison(f"load.{key}", f"load, {what}", self.load, self.load_peer, LOAD, notes=loads)
        if self.filled.table.load_with:
            named = f"load, {what}, {_named(self.filled.table.load_with)}"
            yield Comparison(f"load.{key}.options", named, self.load_with, self.load_peer, LOAD)


def measure(scale: float, rounds: int) -> Iterator[Comparison]:
    """Both tables, all programs in each round."""
    with servers() as where:
        yield from _measure(where, scale, rounds)


def measure_apart(scale: float, rounds: int) -> Iterator[Comparison]:
    """The same with a processor for the client and another for both servers, one of which is at rest."""
    with servers() as where, apart(where.source.pid, where.target.pid):
        for found in _measure(where, scale, rounds):
            yield found.apart(found.goal)


def _measure(servers: Servers, scale: float, rounds: int) -> Iterator[Comparison]:
    with SparkProcess("benchmarks.full_ours") as ours:
        where = Place(servers.source, servers.target, servers.directory, ours)
        for table in (SYSBENCH, WIDE):
            began = time.monotonic()
            figures = _TableFigures(fill(where.source, table, int(table.rows * scale)))
            print(f"{figures.filled.rows} {table.what} in {time.monotonic() - began:.0f} s", file=sys.stderr)
            for _ in range(rounds):
                figures.round(where)
            yield from figures.comparisons()
