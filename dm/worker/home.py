"""Where one user's daemon keeps its things: $DM_HOME, by default ~/.dm, readable by that user alone."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dm.errors import DMError

SOCKET_NAME = "dm-worker.sock"
HOME_OPTION = "--home"  # of the daemon
HOME_TAKEN_STATUS = 4  # the exit status of a daemon that finds another one in its home


@dataclass(frozen=True, slots=True)
class Home:
    """The directory and the names in it."""

    directory: Path
    key_file: Path | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], key_file: Path | None = None) -> Home:
        """The home that the environment names; the key of encrypted passwords may lie elsewhere."""
        named = environment.get("DM_HOME")
        return cls((Path(named) if named else Path("~/.dm")).expanduser().absolute(), key_file)

    @property
    def secret_key(self) -> Path:
        """The file with the key of passwords that DM has encrypted; it need not be there."""
        return self.key_file or self.directory / "secret-key"

    @property
    def registry(self) -> Path:
        """The sqlite database of sources, tasks and intents."""
        return self.directory / "registry.sqlite"

    @property
    def cluster_copy(self) -> Path:
        """A copy of the registry that several hosts share (dm/worker/shared_registry.py)."""
        return self.directory / "cluster.sqlite"

    @property
    def cluster_mark(self) -> Path:
        """The number of this home, and of the cluster that it has joined."""
        return self.directory / "cluster"

    @property
    def service_mark(self) -> Path:
        """There if a service manager starts the daemon of this home, so that nobody else does."""
        return self.directory / "service"

    @property
    def token(self) -> Path:
        """The token of this user for requests through a port (dm/worker/access.py)."""
        return self.directory / "token"

    @property
    def metrics_token(self) -> Path:
        """The token that is enough for reading `/metrics`."""
        return self.directory / "metrics-token"

    @property
    def tokens(self) -> Path:
        """Names, permissions and hashes of all other tokens."""
        return self.directory / "tokens"

    @property
    def audit_log(self) -> Path:
        """Who has changed what (dm/worker/audit.py)."""
        return self.logs / "audit.log"

    @property
    def logs(self) -> Path:
        """Logs of the daemon and of each host process."""
        return self.directory / "log"

    @property
    def daemon_log(self) -> Path:
        """The daemon's own log."""
        return self.logs / "dm-worker.log"

    @property
    def history(self) -> Path:
        """The timeline, and the curves of lag and rate (dm/worker/history)."""
        return self.directory / "history"

    @property
    def work(self) -> Path:
        """Dump files and other things of running tasks."""
        return self.directory / "work"

    def relay(self, source: str) -> Path:
        """The relay directory of a source; a source's id is checked to be a plain name when its file is read."""
        return self.directory / "relay" / source

    def log_of(self, host: str) -> Path:
        """The log of a host process."""
        return self.logs / f"{host.replace(':', '.')}.log"

    def exists(self) -> bool:
        """Whether it was made."""
        with self.usable():
            return self.directory.is_dir()

    def create(self) -> None:
        """Make the directories that are missing, for this user alone."""
        with self.usable():
            for directory in (self.directory, self.logs, self.work, self.history, self.directory / "relay"):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                demand_own(os.stat(directory), directory)
            self.directory.chmod(0o700)

    @contextmanager
    def usable(self) -> Iterator[None]:
        """Say of what the system refuses here that it is about the home."""
        try:
            yield
        except OSError as error:
            raise DMError("home-unusable", home=self.directory, cause=_told(error)) from error

    @contextmanager
    def socket_path(self) -> Iterator[str]:
        """A path of the socket that is short enough.

        A Unix socket's address holds 107 bytes (unix(7)) and a home may lie deep, so the way there leads through a
        descriptor of the directory.
        """
        with self.usable():
            descriptor = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
        finally:
            os.close(descriptor)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only daemon here; the kernel drops the lock with the process, however that ends."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.usable():
            descriptor = os.open(self.directory / "lock", flags, 0o600)
        try:
            with self.usable():
                demand_own(os.fstat(descriptor), self.directory / "lock")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as taken:
                pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
                raise DMError("daemon-running", pid=pid, home=self.directory) from taken
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)


def demand_own(found: os.stat_result, path: Path) -> None:
    """Raise OSError where a file or directory is another user's: its owner may change what is in it at any time."""
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, f"it belongs to user {found.st_uid}, this is user {os.geteuid()}", str(path))


def _told(error: OSError) -> str:
    """The system's words and the name that they are about, which may be one above the home."""
    return f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
