"""A server's version as one number, in the form of executable comments."""

from __future__ import annotations

import re
from typing import Final

from dm.errors import DMError
from dm.flavor import Flavor, flavor_of, is_tidb

_VERSION = re.compile(r"^(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)")
_INDEX_EXPRESSIONS: Final = 80013


def version_number(text: str) -> int:
    """A version text as the number in executable comments: 8.0.36 is 80036, 10.11.19 is 101119.

    Raises DMError where a text does not begin with a version. A MariaDB's greeting begins with `5.5.5-`.
    """
    match = _VERSION.match(text)
    if match is None:
        raise DMError("server-version-unknown", version=text)
    major, minor, patch = (int(part) for part in match.groups())
    return major * 10000 + minor * 100 + patch


def tells_generation_expressions(flavor: Flavor, version: int) -> bool:
    """Whether information_schema.columns has generation_expression; MySQL 5.6 has no generated columns either."""
    return version >= (100200 if flavor == "mariadb" else 50700)


def tells_index_expressions(text: str) -> bool:
    """Whether information_schema.statistics has expression: MySQL since it has such indexes, and every TiDB."""
    return flavor_of(text) == "mysql" and (is_tidb(text) or version_number(text) >= _INDEX_EXPRESSIONS)
