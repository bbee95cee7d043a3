"""What `binlog-schema update --from-target` compares the order of columns with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dm.ident import TableName
from dm.task import tracked_structure
from tests.unit.rules.subtasks import subtask


def test_a_view_that_has_the_tables_name_by_now_has_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    config = subtask("syncer-config-name: s", "syncers:\n  s: {}\n")
    monkeypatch.setattr(tracked_structure, "connect", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(tracked_structure, "has_view", lambda *_: True)
    monkeypatch.setattr(tracked_structure, "read_structure", lambda *_: "CREATE VIEW `s1` AS select 1 AS `id`")
    assert tracked_structure._present(config, TableName("shop", "s1")) is None
