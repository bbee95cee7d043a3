"""The cluster of a test, with an etcd of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.cluster import Cluster
from tests.testbed.etcd import EtcdServer


@pytest.fixture
def cluster(tmp_path: Path, own_etcd: EtcdServer) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", own_etcd) as made:
        yield made
