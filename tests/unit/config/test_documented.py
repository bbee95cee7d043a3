"""Task files in the forms of DM's documentation and of its own tests load, and their rules can be built."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.config import TaskConfig, load_task, read_source
from dm.ident import TableName
from dm.rules import TableRules

FOLDER = Path(__file__).parent / "documented"
NAMES = ("mysql-01", "mysql-02", "mysql-03")
SOURCES = {name: read_source(f"source-id: {name}\nfrom: {{host: {name}}}\n") for name in NAMES}


def loaded(name: str) -> TaskConfig:
    return load_task(FOLDER / f"{name}.yaml", SOURCES, environ={})


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_a_documented_form_loads(name: str) -> None:
    task = loaded(name)
    for source_id in task.source_ids:
        TableRules(task.subtask(source_id))


def test_old_names_are_warned_of() -> None:
    (warned,) = loaded("extracted-columns").warnings
    assert "`heartbeat-update-interval` (line" in warned.message
    assert "use `block-allow-list`" in warned.message
    assert loaded("shard-merge").warnings == ()


def test_extracted_columns_are_those_of_dms_own_test() -> None:
    task = loaded("extracted-columns")
    first, second = (TableRules(task.subtask(name)) for name in task.source_ids)
    assert [each.value for each in first.extracted(TableName("part1", "y1"))] == ["1"]
    assert [each.value for each in second.extracted(TableName("part2", "t2"))] == ["2", "part2", "mysql02"]
    assert second.extracted(TableName("part2", "y2")) == ()
    assert first.route(TableName("part1", "y1")) == TableName("whole", "y")
    assert second.route(TableName("part2", "y2")) == TableName("part2", "y2")


def test_the_merge_leads_where_the_scenario_wants_it() -> None:
    rules = TableRules(loaded("shard-merge").subtask("mysql-02"))
    assert rules.route(TableName("branch_02", "sales_01")) == TableName("branch", "sales")
    assert not rules.wanted(TableName("people", "log_bak"))
    assert rules.row_event(TableName("branch_01", "sales_02"), "delete") == "ignore"
    assert rules.ddl_event(TableName("branch_01", ""), "drop database", "DROP DATABASE branch_01") == "ignore"
    assert rules.row_event(TableName("people", "information"), "delete") == "do"


@pytest.mark.parametrize(
    ("name", "mode", "strict"),
    [
        ("shard-merge", "", False),
        ("pessimistic-shards", "pessimistic", False),  # by `is-sharding: true`
        ("optimistic-shards", "optimistic", False),
        ("strict-shards", "optimistic", True),
    ],
)
def test_shards_are_merged_as_the_file_says(name: str, mode: str, strict: bool) -> None:
    task = loaded(name)
    for source_id in task.source_ids:
        subtask = task.subtask(source_id)
        assert (subtask.shard_mode, subtask.strict_optimistic) == (mode, strict)
        assert subtask.shard_sources == (task.source_ids if mode else ())


def test_what_is_extracted_tells_shards_apart() -> None:
    task = loaded("strict-shards")
    rules = TableRules(task.subtask("mysql-03"))
    table = TableName("branch_7", "sales_2")
    assert rules.route(table) == TableName("branch", "sales")
    assert [each.value for each in rules.extracted(table)] == ["2", "7", "mysql-03"]
    assert task.subtask("mysql-02").syncer.safe_mode
    assert task.subtask("mysql-03").syncer.worker_count == 16
