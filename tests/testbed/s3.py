"""An S3 server: moto's, as a process of its own that dies with the test run. It keeps objects in memory."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from pydantic import SecretStr

from dm.config.object_storage import ObjectStorage
from dm.demo.private_server import GuardedProcess
from dm.dumpfiles.s3_client import client_of

BUCKET = "dm-dumps"
ACCESS_KEY, SECRET_KEY = "canary-access-key", "canary/secret+key="

_SECONDS = 60.0  # a limit for what hangs


class S3Server:
    """A server with a bucket."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._log = directory / "s3.log"
        self._process: GuardedProcess | None = None

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, environment: Mapping[str, str] | None = None) -> Self:
        """Start it, and make the bucket."""
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = GuardedProcess(command, log=self._log, environment=os.environ | (environment or {}))
        deadline = time.monotonic() + _SECONDS
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)
        client_of(self.place("")).create_bucket(Bucket=BUCKET)
        return self

    def stop(self) -> None:
        """End it; its objects are gone."""
        if self._process is not None:
            self._process.send(signal.SIGTERM)
            try:
                self._process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.send(signal.SIGKILL)

    def place(self, prefix: str, bucket: str = BUCKET) -> ObjectStorage:
        """A place at it."""
        return ObjectStorage(
            bucket=bucket,
            prefix=prefix,
            endpoint=self.endpoint,
            access_key=SecretStr(ACCESS_KEY),
            secret_access_key=SecretStr(SECRET_KEY),
        )

    def uri(self, prefix: str, bucket: str = BUCKET) -> str:
        """The place as a task file has it."""
        keys = f"access-key={ACCESS_KEY}&secret-access-key={SECRET_KEY}"
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&{keys}"

    def known(self) -> Any:
        """What it holds, by service and kind."""
        with urlopen(f"{self.endpoint}/moto-api/data.json", timeout=_SECONDS) as answer:
            return json.load(answer)

    @contextmanager
    def demanding_permissions(self) -> Iterator[None]:
        """Have it look at keys, signatures and policies, as a real one; by itself it lets everybody do everything."""
        self._set_requests_without_permission("0")
        try:
            yield
        finally:
            self._set_requests_without_permission("inf")

    def _set_requests_without_permission(self, number: str) -> None:
        address = f"{self.endpoint}/moto-api/reset-auth"
        with urlopen(Request(address, number.encode(), {"Content-Type": "text/plain"}), timeout=_SECONDS):
            pass

    def _answers(self) -> bool:
        try:
            self.known()
        except (URLError, OSError):
            return False
        return True
