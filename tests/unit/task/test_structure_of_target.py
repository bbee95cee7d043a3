"""What `binlog-schema update --from-target` compares the order of columns with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Never

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.task import binlog_verbs as tracked_structure
from tests.unit.rules.subtasks import subtask

CONFIG = subtask("syncer-config-name: s", "syncers:\n  s: {}\n")


def test_a_view_that_has_the_tables_name_by_now_has_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracked_structure, "connect", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(tracked_structure, "has_view", lambda *_: True)
    monkeypatch.setattr(tracked_structure, "read_structure", lambda *_: "CREATE VIEW `s1` AS select 1 AS `id`")
    assert tracked_structure._present(CONFIG, TableName("shop", "s1")) is None


def test_a_source_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> Never:
        raise DMError("connection-lost", role="source", address="a", why="gone")

    monkeypatch.setattr(tracked_structure, "connect", refused)
    with pytest.raises(DMError) as raised:
        tracked_structure._present(CONFIG, TableName("shop", "s1"))
    assert raised.value.name == "connection-lost"
