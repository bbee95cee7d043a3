"""Prometheus itself, from the cache directory: scrapes what a test's configuration names, and answers queries."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from dm.demo.installation import cache_directory
from dm.demo.private_server import GuardedProcess, free_port

_SECONDS = 60.0  # a limit for what hangs


@dataclass
class Prometheus:
    """A server with a configuration of the test's own; it dies with the test run."""

    directory: Path
    port: int = field(default_factory=free_port)
    _process: GuardedProcess | None = None

    def start(self, configuration: str) -> Self:
        """Start it; files that the configuration names are relative to the directory."""
        file = self.directory / "prometheus.yml"
        file.write_text(configuration, encoding="utf-8")
        program = cache_directory() / "prometheus" / "prometheus"
        assert program.exists(), "scripts/fetch_programs.sh puts Prometheus in place"
        self._process = GuardedProcess(
            [
                str(program),
                f"--config.file={file}",
                f"--storage.tsdb.path={self.directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            log=self.directory / "prometheus.log",
        )
        return self

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.send(signal.SIGTERM)
            try:
                self._process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.send(signal.SIGKILL)

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The labels and value of each series that an expression has now."""
        found = self._get("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def until(self, expression: str, wanted: float) -> dict[str, str]:
        """Wait for an expression to have one series with this value; says its labels."""
        deadline = time.monotonic() + _SECONDS
        found = self.query(expression)
        while [value for _, value in found] != [wanted]:
            assert time.monotonic() < deadline, f"{expression}: {found}, {self.targets()}"
            time.sleep(0.1)
            found = self.query(expression)
        return found[0][0]

    def targets(self) -> list[dict[str, Any]]:
        """What it scrapes, with the error of the last scrape."""
        targets: list[dict[str, Any]] = self._get("targets")["activeTargets"]
        return targets

    def rules(self) -> list[dict[str, Any]]:
        """The rules with what came of their last evaluation."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, what: str, **parameters: str) -> Any:
        address = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urlencode(parameters)}"
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                with urlopen(address, timeout=_SECONDS) as answer:
                    return json.load(answer)["data"]
            except URLError:  # it is just starting
                assert self._process is not None
                assert self._process.poll() is None, (self.directory / "prometheus.log").read_text(encoding="utf-8")
                assert time.monotonic() < deadline
                time.sleep(0.1)
