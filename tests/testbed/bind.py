"""A name server of the test's own: BIND with one zone that takes signed updates. `scripts/fetch_bind.sh` brings it."""

from __future__ import annotations

import base64
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dm.demo.installation import cache_directory
from dm.demo.private_server import HOST, GuardedProcess, free_port
from tests.testbed.sync import wait_until

ZONE: Final = "shop.test"
_SECRETS: Final = [base64.b64encode(each).decode() for each in (b"the secret of a test", b"that of another one")]
_KEY: Final = 'key "{name}" {{ algorithm hmac-sha256; secret "{secret}"; }};\n'


def programs() -> Path:
    """Where `nsupdate` and `dig` are."""
    return cache_directory() / "bind" / "bin"


class NameServer:
    """Started and ended as a context."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = free_port()
        self.key, self.wrong_key = directory / "key", directory / "wrong.key"
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir()
        self.key.write_text(_KEY.format(name="dm", secret=_SECRETS[0]))
        self.wrong_key.write_text(_KEY.format(name="dm", secret=_SECRETS[1]))
        (self._directory / "zone").write_text(
            f"$TTL 60\n@ SOA ns.{ZONE}. root.{ZONE}. 1 60 60 60 60\n@ NS ns\nns A {HOST}\ndb A 192.0.2.1\n"
        )
        (self._directory / "named.conf").write_text(
            self.key.read_text()
            + f'options {{ directory "{self._directory}"; recursion no;'
            + f" listen-on port {self.port} {{ {HOST}; }}; listen-on-v6 {{ none; }};"
            + f' pid-file "{self._directory}/pid"; session-keyfile "{self._directory}/session"; }};\n'
            + "controls { };\n"
            + f'zone "{ZONE}" {{ type primary; file "zone"; update-policy {{ grant dm name db.{ZONE}. ANY; }}; }};\n'
        )
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Begin to answer, with the zone as it was left."""
        program = programs() / "named"
        assert program.exists(), "scripts/fetch_bind.sh puts BIND in place"
        command = (str(program), "-f", "-n", "1", "-c", str(self._directory / "named.conf"))
        self._process = GuardedProcess(command, log=self._directory / "log")
        wait_until(lambda: self.found("ns") == [HOST], "the name server answers")

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.send(signal.SIGKILL)
        self._process.wait(30)

    def found(self, name: str, kind: str = "A") -> list[str]:
        """What it says of a name of the zone."""
        asked = ("+short", "+time=1", "+tries=1", "-p", str(self.port), f"@{HOST}", f"{name}.{ZONE}", kind)
        said = subprocess.run((str(programs() / "dig"), *asked), capture_output=True, text=True, check=False).stdout
        return [line for line in said.splitlines() if not line.startswith(";")]
