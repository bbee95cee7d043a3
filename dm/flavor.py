"""MySQL or MariaDB: which of the two a server is, for all that differs between them."""

from __future__ import annotations

from typing import Final, Literal

Flavor = Literal["mysql", "mariadb"]
FLAVORS: Final[tuple[Flavor, ...]] = ("mysql", "mariadb")


def flavor_of(version: str) -> Flavor:
    """What the server is that calls itself this: `SELECT VERSION()`, its greeting, a binlog's first event."""
    return "mariadb" if "mariadb" in version.lower() else "mysql"
