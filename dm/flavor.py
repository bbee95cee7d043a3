"""MySQL or MariaDB: which of the two a server is, for all that differs between them."""

from __future__ import annotations

from typing import Final, Literal

Flavor = Literal["mysql", "mariadb"]
FLAVORS: Final[tuple[Flavor, ...]] = ("mysql", "mariadb")


def is_tidb(version: str) -> bool:
    """Whether that is a TiDB, which speaks MySQL's dialect: `8.0.11-TiDB-v8.5.0`."""
    return "-tidb-" in version.lower()


def flavor_of(version: str) -> Flavor:
    """What the server is that calls itself this: `SELECT VERSION()`, its greeting, a binlog's first event."""
    return "mariadb" if "mariadb" in version.lower() else "mysql"
