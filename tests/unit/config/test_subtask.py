"""A subtask is the task on one source with every name resolved, and travels whole."""

from __future__ import annotations

import json

import pytest

from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.config.source import Purge
from dm.config.subtask import RunBy, Share
from dm.errors import DMError
from tests.unit.config.test_models import EVERY_SOURCE_KEY, EVERY_TASK_KEY
from tests.unit.config.texts import SOURCE, TASK, source, task

MERGE = (
    TASK
    + """\
    filter-rules: [shared]
    syncer: {batch: 7}
    route-rules: [second, first]
  - source-id: mysql-02
    route-rules: [second]
    meta: {binlog-name: mysql-bin.000001}
filters:
  shared: {schema-pattern: shop, table-pattern: T, events: [delete], action: Ignore}
routes:
  first: {schema-pattern: a, target-schema: x}
  second: {schema-pattern: b, target-schema: y}
"""
)
FILTERED = (
    SOURCE
    + """\
filters:
  - {schema-pattern: SHOP, table-pattern: t, events: [insert], action: Ignore}
  - {schema-pattern: other, events: [insert], action: Ignore}
"""
)


def test_names_are_resolved_in_the_order_of_the_instance() -> None:
    sources = {"mysql-01": source(), "mysql-02": source(SOURCE.replace("mysql-01", "mysql-02"))}
    read = task(MERGE, sources)
    first, second = (read.subtask(name) for name in read.source_ids)
    assert [(route.name, route.target_schema) for route in first.routes] == [("second", "y"), ("first", "x")]
    assert [route.name for route in second.routes] == ["second"]
    assert (first.syncer.batches, second.syncer.batches) == ((7, 7), (100, 1000))
    assert (first.source_id, second.source_id, second.name) == ("mysql-01", "mysql-02", "shop/mysql-02")


def test_filters_of_the_source_count_besides_the_tasks() -> None:
    sources = {
        "mysql-01": source(FILTERED.replace("SHOP", "stock")),
        "mysql-02": source(SOURCE.replace("mysql-01", "mysql-02")),
    }
    subtask = task(MERGE, sources).subtask("mysql-01")
    assert [rule.name for rule in subtask.filters] == [
        "shared",
        "filters[0] of source mysql-01",
        "filters[1] of source mysql-01",
    ]


def test_the_source_can_make_names_case_sensitive() -> None:
    for line, sensitive in (("", False), ("case-sensitive: true\n", True), ("case-sensitive: false\n", False)):
        assert task(TASK, {"mysql-01": source(SOURCE + line)}).subtask("mysql-01").case_sensitive is sensitive


def test_everything_survives_the_wire() -> None:
    for read in (
        task(),
        task(
            EVERY_TASK_KEY,
            {
                "mysql-01": source(
                    EVERY_SOURCE_KEY.replace("source-id: a", "source-id: mysql-01").replace("enable-gtid: true", "")
                )
            },
        ),
    ):
        subtask = read.subtask("mysql-01")
        # Not ==: the warnings of the file's reader are compared by it, too, and they stay where it was read.
        assert SubtaskConfig.from_wire(json.loads(json.dumps(subtask.to_wire()))).to_wire() == subtask.to_wire()
        wire = json.loads(json.dumps(read.to_wire()))
        assert TaskConfig.from_wire(wire).to_wire() == wire
    wire = json.loads(json.dumps(source(EVERY_SOURCE_KEY).to_wire()))
    assert SourceConfig.from_wire(wire).to_wire() == wire


@pytest.mark.parametrize("mode", ["full", "all", "incremental", "dump", "load", "load&sync"])
@pytest.mark.parametrize(
    ("section", "copies"),
    [
        ("", {"all"}),
        ("    mydumper: {extra-args: --consistency none}\n", {"full", "all"}),
        ("    mydumper: {extra-args: --consistency flush}\n", set()),
        ("    loader: {on-duplicate-logical: error}\n", set()),
    ],
)
def test_auto_leaves_out_files_where_a_copy_can_be_taken_back_and_is_never_refused(
    section: str, copies: set[str], mode: str
) -> None:
    text = TASK.replace("task-mode: all", f"task-mode: {mode}") + section
    subtask = task(f"{text}spark: {{dump-files: auto}}\n").subtask("mysql-01")
    assert subtask.copies is (mode in copies)
    assert not subtask.model_copy(update={"share": Share(tables=(("a", "b"),))}).copies
    assert not task(text).subtask("mysql-01").copies


def test_a_source_that_is_not_of_the_task_or_not_known_is_an_error() -> None:
    for name, sources in (("mysql-02", {"mysql-02": source()}), ("mysql-01", {})):
        with pytest.raises(DMError, match="there is no source"):
            task().subtask(name, sources)


def test_sources_given_later_win() -> None:
    changed = source().model_copy(update={"purge": Purge(interval=1)})
    assert task().subtask("mysql-01", {"mysql-01": changed}).source.purge.interval == 1


def test_who_runs_a_subtask_is_read_from_what_a_newer_dm_has_stored() -> None:
    assert RunBy.model_validate_json('{"host": "h", "home": "/h", "since_then": 1}') == RunBy(host="h", home="/h")
