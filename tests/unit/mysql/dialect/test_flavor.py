"""Which server it is, from what it calls itself."""

from __future__ import annotations

import pytest

from dm.mysql.dialect import Flavor, dialect, flavor_of


@pytest.mark.parametrize(
    ("version", "flavor"),
    [
        ("9.7.4", "mysql"),
        ("8.0.36-0ubuntu0.22.04.1", "mysql"),
        ("10.11.19-MariaDB-0+deb12u1", "mariadb"),
        ("5.5.5-10.6.12-MariaDB-log", "mariadb"),
        ("8.0.11-TiDB-v8.5.0", "tidb"),
        ("5.7.25-TiDB-v6.5.0-serverless", "tidb"),
        ("8.0.11-TiDB", "tidb"),  # as its `server-version` may be set
    ],
)
def test_a_version_says_it(version: str, flavor: Flavor) -> None:
    assert flavor_of(version) == flavor


def test_a_capability_of_some_versions_is_not_guessed_without_one() -> None:
    assert dialect("mysql", 80013).tells_index_expressions
    assert not dialect("mysql", 80012).tells_index_expressions
    with pytest.raises(ValueError, match="version"):
        bool(dialect("mysql").tells_index_expressions)
    assert dialect("tidb").tells_index_expressions
    assert not dialect("mariadb").tells_index_expressions
