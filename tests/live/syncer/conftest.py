"""What several files of these tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.twins import Twins


@pytest.fixture
def twins(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> Iterator[Twins]:
    """One schema, followed in both forms of rows."""
    made = Twins(upstream, target, schema(upstream, target, prefix="form"))
    yield made
    made.close()
