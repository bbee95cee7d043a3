"""Which server it is, from what it calls itself."""

from __future__ import annotations

import pytest

from dm.flavor import Flavor, flavor_of, is_tidb


@pytest.mark.parametrize(
    ("version", "flavor", "tidb"),
    [
        ("9.7.4", "mysql", False),
        ("8.0.36-0ubuntu0.22.04.1", "mysql", False),
        ("10.11.19-MariaDB-0+deb12u1", "mariadb", False),
        ("5.5.5-10.6.12-MariaDB-log", "mariadb", False),
        ("8.0.11-TiDB-v8.5.0", "mysql", True),
        ("5.7.25-TiDB-v6.5.0-serverless", "mysql", True),
    ],
)
def test_a_version_says_it(version: str, flavor: Flavor, tidb: bool) -> None:
    assert (flavor_of(version), is_tidb(version)) == (flavor, tidb)
