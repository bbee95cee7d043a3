"""One Spark session for all tests that need one; starting it costs five seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.spark.session import SparkProvider
from dm.spark.worker_daemon import preloading
from tests.spark.full_load import FullLoad
from tests.spark.replaying import Scene
from tests.testbed.fixtures import SchemaFactory


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProvider]:
    conf = preloading(("dm.dumper.chunk_group", "dm.loader.part_writer"))
    provider = SparkProvider("local[2]", conf, scratch=tmp_path_factory.mktemp("spark"))
    yield provider
    provider.close()


class LoadFactory(Protocol):
    """Makes a full load of a fresh schema, with these statements run in it first."""

    def __call__(
        self, upstream: ThrowawayServer, target: PrivateServer, *statements: str, **settings: Any
    ) -> FullLoad: ...


@pytest.fixture
def full_load(spark: SparkProvider, schema: SchemaFactory, tmp_path: Path) -> Iterator[LoadFactory]:
    made: list[FullLoad] = []

    def create(upstream: ThrowawayServer, target: PrivateServer, *statements: str, **settings: Any) -> FullLoad:
        name = schema(upstream)
        upstream.execute(f"USE `{name}`", *statements)
        made.append(FullLoad(upstream, target, name, tmp_path / f"dump-{len(made)}", spark, settings=settings))
        return made[-1]

    yield create
    for load in made:
        if load.target.running:
            load.forget()


@pytest.fixture
def scene(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path) -> Scene:
    """A task whose backlog is to be replayed."""
    return Scene(upstream, target, schema(upstream), tmp_path)
