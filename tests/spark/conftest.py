"""One Spark session for all tests that need one; starting it costs five seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dm.spark.session import SparkProvider


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProvider]:
    provider = SparkProvider("local[2]", scratch=tmp_path_factory.mktemp("spark"))
    yield provider
    provider.close()
