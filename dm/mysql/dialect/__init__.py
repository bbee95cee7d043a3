"""How MySQL, MariaDB and TiDB differ: a named capability for each difference, and a file for each server.

`server.py` names what there is to ask, with its reason; `mysql.py`, `mariadb.py` and `tidb.py` say what each has, and
since which version. The rest of dm asks a capability, and never which server it is
(`tests/unit/mysql/dialect/test_one_place.py`). `pair.py` has what two servers have in common.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from dm.mysql.dialect.mariadb import MariaDB
from dm.mysql.dialect.mysql import MySQL
from dm.mysql.dialect.server import Dialect, Flavor, LoggedFlavor
from dm.mysql.dialect.tidb import TiDB

__all__ = ["FLAVORS", "Dialect", "Flavor", "LoggedFlavor", "dialect", "flavor_named", "flavor_of"]

_CLASSES: Final[dict[Flavor, type[Dialect]]] = {"mysql": MySQL, "mariadb": MariaDB, "tidb": TiDB}
FLAVORS: Final[tuple[Flavor, ...]] = ("mysql", "mariadb")
"""Those that have a binlog."""


@lru_cache(maxsize=256)
def dialect(flavor: Flavor, version: int | None = None) -> Dialect:
    """The dialect of a server; without its version, only what all versions have can be asked."""
    return _CLASSES[flavor](version)


def flavor_of(version: str) -> Flavor:
    """Which server calls itself this: `SELECT VERSION()`, its greeting, a binlog's first event."""
    text = version.lower()
    return "tidb" if "tidb" in text else "mariadb" if "mariadb" in text else "mysql"


def flavor_named(name: object) -> Flavor:
    """The flavor that a stored text names; MySQL, where it names none."""
    return next((flavor for flavor in _CLASSES if flavor == name), "mysql")
