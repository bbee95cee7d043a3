"""A Spark standalone cluster of one's own: a master and two workers from the pip package, on private ports.

Its hosts share a secret, as docs/cluster.md has it.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from dm.demo.private_server import free_port
from dm.spark.java import find_java_home

_START_SECONDS = 300.0  # of a machine that does other things
_DEFAULTS = "spark-defaults.conf"
_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


@dataclass
class StandaloneCluster:
    """Its workers have one core each, or as many as it is told."""

    directory: Path
    cores: int = 1
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _master: subprocess.Popen[bytes] | None = None
    _port: int = 0
    _secret: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def url(self) -> str:
        """What goes into `spark.master`."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """What a job of this cluster needs in `spark.conf`, as its hosts have it in their own."""
        return {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self._secret,
            "spark.network.crypto.enabled": "true",
        }

    def start(self, workers: int = 2) -> StandaloneCluster:
        """Start master and workers, and wait until they know each other."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        (self.directory / _DEFAULTS).write_text("".join(f"{key} {value}\n" for key, value in self.settings.items()))
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._master = self._launch("master", "master.Master", *place, "--port", str(self._port))
        self._await("master", "New state: ALIVE", self._master)
        for _ in range(workers):
            self.add_worker()
        return self

    def add_worker(self) -> None:
        """One more worker."""
        name = f"worker-{len(self.workers)}"
        work = ["--cores", str(self.cores), "--memory", "1g", "--work-dir", str(self.directory / name)]
        worker = self._launch(name, "worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", *work, self.url)
        self.workers.append(worker)
        self._await(name, "Successfully registered with master", worker)

    def worker_of(self, pid: int) -> subprocess.Popen[bytes]:
        """The worker under which the process runs."""
        return next(worker for worker in self.workers if pid in family(worker.pid))

    def kill_host(self, worker: subprocess.Popen[bytes]) -> None:
        """SIGKILL of everything that runs on the worker's host, as if it had lost its power."""
        for pid in family(worker.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        worker.wait()
        self.workers.remove(worker)

    def close(self) -> None:
        """End it all."""
        for worker in list(self.workers):
            self.kill_host(worker)
        if self._master is not None:
            self._master.kill()
            self._master.wait()

    def _launch(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        from pyspark.find_spark_home import _find_spark_home

        launcher = Path(_find_spark_home()) / "bin" / "spark-class"
        kind, defaults = f"org.apache.spark.deploy.{main}", str(self.directory / _DEFAULTS)
        # No PYTHONPATH: what workers know of this package is what the job brings along.
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "DM_FAULTS")}
        environment |= {
            "JAVA_HOME": str(find_java_home(self.directory)),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _OPTIONS,
        }
        with (self.directory / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(launcher), kind, "--properties-file", defaults, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.directory,
            )

    def _await(self, name: str, words: str, process: subprocess.Popen[bytes]) -> None:
        log = self.directory / f"{name}.log"
        deadline = time.monotonic() + _START_SECONDS
        while words not in log.read_text(errors="replace"):
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
            time.sleep(0.05)
