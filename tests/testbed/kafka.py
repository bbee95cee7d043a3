"""A Kafka of the test's own: one broker that is its own controller (KRaft). `scripts/fetch_kafka.sh` brings it."""

from __future__ import annotations

import base64
import signal
import socket
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from dm.demo.installation import cache_directory
from dm.demo.private_server import HOST, GuardedProcess, free_port
from tests.testbed.sync import wait_until

_HEAP = "-Xmx256m"
_START_SECONDS = 120.0


def kafka_directory() -> Path:
    """Where the script puts it."""
    return cache_directory() / "kafka"


def sink_jars() -> list[Path]:
    """What a Spark session needs beside its own jars."""
    return sorted((kafka_directory() / "sink").glob("*.jar"))


class KafkaBroker:
    """Started and ended as a context."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._process: GuardedProcess | None = None

    @property
    def address(self) -> str:
        """For `bootstrap.servers`."""
        return f"{HOST}:{self._port}"

    def __enter__(self) -> Self:
        self._directory.mkdir()
        properties, log = self._directory / "server.properties", self._directory / "log"
        properties.write_text(self._properties(), encoding="utf-8")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        subprocess.run(
            (*self._java("kafka.tools.StorageTool"), "format", f"--cluster-id={cluster}", "-c", str(properties)),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self._process = GuardedProcess((*self._java("kafka.Kafka"), str(properties)), log=log)
        wait_until(self._answers, f"the broker answers: {log.read_text(encoding='utf-8')}", _START_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process is not None
        self._process.send(signal.SIGKILL)
        self._process.wait(30)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "log").read_text(encoding="utf-8")
        with suppress(OSError), socket.create_connection((HOST, self._port), timeout=1):
            return True
        return False

    def _java(self, main: str) -> tuple[str, ...]:
        return "java", _HEAP, "-cp", f"{kafka_directory() / 'broker'}/*", main

    def _properties(self) -> str:
        controller = f"{HOST}:{free_port()}"
        return "\n".join(
            (
                "process.roles=broker,controller",
                "node.id=1",
                f"controller.quorum.voters=1@{controller}",
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                f"listeners=PLAINTEXT://{self.address},CONTROLLER://{controller}",
                f"advertised.listeners=PLAINTEXT://{self.address}",
                f"log.dirs={self._directory / 'data'}",
                "offsets.topic.replication.factor=1",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "num.partitions=3",
            )
        )
