"""What `pace` promises, by the clock: rates over a minute, a limit that is taken away, and a slow replica's delay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pace import PASSWORD, Scene, lag, rates
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(1200)]

LIMIT = 1000  # rows per second
WITHIN = 0.05
SECONDS = 60.0
LATE, MORE = 5, 2  # seconds: the limit of a replica's delay, and what it may be beyond


@pytest.fixture
def scene(server: ServerFactory, tmp_path: Path) -> Iterator[Scene]:
    source, target = server("mariadb"), server("mariadb")
    for each in (source, target):
        each.create_user("dm", PASSWORD, "ALL ON *.*")
    with Daemon(tmp_path, {}) as daemon:
        yield Scene(source, target, daemon, LIMIT)


def test_limits_are_kept_for_a_minute(scene: Scene) -> None:
    found: dict[str, dict[str, Any]] = {figure["what"]: figure for figure in rates(scene, SECONDS)}
    print(found)
    away = found.pop("limit taken away")
    for what, figure in found.items():
        assert abs(figure["rows per second"] - LIMIT) <= WITHIN * LIMIT, what
    assert away["seconds until 3 seconds' worth is there, after dmctl"] < 1.0


def test_a_slow_replica_is_never_much_later_than_its_limit(scene: Scene, tmp_path: Path) -> None:
    slow = lag(scene, tmp_path / "replica", LATE, SECONDS)
    print(slow)
    assert slow["rows"] > 0
    assert slow["worst seconds"] <= LATE + MORE
