"""A daemon for tests of what it does with tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.home import TestHome, home


@pytest.fixture
def one(tmp_path: Path) -> Iterator[TestHome]:
    """A running daemon with the source `one`."""
    with home(tmp_path / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        yield running
