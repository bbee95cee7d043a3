"""A statement that is refused for want of a privilege: the privilege is named, not user and password."""

from __future__ import annotations

import pymysql
import pytest

from dm.target.failure import failure
from dm.upstream.connection import server_error

CASES = [
    (
        1227,
        "Access denied; you need (at least one of) the RELOAD privilege(s) for this operation",
        "the privilege RELOAD",
        "GRANT RELOAD ON *.* TO ..",
    ),
    (
        1227,
        "Access denied; you need (at least one of) the RELOAD or FLUSH_TABLES privilege(s) for this operation",
        "the privilege RELOAD or FLUSH_TABLES",
        "GRANT RELOAD ON *.* TO ..",
    ),
    (
        1227,
        "Access denied; you need (at least one of) the SUPER, BINLOG MONITOR privilege(s) for this operation",
        "the privilege SUPER, BINLOG MONITOR",
        "GRANT BINLOG MONITOR ON *.* TO ..",
    ),
    (
        1142,
        "SELECT command denied to user 'dm'@'localhost' for table 'orders'",
        "the privilege SELECT on orders",
        "GRANT SELECT ON orders TO ..",
    ),
    (
        1142,
        "DROP command denied to user 'dm'@'localhost' for table `shop`.`orders`",
        "the privilege DROP on `shop`.`orders`",
        "GRANT DROP ON `shop`.`orders` TO ..",
    ),
    (
        1142,
        "SHOW command denied to user 'dm'@'localhost' for table `shop`.`orders`",
        "the privilege SELECT on `shop`.`orders`",
        "GRANT SELECT ON `shop`.`orders` TO ..",
    ),
    (
        1143,
        "UPDATE command denied to user 'dm'@'localhost' for column 'v' in table 'orders'",
        "the privilege UPDATE on orders",
        "GRANT UPDATE ON orders TO ..",
    ),
    (
        1044,
        "Access denied for user 'dm'@'%' to database 'shop'",
        "a privilege on `shop`.*",
        "GRANT .. ON `shop`.* TO ..",
    ),
    (1142, "Befehl verweigert", "a privilege", "GRANT .. ON .. TO .."),
]


@pytest.mark.parametrize(("number", "words", "lacks", "grant"), CASES)
def test_both_ends_name_what_is_missing(number: int, words: str, lacks: str, grant: str) -> None:
    raised = pymysql.err.OperationalError(number, words)
    at_source = server_error(raised, role="source one", host="db", port=3306, user="dm", statement="..")
    at_target = failure(raised, "db:3306", b"..", user="dm")
    for error in (at_source, at_target):
        assert error.name == "privilege-missing"
        assert error.details["lacks"] == lacks
        assert grant in error.workaround
        assert "password" not in error.workaround
        assert "resume-relay" in error.workaround
        assert words in error.cause


@pytest.mark.parametrize("number", [1045, 1130, 1698])
def test_a_refused_login_is_about_user_and_password(number: int) -> None:
    raised = pymysql.err.OperationalError(number, "Access denied for user 'dm'@'localhost' (using password: YES)")
    assert server_error(raised, role="source", host="db", port=3306, user="dm", connecting=True).name == "access-denied"
    assert failure(raised, "db:3306", user="dm").name == "access-denied"
