"""What a file may say differently of the sources that its task runs on already: nothing but which others there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dm.config import TaskConfig
from dm.worker.configuration import differences
from tests.unit.config.texts import TASK, source, task

SOURCES = {name: source().model_copy(update={"source_id": name}) for name in ("mysql-01", "mysql-02")}
ORDER = "merge-order: commit-time\n"


def differing(before: TaskConfig, after: TaskConfig) -> list[str]:
    known: Any = SimpleNamespace(config=before)
    file: Any = None
    return differences(known, file, after, "mysql-01", SOURCES)


@pytest.mark.parametrize("head", ["", ORDER, "shard-mode: pessimistic\n"])
def test_another_source_is_no_difference_for_those_that_run(head: str) -> None:
    one, two = head + TASK, head + TASK + "  - source-id: mysql-02\n"
    assert differing(task(one, SOURCES), task(two, SOURCES)) == []
    assert differing(task(two, SOURCES), task(one, SOURCES)) == []


def test_another_order_is_one() -> None:
    assert differing(task(TASK), task(ORDER + TASK)) == ["`merge-order`"]
    assert differing(task(ORDER + TASK), task(ORDER + "merge-order-hold: 5s\n" + TASK)) == ["`merge-order`"]
