"""The way from `dmctl` to the daemon: HTTP over the Unix socket of this user's daemon, or to --addr.

Where no address is given and no daemon runs, a private one is started; it keeps running when `dmctl` ends, since
tasks are to go on. One that is started for the first time knows nothing. That may not be what is meant, so it is said,
with the daemons that run on this machine.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dm.errors import DMError, ErrorReport
from dm.verbs.declaration import ConfigFile, Verb
from dm.verbs.program import Daemon
from dm.worker.home import HOME_OPTION, HOME_TAKEN_STATUS, Home

if TYPE_CHECKING:
    from subprocess import Popen


START_SECONDS = 120.0  # of a machine that does other things; a daemon that ends is noticed at once
# A verb answers when its work is done: a check asks several servers, a pause waits until the units rest. DM's default.
ANSWER_SECONDS = 600.0
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")  # as dm.config reads it, without importing that much

# What a daemon needs of its user's environment. It outlives the shell that it was started from, and so do its children;
# what else is set there, passwords for ${VARIABLE} in files above all, is not for their environments to keep.
_PASSED_ON = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
        "VIRTUAL_ENV", "DM_FAULTS", "DM_FAULTS_LOG",
    }
)  # fmt: skip
_PASSED_ON_PREFIXES = ("LC_", "XDG_", "PYTHON", "PYSPARK_", "SPARK_", "JAVA_", "JDK_", "HADOOP_", "YARN_", "KRB5")

Answer = dict[str, Any]
Say = Callable[[str], None]


class RequestRefused(Exception):
    """The daemon said no."""

    def __init__(self, report: ErrorReport, answer: Answer) -> None:
        super().__init__(report["Message"])
        self.report = report
        self.answer = answer


def read_config_file(path: str) -> ConfigFile:
    """A file as the API takes it: its text, and what it refers to that only this side knows."""
    try:
        text = Path(path).read_bytes().decode()
    except OSError as error:
        raise DMError("file-unreadable", file=path, cause=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise DMError("file-unreadable", file=path, cause=f"it is not text in UTF-8 (byte {error.start})") from error
    names = set(_VARIABLE.findall(text))
    environment = {name: os.environ[name] for name in names if name in os.environ}
    return ConfigFile(path, text, str(Path(path).absolute().parent), environment)


class Client:
    """A connection to one daemon."""

    def __init__(
        self,
        address: str | None,
        environment: Mapping[str, str],
        say: Say,
        seconds: float = ANSWER_SECONDS,
        shown: Shown | None = None,
    ) -> None:
        self._say = say
        self._home = Home.of(environment)
        self._address = address
        self._seconds = seconds
        self._where = str(self._home.directory) if address is None else address
        self._environment = environment
        self._shown = shown or Shown.of(environment)
        self._headers = {} if address is None else self._shown.authorization(self._home)

    def ask(self, verb: Verb) -> Answer:
        """Have a verb done; raises Refused and DMError."""
        method, target, body = verb.request()
        return self._request(method, target, body)

    def running(self) -> bool:
        """Whether the daemon answers, without starting one."""
        try:
            self._send(*Daemon().request())
        except OSError:
            return False
        return True

    def _request(self, method: str, path: str, body: object) -> Answer:
        from dm.worker.exchange import NotConnectedError  # not for --help

        try:
            try:
                answer = self._send(method, path, body)
            except NotConnectedError as error:
                if self._address is not None:
                    raise DMError("daemon-unreachable", address=self._address) from error
                self._start_daemon()
                answer = self._send(method, path, body)
        except TimeoutError as error:
            raise DMError("daemon-silent", address=self._where, seconds=f"{self._seconds:g}") from error
        except OSError as error:
            raise DMError("daemon-unreachable", address=self._where) from error
        return self._answer(*answer)

    def _send(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        from dm.worker.exchange import NotConnectedError, over_port, over_socket  # not for --help

        request = (method, path, body)
        if self._address is not None:
            demand = self._demand()
            return over_port(self._address, request, self._headers, self._seconds, demand)
        if not self._home.exists():
            raise NotConnectedError("no daemon has ever run here")
        with self._home.socket_path() as name:
            return over_socket(name, request, self._seconds)

    def _demand(self) -> Callable[[Any], None]:
        """What the other end must be before anything is sent to it."""
        if self._shown.authority:
            from dm.worker.exchange import TlsFiles, encrypted

            return encrypted(TlsFiles(self._shown.authority, self._shown.certificate, self._shown.key))
        from dm.cli.listener import demand_trusted_listener

        return lambda connection: demand_trusted_listener(connection.sock, self._environment)

    def _answer(self, status: int, text: bytes) -> Answer:
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise DMError("bad-answer", address=self._where, status=status) from error
        if not isinstance(answer, dict) or "result" not in answer:
            raise DMError("bad-answer", address=self._where, status=status)
        if answer["result"]:
            return answer
        if "error" in answer:
            raise RequestRefused(cast(ErrorReport, answer["error"]), answer)
        raise DMError("bad-answer", address=self._where, status=status, cause=str(answer.get("msg")))

    def _start_daemon(self) -> None:
        from dm.worker.installed import demand_worker  # seldom needed

        demand_worker()
        with self._home.usable():
            self._start_daemon_in_home()

    def _start_daemon_in_home(self) -> None:
        if self._home.service_mark.exists():  # it is just being started again, or rests; ours would be in its way
            raise DMError("daemon-is-service", home=self._home.directory)
        self._home.create()
        log = self._home.daemon_log
        whose = f"starting a private one for user {_user_name(os.getuid())} (log: {log})"
        self._say(f"no dm-worker runs in {self._home.directory}: {whose}")
        if not self._home.registry.exists():
            for other in _daemons():
                self._say(other)
            self._say(
                "the new one knows no sources and no tasks; if another is meant, name its address with --addr or "
                "DM_ADDR, or its directory with DM_HOME"
            )
        process = self._launch(log)
        deadline = time.monotonic() + START_SECONDS
        while not self.running():
            status = process.poll()
            if status not in (None, HOME_TAKEN_STATUS):
                raise DMError("daemon-start-failed", log=log, cause=_last_line(log))
            if time.monotonic() > deadline:
                slow = f"process {process.pid} runs, but has not answered for {START_SECONDS:g} s"
                raise DMError("daemon-start-failed", log=log, cause=slow)
            time.sleep(0.05)
            if status == HOME_TAKEN_STATUS and not self.running():
                # Another one is just starting, and will answer soon; or just ending, and then this one is needed.
                process = self._launch(log)

    def _launch(self, log: Path) -> Popen[bytes]:
        import subprocess  # seldom needed, and slow to import

        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "dm.worker.daemon", HOME_OPTION, str(self._home.directory)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**_passed_on(os.environ), "DM_HOME": str(self._home.directory)},
            )


def _daemons() -> Iterator[str]:
    """The daemons that run on this machine, as far as this user may see them."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            owner = process.stat().st_uid
        except OSError:
            continue  # it has ended
        if b"dm.worker.daemon" in command[:4] or any(word.endswith(b"/dm-worker") for word in command[:2]):
            yield f"dm-worker (pid {process.name}) of user {_user_name(owner)} runs{_home_of(command)}"


