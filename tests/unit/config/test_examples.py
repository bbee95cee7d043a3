"""The files in task-examples, and the one of the demo, load as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import dm.demo
from dm.config import SourceConfig, load_source, load_task
from dm.rules import TableRules

EXAMPLES = Path(__file__).parents[3] / "task-examples"
ENVIRON = {"DM_SOURCE_PASSWORD": "a", "DM_TARGET_PASSWORD": "b", "DM_DEMO_TARGET_PASSWORD": "c"}
SOURCES = sorted(path.name for path in EXAMPLES.glob("source*.yaml"))
DEMO = Path(dm.demo.__file__).with_name("task.yaml")  # in the package, which has to be complete without the examples
TASKS = sorted(path.name for path in EXAMPLES.glob("*.yaml") if not path.name.startswith("source")) + [str(DEMO)]


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_example_loads(name: str) -> None:
    assert load_source(EXAMPLES / name, environ=ENVIRON).warnings == ()


@pytest.mark.parametrize("name", TASKS)
def test_a_task_example_loads_and_its_rules_can_be_built(name: str) -> None:
    gtid = "enable-gtid: false" not in (EXAMPLES / name).read_text()
    example = load_source(EXAMPLES / "source-mysql.yaml", environ=ENVIRON).model_copy(update={"enable_gtid": gtid})
    sources: dict[str, SourceConfig] = {
        name: example.model_copy(update={"source_id": name}) for name in ("mysql-01", "mysql-02", "shop-1", "shop-2")
    }
    task = load_task(EXAMPLES / name, sources, environ=ENVIRON)
    assert task.warnings == ()
    for source_id in task.source_ids:
        TableRules(task.subtask(source_id))


def test_the_examples_cover_what_the_readme_names() -> None:
    assert {
        "all.yaml",
        "incremental-position.yaml",
        "incremental-gtid.yaml",
        "shard-merge-optimistic.yaml",
        "shard-merge-pessimistic.yaml",
        "shard-merge.yaml",
        "filters.yaml",
    } <= set(TASKS)
