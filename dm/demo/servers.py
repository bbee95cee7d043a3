"""Private MySQL and MariaDB servers that start in about a second and leave nothing behind.

Each has its own directory, a random port on 127.0.0.1 that it keeps over restarts, and settings that trade the
machine's crash safety for speed: commits reach the operating system but not the disk. A SIGKILL of the server therefore
loses nothing that it acknowledged, and that is the crash the tests are about; a power cut is not.

Data directories in a fraction of a second: initialised once per server version, then copied.

Initialising MySQL takes seconds, copying the result a tenth of one. The template is made under a lock (several test
workers may want it at once) and appears by one rename. What must differ from server to server, MySQL's uuid in
auto.cnf, is left out: the server makes a new one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from dm.demo.installation import Installation, cache_directory, find
from dm.demo.private_server import HOST, GuardedProcess, PrivateServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor

Option = str | int | bool | None

_BOTH: Mapping[str, Option] = {
    "log_bin": "binlog",
    "sync_binlog": 0,
    "skip_name_resolve": True,
    "character_set_server": "utf8mb4",
    "secure_file_priv": "",
    "performance_schema": False,
    "innodb_flush_log_at_trx_commit": 2,
    "innodb_buffer_pool_size": "128M",
    # The kernel's requests (fs.aio-max-nr) are one pool for all servers of a machine; one that gets none won't start.
    "innodb_use_native_aio": False,
    "key_buffer_size": "1M",
}
_MYSQL: Mapping[str, Option] = {
    "mysqlx": False,
    "innodb_redo_log_capacity": "128M",
}
_MYSQL_56: Mapping[str, Option] = {
    "binlog_format": "ROW",  # the default is STATEMENT
    "log_slave_updates": True,  # without it there is no gtid_mode
    "innodb_log_file_size": "48M",
}
_MARIADB: Mapping[str, Option] = {
    "binlog_format": "ROW",  # the default is MIXED
    "log_slave_updates": True,
    "innodb_log_file_size": "96M",
    "aria_pagecache_buffer_size": "8M",
}


def _option(name: str, value: Option) -> str:
    if value is None:
        return f"--{name}"
    if isinstance(value, bool):
        return f"--{name}={'ON' if value else 'OFF'}"
    return f"--{name}={value}"


class ThrowawayServer(PrivateServer):
    """A MySQL or MariaDB.

    `options` are server variables with underscores; they go over the ones chosen here. `root` has the password
    `password` (random when not given) over the socket and over TCP.
    """

    _find = staticmethod(find)

    def __init__(
        self,
        flavor: Flavor,
        directory: Path,
        *,
        server_id: int,
        gtid: bool = True,
        options: Mapping[str, Option] | None = None,
        password: str | None = None,
    ) -> None:
        super().__init__(flavor, directory, secrets.token_urlsafe(12) if password is None else password)
        self.installation = self._find(flavor)
        self.server_id = server_id
        self.gtid = gtid
        self.options: dict[str, Option] = {
            **_BOTH,
            **self._flavor_options(),
            **self._gtid_options(),
            **(options or {}),
        }
        # The path of a Unix socket has to fit into 108 bytes, whatever the directory is called.
        self._sockets = Path(tempfile.mkdtemp(prefix="dm-"))
        self.socket = self._sockets / "s"

    @property
    def _before_57(self) -> bool:
        return self.flavor == "mysql" and self.installation.release < (5, 7)

    def _flavor_options(self) -> Mapping[str, Option]:
        if self.flavor == "mariadb":
            return _MARIADB
        return _MYSQL_56 if self._before_57 else _MYSQL

    def _gtid_options(self) -> Mapping[str, Option]:
        if self.flavor == "mysql":
            return {"gtid_mode": self.gtid, "enforce_gtid_consistency": self.gtid}
        return {"gtid_strict_mode": self.gtid}

    def __repr__(self) -> str:
        return f"{self.flavor} server {self.server_id} at {self.host}:{self.port}"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    @property
    def _temporary(self) -> Path:
        # Its own: a MariaDB that starts removes all `#sql*` of its tmpdir, also the temporary tables of other servers,
        # which then crash when they drop them (MariaDB source, mysql_rm_tmp_tables).
        return self.directory / "tmp"

    def start(self) -> Self:
        """Start the server and wait until it answers; raises DMError with the end of its log."""
        if self.running:
            raise RuntimeError(f"{self!r} runs already")
        self._temporary.mkdir(parents=True, exist_ok=True)
        self._sockets.mkdir(exist_ok=True)
        first = self.port == 0
        if first:
            if self.data.exists():
                raise FileExistsError(f"{self.data} is the data of another server")
            texts = {name: str(value) for name, value in self.options.items()}
            create(self.installation, self.data, texts)
            self._write_first_statements()
        for _ in range(5):
            if first:
                self._reserve_port()
            self._launch(first=first)
            if self._await_ready():
                if first:
                    self._first_statements.unlink()
                return self
            log = self.log_tail()
            # Someone who reserves nothing may have taken the port since.
            if not (first and "Address already in use" in log):
                break
        raise DMError("server-not-started", flavor=self.flavor, directory=self.directory, log=log)

    @property
    def _first_statements(self) -> Path:
        return self.directory / "first-start.sql"

    def _write_first_statements(self) -> None:
        password = self.password.replace("\\", "\\\\").replace("'", "''")
        accounts, own, table = "", f"ALTER USER root@localhost IDENTIFIED BY '{password}'", "global_priv"
        if self._before_57 or (self.flavor == "mariadb" and self.installation.release < (10, 4)):
            # MariaDB 10.4 made mysql.user a view of another table (its release notes). MariaDB 10.1 has no ALTER
            # USER, and in MySQL 5.6 it sets no password.
            table, own = "user", f"SET PASSWORD FOR root@localhost = PASSWORD('{password}')"
        if self._before_57 or self.flavor == "mariadb":
            # Their scripts make root@127.0.0.1 and others without a password; they would win over root@'%'.
            accounts = (
                f"DELETE FROM mysql.{table} WHERE Host <> 'localhost' OR User NOT IN ('root', 'mariadb.sys');\n"
                "FLUSH PRIVILEGES;\n"
            )
        self._first_statements.touch(mode=0o600)
        self._first_statements.write_text(
            # Not into the binlog: a new server's binlog and GTID set are empty.
            f"SET SESSION sql_log_bin=0;\n{accounts}{own};\n"
            f"CREATE USER root@'%' IDENTIFIED BY '{password}';\n"
            "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n",
            encoding="utf-8",
        )

    def _launch(self, *, first: bool) -> None:
        settings: dict[str, Option] = {
            **self.options,
            "datadir": str(self.data),
            "tmpdir": str(self._temporary),
            "socket": str(self.socket),
            "port": self.port,
            "bind_address": HOST,
            "server_id": self.server_id,
            "pid_file": str(self.directory / "server.pid"),
        }
        if first:
            settings["init_file"] = str(self._first_statements)
        program = "mysqld" if self.flavor == "mysql" else "mariadbd"
        self._process = GuardedProcess(
            [
                *self.installation.command(program),
                "--no-defaults",
                *owner_option(),
                *self.installation.server_options,
                *(_option(name, value) for name, value in settings.items()),
            ],
            log=self.log,
        )
        self._frozen = False

    def leave_log(self) -> None:
        """Kill the server and delete its data; its log stays."""
        self.kill()
        for files in (self.data, self._temporary, self._sockets):
            shutil.rmtree(files, ignore_errors=True)

    def destroy(self) -> None:
        """Kill the server and delete all its files."""
        super().destroy()
        shutil.rmtree(self._sockets, ignore_errors=True)


# Options that a data directory is created with and that its server can't change any more.
FIXED_AT_CREATION = frozenset({"lower_case_table_names", "innodb_page_size"})


def create(installation: Installation, directory: Path, options: Mapping[str, str]) -> None:
    """Make `directory` a data directory without users other than root, who has no password yet."""
    fixed = {name: value for name, value in sorted(options.items()) if name in FIXED_AT_CREATION}
    shutil.copytree(_template(installation, fixed), directory)


def owner_option() -> list[str]:
    """What a server started by root must be told, lest it refuse."""
    return ["--user=root"] if os.geteuid() == 0 else []


def _template(installation: Installation, fixed: Mapping[str, str]) -> Path:
    templates = _templates()
    templates.mkdir(parents=True, exist_ok=True)
    name = "-".join([installation.flavor, installation.version, *(f"{key}={value}" for key, value in fixed.items())])
    template = templates / name
    with (templates / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            with tempfile.TemporaryDirectory(prefix=f"{name}.", dir=templates) as workplace:
                data = Path(workplace) / "data"
                temporary = Path(workplace) / "tmp"
                temporary.mkdir()
                _initialise(installation, data, temporary, fixed)
                (data / "auto.cnf").unlink(missing_ok=True)
                data.rename(template)
    return template


def _templates() -> Path:
    """Beside the servers; where another user has installed these, in the cache of this user, who can't write there.

    Nor could this user read what is there: a server makes its data directory for its own user.
    """
    shared = cache_directory()
    if not shared.exists() or os.access(shared, os.W_OK):
        return shared / "templates"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dm" / "templates"


def _initialise(installation: Installation, data: Path, temporary: Path, fixed: Mapping[str, str]) -> None:
    # A MariaDB that starts removes all `#sql*` of its tmpdir (MariaDB source, mysql_rm_tmp_tables). In a shared one it
    # would take the temporary tables of other servers, and they its own.
    options = ["--no-defaults", f"--datadir={data}", f"--tmpdir={temporary}", *owner_option()]
    options += installation.server_options
    options += [f"--{name}={value}" for name, value in fixed.items()]
    statements = ""
    if installation.system_tables:
        command = installation.command("mysqld" if installation.flavor == "mysql" else "mariadbd")
        (data / "mysql").mkdir(parents=True)
        options += ["--bootstrap", "--log-warnings=0", "--innodb-log-file-size=8M"]
        options += ["--skip-log-bin", "--max-allowed-packet=8M", "--net-buffer-length=16K"]
        if installation.flavor == "mariadb":
            options += ["--enforce-storage-engine="]
        scripts = "".join(script.read_text(encoding="utf-8") for script in installation.system_tables)
        statements = f"CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n{scripts}"
    elif installation.flavor == "mysql":
        command = installation.command("mysqld")
        options += ["--initialize-insecure", "--innodb-redo-log-capacity=8M", "--skip-log-bin"]
    else:
        command = installation.command("mariadb-install-db")
        options += ["--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M"]
        options += ["--skip-log-bin"]
    done = subprocess.run([*command, *options], input=statements, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        log = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise DMError("server-not-started", flavor=installation.flavor, directory=data, log=log)