def _home_of(command: Sequence[bytes]) -> str:
    """From its arguments, which everybody may read; the environment of a process with passwords is root's alone."""
    words = [os.fsdecode(word) for word in command]
    named = words[words.index(HOME_OPTION) + 1 :] if HOME_OPTION in words else []
    return f" in {named[0]}" if named else ""


def _user_name(uid: int) -> str:
    import pwd  # seldom needed

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)  # a container's user without an entry


def _passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environment.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What `dmctl` shows at a port, and wants to be shown there: paths of files, or nothing."""

    token: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str], **given: str | None) -> Shown:
        """What was given, else what the environment names."""
        names = {"token": "DM_TOKEN_FILE", "authority": "DM_SSL_CA", "certificate": "DM_SSL_CERT", "key": "DM_SSL_KEY"}
        return cls(**{field: given.get(field) or environment.get(name, "") for field, name in names.items()})

    def authorization(self, home: Home) -> dict[str, str]:
        """The header with the token; nothing where this user has none, then the daemon says which one it needs."""
        path = Path(self.token) if self.token else home.token
        try:
            token = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            if self.token:
                raise DMError("token-unusable", path=path, problem="it is not there") from None
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise DMError("token-unusable", path=path, problem="it can't be read", cause=str(error)) from error
        return {} if self.certificate and not self.token else {"Authorization": f"Bearer {token}"}
