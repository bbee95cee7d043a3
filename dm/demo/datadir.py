"""Data directories in a fraction of a second: initialised once per server version, then copied.

Initialising MySQL takes seconds, copying the result a tenth of one. The template is made under a lock (several test
workers may want it at once) and appears by one rename. What must differ from server to server, MySQL's uuid in
auto.cnf, is left out: the server makes a new one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dm.demo.installation import Installation, cache_directory
from dm.errors import DMError

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
