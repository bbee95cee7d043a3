"""The statements of a comparison delete no row that a filter keeps, or that another task has."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest
from pydantic import SecretStr

from dm.config.rules import FilterRule, RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.spark.session import SparkProvider
from dm.tools.diff.report import TableReport
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

Compared = Callable[..., TableReport]
PARTS = RouteRule(schema_pattern="s", table_pattern="part_*", target_schema="s", target_table="merged")
COLUMNS = "(id INT PRIMARY KEY, v VARCHAR(20), u INT UNIQUE)"


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    """What a comparison tells of the merged table; its statements are in files."""

    def compare(subtask: SubtaskConfig, *others: SubtaskConfig) -> TableReport:
        options = DiffRequest(fix_sql=str(tmp_path / "fixes"))
        unit = DiffUnit([subtask], options, cast(SparkProvider, None)).among(others)  # so few rows need no Spark
        unit.run(threading.Event())
        return next(table for table in unit.report.tables if table.name.table == "merged")

    return compare


@pytest.fixture
def name(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> str:
    """A schema in which shard 2 was dropped at the source only, and the rows of shard 1 differ."""
    name = schema(upstream, target)
    upstream.execute(
        f"CREATE TABLE `{name}`.part_1 {COLUMNS}", f"INSERT INTO `{name}`.part_1 VALUES (1, 'a', 2), (2, 'b', 1)"
    )
    target.execute(
        f"CREATE TABLE `{name}`.merged {COLUMNS}",
        f"INSERT INTO `{name}`.merged VALUES (1, 'other', 2), (3, 'kept', 1), (4, 'two\nlines', 4)",
    )
    return name


def merging(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, *filters: FilterRule, pattern: str = "part_*"
) -> SubtaskConfig:
    route = PARTS.model_copy(update={"schema_pattern": name, "target_schema": name, "table_pattern": pattern})
    return subtask_for(upstream, target, name, task=name, routes=(route,)).model_copy(update={"filters": filters})


def execute(target: ThrowawayServer, table: TableReport) -> None:
    """As a person does: by the client, which goes on after a statement that fails."""
    client = ["mysql", "--force", "-h", target.host, "-P", str(target.port), "-u", target.user, f"-p{target.password}"]
    with Path(table.fix_file).open("rb") as file:
        subprocess.run(client, stdin=file, capture_output=True, check=False, timeout=60)


def rows(target: ThrowawayServer, name: str) -> Sequence[tuple[object, ...]]:
    return target.query(f"SELECT id, v FROM `{name}`.merged ORDER BY id")


def test_rows_that_a_filter_keeps_are_not_deleted(
    compared: Compared, upstream: ThrowawayServer, target: ThrowawayServer, name: str
) -> None:
    kept = FilterRule(name="stay", schema_pattern="*", events=("drop table", "truncate table"), action="Ignore")
    table = compared(merging(upstream, target, name, kept))
    assert (table.differing, table.kept) == (4, 2)
    assert table.why_kept.startswith("filter stay leaves out `truncate table`: the target may have rows")
    execute(target, table)
    # What row 2 is to have in `u` a row has that may be meant to stay.
    assert rows(target, name) == ((1, "a"), (3, "kept"), (4, "two\nlines"))
    table = compared(merging(upstream, target, name))
    assert (table.kept, table.why_kept) == (0, "")
    execute(target, table)
    assert rows(target, name) == ((1, "a"), (2, "b"))


def test_rows_of_another_task_are_not_deleted(
    compared: Compared, upstream: ThrowawayServer, target: ThrowawayServer, name: str
) -> None:
    upstream.execute(f"CREATE TABLE `{name}`.more {COLUMNS}")
    ours = merging(upstream, target, name)
    other = merging(upstream, target, name, pattern="more").model_copy(update={"task": f"{name}_2"})
    table = compared(ours, other)
    assert (table.kept, table.why_kept) == (
        2, f"{name}.more of task {name}_2 on source-1 has rows there, too",
    )  # fmt: skip
    execute(target, table)
    assert rows(target, name) == ((1, "a"), (3, "kept"), (4, "two\nlines"))
    gone = endpoint_of(upstream).model_copy(update={"port": 1, "password": SecretStr("")})
    unknown = other.model_copy(update={"source": other.source.model_copy(update={"endpoint": gone})})
    table = compared(ours, unknown)
    assert table.kept == 2
    assert table.why_kept.startswith(f"nobody knows which tables have rows of task {name}_2 on source-1: ")
    same = ours.model_copy(update={"task": f"{name}_3"})
    assert compared(ours, same).kept == 0, "the very rows that are compared"
