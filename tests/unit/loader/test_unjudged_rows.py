"""Which tables of a target are loaded without a look at their CHECKs: those that have the source's and no others."""

from __future__ import annotations

import pytest

from dm.loader.part_writer import unjudged
from dm.mysql.sql.context import SourceContext

MARIADB, MYSQL = SourceContext("mariadb", 101119, "d"), SourceContext("mysql", 90700, "d")
SOURCE = (
    "CREATE TABLE `t` (`v` int(11) DEFAULT NULL CHECK (`v` > 0), `w` int(11), `j` longtext CHECK (json_valid(`j`)),"
    " CONSTRAINT `small` CHECK (`w` < 100 and (`v` <> 3 or `w` = 1)))"
)


@pytest.mark.parametrize(
    ("made", "without"),
    [
        (SOURCE, True),
        (SOURCE.replace("`small`", "`renamed`").replace(" DEFAULT NULL", ""), True),
        (SOURCE.replace(" CHECK (`v` > 0)", ""), True),
        (SOURCE.replace("`w` int(11)", "`w` int(11) CHECK (`w` > 0)"), False),
        (SOURCE.replace("`w` < 100", "`w` < 99"), False),
        ("CREATE TABLE `t` (`v` int(11) COMMENT 'CHECK (v > 0)')", False),
    ],
)
def test_only_the_sources_own_checks_are_left_out(made: str, without: bool) -> None:
    assert unjudged(SOURCE, MARIADB, made, MARIADB) is without
    assert not unjudged(SOURCE, MARIADB, made, MYSQL)
    assert not unjudged(SOURCE, MYSQL, made, MARIADB)
