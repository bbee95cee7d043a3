"""A full load between two servers of the test bed, as the tests of dump and load use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from dm.config.endpoint import Endpoint
from dm.config.rules import BlockAllowList, RouteRule
from dm.config.source import SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import ComparisonReport, compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.dumper.unit import DumpUnit
from dm.dumpfiles.dump_files import DumpPlan, load_plan
from dm.dumpfiles.s3_storage import S3Storage
from dm.dumpfiles.storage import DumpStorage, LocalStorage
from dm.ident import TableName
from dm.loader.own_tables import LostDump
from dm.loader.stream import TargetStream
from dm.loader.unit import LoadUnit
from dm.sourcelog.relaylog.hold import Hold, needs
from dm.spark.session import SparkProvider
from tests.testbed.sync import running_sync


def endpoint(server: PrivateServer) -> Endpoint:
    """The configuration's word for the server."""
    return Endpoint(host=server.host, port=server.port, user=server.user, password=SecretStr(server.password))


def dump_unit(subtask: SubtaskConfig, storage: DumpStorage, spark: SparkProvider, hold: Hold | None = None) -> DumpUnit:
    """The unit as a task makes it."""
    unit = DumpUnit(subtask, storage, spark, hold=hold, stream=TargetStream.of(subtask))
    return unit.when_anew(LostDump(subtask).give_up)


def storage_at(subtask: SubtaskConfig, directory: Path) -> DumpStorage:
    """The directory, or where the subtask's `dir` is in object storage: then what is no dump file is there."""
    place = subtask.loader.storage
    return LocalStorage(directory) if place is None else S3Storage(place, directory)


@dataclass
class FullLoad:
    """One schema of one server on its way into a schema of another."""

    upstream: ThrowawayServer
    target: PrivateServer
    schema: str
    directory: Path
    spark: SparkProvider
    source_id: str = "source-1"
    task: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def storage(self) -> DumpStorage:
        """The place of the dump."""
        return storage_at(self.subtask(), self.directory)

    @property
    def target_schema(self) -> str:
        """Another name, so that routing always takes part."""
        return f"{self.schema}_copy"

    @property
    def hold(self) -> Hold:
        """What the dump would tell a relay."""
        return Hold(self.directory.with_name(f"{self.directory.name}.relay"), self.subtask().task)

    @property
    def held(self) -> list[str]:
        """The file from which on the dump holds relay files."""
        return [need.file for need in needs(self.directory.with_name(f"{self.directory.name}.relay"))]

    @property
    def meta_schema(self) -> str:
        """Progress of this test."""
        return f"{self.schema}_meta"

    def subtask(self) -> SubtaskConfig:
        """The configuration."""
        dumper = {"rows": self.settings.get("rows", 1000)}
        if "where" in self.settings:
            dumper["where"] = self.settings["where"]
        if "threads" in self.settings:
            dumper["threads"] = self.settings["threads"]
        source = self.settings.get("source") or endpoint(self.upstream)
        config = SubtaskConfig(
            task=self.task or self.schema,
            source=SourceConfig(source_id=self.source_id, endpoint=source),
            mode=self.settings.get("mode", "all"),
            target=endpoint(self.target).model_copy(update={"session": self.settings.get("session", {})}),
            meta_schema=self.meta_schema,
            block_allow_list=BlockAllowList(do_dbs=(self.schema,)),
            routes=(RouteRule(schema_pattern=self.schema, target_schema=self.target_schema),),
            clean_dump_file=self.settings.get("clean_dump_file", False),
            sole_source=self.settings.get("sole_source", True),
            shard_mode=self.settings.get("shard_mode", ""),
            collation_compatible=self.settings.get("collation_compatible", "loose"),
            engine_map=self.settings.get("engine_map", {}),
        )
        if "consistency" in self.settings:
            dumper["consistency"] = self.settings["consistency"]
        loader = config.loader.model_copy(
            update={
                "on_duplicate_logical": self.settings.get("on_duplicate", "replace"),
                "pool_size": self.settings.get("pool_size", 16),
                "storage": self.settings.get("storage"),
            }
        )
        spark = config.spark.model_copy(
            update={
                "dump_format": self.settings.get("dump_format", "parquet"),
                "dump_files": self.settings.get("dump_files", "all"),
                "defer_indexes": self.settings.get("defer_indexes", False),
                "json_types": self.settings.get("json_types", "exact"),
            }
        )
        dumper_config = config.dumper.model_copy(update=dumper)
        return config.model_copy(update={"dumper": dumper_config, "loader": loader, "spark": spark})

    def dump(self, stop: threading.Event | None = None) -> DumpPlan:
        """Run the dump; gives its plan."""
        unit = dump_unit(self.subtask(), self.storage, self.spark, self.hold)
        unit.run(stop or threading.Event())
        plan = load_plan(self.storage)
        assert plan is not None
        return plan

    def load(self, stop: threading.Event | None = None) -> LoadUnit:
        """Run the load."""
        unit = LoadUnit(self.subtask(), self.storage, self.spark)
        unit.run(stop or threading.Event())
        return unit

    def start(self, unit: str, fault: str, log: Path, *before: str) -> subprocess.Popen[str]:
        """Run a unit in a process of its own with a fault armed there; `log` hears of the strike.

        `before` is a command that runs the command after it. What the process prints goes to `log` with `.out`.
        """
        with log.with_suffix(".out").open("wb") as printed:
            process = subprocess.Popen(
                [*before, sys.executable, "-m", "tests.spark.kill", unit, str(self.directory)],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                env=os.environ | {"DM_FAULTS": fault, "DM_FAULTS_LOG": str(log)},
                text=True,
            )
        assert process.stdin is not None
        with process.stdin:
            json.dump(self.subtask().to_wire(), process.stdin)
        return process

    def report(self, *, structures: bool = True) -> ComparisonReport:
        """How the copy compares with the original."""

        def route(_server: object, table: TableName) -> TableName:
            return TableName(self.target_schema, table.table)

        pairs = pair_tables([self.upstream], [self.schema], route)
        assert pairs
        return compare(pairs, self.target, structures=structures)

    def forget(self) -> None:
        """Drop what the load made at the target."""
        for name in (self.target_schema, self.meta_schema):
            self.target.execute(f"DROP DATABASE IF EXISTS `{name}`")


def follow(load: FullLoad) -> None:
    """Go on with the binlog from where the load hands over, to the source's end, and compare."""
    with running_sync(load.subtask(), work_directory=load.directory.with_name("sync")) as sync:
        sync.wait_synced(300)
    report = load.report()
    assert report.identical, str(report)


@contextmanager
def beside(act: Callable[[], object]) -> Iterator[threading.Thread]:
    """Act in a thread during the block, whose end waits for it; raises what went wrong there."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()
    if failures:
        raise failures[0]


def rows(server: PrivateServer, sql: str) -> list[tuple[Any, ...]]:
    """What the server answers."""
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())
    finally:
        connection.close()


def wait_for(path: Path, process: subprocess.Popen[str] | None = None) -> str:
    """Wait until the file has a line; gives its text. Ends with the process, or with the test's own time limit."""
    while not (path.exists() and path.read_text().endswith("\n")):
        assert process is None or process.poll() is None, f"the process ended with {process.returncode}"
        time.sleep(0.02)
    return path.read_text()
