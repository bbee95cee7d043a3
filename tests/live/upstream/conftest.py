"""Fixtures of groups of servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.upstream.group import SCHEMA, TABLES


@pytest.fixture
def emptied(target: ThrowawayServer) -> Iterator[ThrowawayServer]:
    """A target with the tables of the load, without rows."""
    target.execute(f"DROP DATABASE IF EXISTS {SCHEMA}", *TABLES)
    yield target
    target.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
