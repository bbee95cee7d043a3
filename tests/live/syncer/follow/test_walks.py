"""ARCHITECTURE.md's walks are complete: the files that they list are those whose functions run on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

import dm
from dm.config.rules import RouteRule
from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for
from tests.unit.docs.document import walk

pytestmark = pytest.mark.live

PACKAGE: Final = Path(dm.__file__).parent
BESIDE: Final = ("time-shares", "source-monitor", "progress", "MainThread")
"""Threads that look at what goes on, or store how far it is."""
OF_MARIADB: Final = {"dm/mysql/binlog/cursor.py"}
TIMES: Final = 3
"""The target has a change before the dispatcher has told everybody; the next one finds that out."""
VOCABULARY: Final = ("errors", "session", "config", "accelerator", "mysql/dialect", "mysql/types")


class Passed:
    """The files of dm of which a function was called on the way, in threads that began after this."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.recording = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self.recording and event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            where = Path(frame.f_code.co_filename).relative_to(PACKAGE)
            beside = threading.current_thread().name.startswith(BESIDE)
            if not beside and len(where.parts) > 1 and not str(where).startswith(VOCABULARY):
                self.files.add(f"dm/{where}")

    def during(self, work: Callable[[], object]) -> set[str]:
        """Those of one piece of work."""
        self.files, self.recording = set(), True
        try:
            work()
        finally:
            self.recording = False
        return self.files


@contextmanager
def profiled() -> Iterator[Passed]:
    """All threads that begin here are looked at."""
    found = Passed()
    threading.setprofile(found)
    try:
        yield found
    finally:
        threading.setprofile(None)


def _after(server: ThrowawayServer, sync: RunningSync, *statements: str) -> Callable[[], object]:
    def work() -> None:
        server.execute(*statements)
        sync.wait_synced()

    return work


def _expect(title: str, files: set[str], *, all_of_it: bool) -> None:
    listed = set(walk(title))
    assert sorted(files - listed) == [], f"not in {title!r}"
    if all_of_it:
        assert sorted(listed - files - OF_MARIADB) == [], f"{title!r} has more"


@pytest.mark.ci_flavor("mysql")
def test_a_row_and_a_statement_pass_the_files_of_their_walks(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20))")
    subtask = subtask_for(upstream, target, name, task=name, workers=2)
    with profiled() as passed, running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
        _after(upstream, sync, f"INSERT INTO {name}.t VALUES (1, 'x')")()
        row, statement = set[str](), set[str]()
        for at in range(TIMES):
            row |= passed.during(_after(upstream, sync, f"INSERT INTO {name}.t (id) VALUES ({at + 2})"))
        for at in range(TIMES):  # afterwards: a table's first row after a statement is none of the ordinary ones
            statement |= passed.during(_after(upstream, sync, f"ALTER TABLE {name}.t ADD COLUMN w{at} INT"))
    whole = upstream.flavor == "mysql"
    _expect("A row change, file by file", row, all_of_it=whole)
    _expect("A DDL statement, file by file", statement, all_of_it=whole)


@pytest.mark.ci_flavor("mysql")
def test_a_gated_statement_passes_the_files_of_its_walk(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server, tables in ((upstream, ("t1", "t2")), (target, ("t",))):
        server.execute(*(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, v VARCHAR(20))" for table in tables))
    route = RouteRule(name="all", schema_pattern=name, table_pattern="t*", target_schema=name, target_table="t")
    subtask = subtask_for(upstream, target, name, task=name, routes=(route,), workers=2)
    subtask = subtask.model_copy(update={"shard_mode": "pessimistic", "shard_sources": (subtask.source.source_id,)})
    with profiled() as passed, running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
        statements = [f"ALTER TABLE {name}.{table} ADD COLUMN w INT" for table in ("t1", "t2")]
        gated = passed.during(_after(upstream, sync, *statements))
    of_shards = {file for file in gated if "shard" in file or "merged_table" in file}
    _expect("A gated DDL statement, file by file", of_shards, all_of_it=upstream.flavor == "mysql")
