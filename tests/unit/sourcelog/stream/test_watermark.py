"""The clock is read before the end of the binlog, and a margin is taken off it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dm.mysql.dialect import dialect
from dm.position import Position
from dm.sourcelog.stream import source_monitor
from dm.sourcelog.stream.source_monitor import Watermark
from tests.testbed.fake_clock import FakeClock

END = Position("u", "bin.000001", 100)


@pytest.mark.parametrize(
    ("flavor", "version", "margin"),
    [("mysql", 80036, 200_000), ("mysql", 50744, 1_000_000), ("mariadb", 101119, 1_000_000)],
)
def test_the_margin_depends_on_how_fine_commit_times_are(
    monkeypatch: pytest.MonkeyPatch, flavor: str, version: int, margin: int
) -> None:
    monkeypatch.setattr(source_monitor, "binlog_end", lambda *_: END)
    told: list[None] = []
    mark = Watermark(FakeClock(now=999.5), lambda: told.append(None))
    facts: Any = SimpleNamespace(dialect=dialect(flavor, version))
    connection: Any = None
    mark.look(connection, facts, 1000.0)
    assert mark.latest is not None
    end, moment = mark.latest
    assert (end.position, moment) == (END, 1_000_000_000 - margin)
    assert mark.skew == 500_000
    assert told == [None]
