"""An etcd of the test's own, which it may kill, freeze, empty or give a password. `fetch_programs.sh` brings it."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from dm.clock import SystemClock
from dm.cluster.etcd import Etcd
from dm.cluster.etcd_access import EtcdAccess
from dm.demo.installation import cache_directory
from dm.demo.private_server import HOST, GuardedProcess, ReservedPort
from dm.errors import DMError
from tests.testbed.certificates import Authority
from tests.testbed.sync import wait_until

PASSWORD: Final = "etcds own"


class EtcdServer:
    """One etcd, started and ended as a context."""

    def __init__(self, directory: Path, authority: Authority | None = None) -> None:
        self.directory = directory
        self.authority = authority
        self._ports = ReservedPort(), ReservedPort()
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        for port in self._ports:
            port.release()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"{'http' if self.authority is None else 'https'}://{HOST}:{self._ports[0].number}"

    def access(self, user: str = "", password: str = "") -> EtcdAccess:
        """As a client reaches it."""
        authority = "" if self.authority is None else self.authority.file.read_text()
        return EtcdAccess((self.endpoint,), authority=authority, user=user, password=password)

    def client(self, user: str = "", password: str = "") -> Etcd:
        """A client."""
        return Etcd(self.access(user, password), SystemClock())

    def start(self) -> Self:
        """Start it and wait until it answers, with or without a user."""
        program = cache_directory() / "etcd" / "etcd"
        assert program.exists(), "scripts/fetch_programs.sh puts etcd in place"
        peer = f"http://{HOST}:{self._ports[1].number}"
        tls: list[str] = []
        if self.authority is not None:
            certificate, key = self.authority.signed("etcd", addresses=(HOST,))
            tls = [f"--cert-file={certificate}", f"--key-file={key}"]
        command = [
            str(program), f"--data-dir={self.directory / 'data'}", "--name=only", "--log-level=error",
            f"--listen-client-urls={self.endpoint}", f"--advertise-client-urls={self.endpoint}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=only={peer}",
            "--heartbeat-interval=100", "--election-timeout=1000", *tls,
        ]  # fmt: skip
        self._process = GuardedProcess(command, log=self.directory / "log")
        wait_until(self._answers, "etcd answers")
        return self

    def _answers(self) -> bool:
        client = self.client()
        try:
            client.read("nothing/")
        except DMError as error:
            return error.name == "etcd-refused"  # it wants a user
        finally:
            client.close()
        return True

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.send(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def freeze(self) -> None:
        """Let it stand still."""
        assert self._process is not None
        self._process.stop()

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send(signal.SIGCONT)

    def lose_data(self) -> None:
        """Start it anew, with nothing."""
        self.kill()
        shutil.rmtree(self.directory / "data")
        self.start()

    def demand_password(self) -> None:
        """From now on it wants the user root with the password."""
        client = self.client()
        for path, body in (
            ("auth/user/add", {"name": "root", "password": PASSWORD}),
            ("auth/role/add", {"name": "root"}),
            ("auth/user/grant", {"user": "root", "role": "root"}),
            ("auth/enable", {}),
        ):
            _asked(client, path, body)
        client.close()


def _asked(client: Etcd, path: str, body: dict[str, Any]) -> None:
    client._call(path, body, safe=True)
