"""The page reads what a real syncer says: each fact that it shows is there, by the name that the page knows."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from dm.worker.page.task_view import columns, pipeline, statements, tables
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mysql")
def test_rows_statements_and_places_of_a_syncer(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.a (id INT PRIMARY KEY)",
            f"INSERT INTO {name}.a VALUES (1), (2)",
            f"ALTER TABLE {name}.a ADD c INT",
        )
        status = sync.wait_synced()
    subtask: dict[str, Any] = {
        "name": "t", "stage": "Running", "sourceAnswers": True, "targetAnswers": True, "unit": "Sync", "sync": status,
    }  # fmt: skip
    source: dict[str, Any] = {"source": "one", "relayStatus": None}
    stages = pipeline(source, subtask, time.time())
    assert [stage.name for stage in stages] == ["Source", "Stream", "Lanes", "Target"]
    assert not [fact for stage in stages for fact in stage.facts if "?" in fact]
    assert [stage.busy is None for stage in stages] == [True, False, False, True]
    rows, more = tables(subtask)
    assert [(row.name, row.rows, row.form) for row in rows] == [
        (f"{name}.a", "2 inserted, 0 updated, 0 deleted", "events")
    ]
    assert (more, "Table" in columns(rows).values()) == (0, True)
    texts = [each.text for each in statements([(source, subtask)])]
    assert ["ALTER" in texts[0], "CREATE" in texts[1], len(texts)] == [True, True, 2]
