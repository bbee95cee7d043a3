"""A statement that is refused for want of a privilege: the privilege is named, not user and password."""

from __future__ import annotations

from functools import partial

import pymysql
import pytest

from dm.downstream.failure import failure
from dm.errors import TARGET_PRIVILEGES, Grantee
from dm.sourcelog.upstream.connection import server_error

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
        "the privilege SELECT on `orders`",
        "GRANT SELECT ON `orders` TO ..",
    ),
    (
        1142,
        "DROP command denied to user 'dm'@'localhost' for table `shop`.`orders`",
        "the privilege DROP on `shop`.`orders`",
        "GRANT DROP ON `shop`.`orders` TO ..",
    ),
    (
        1143,
        "UPDATE command denied to user 'dm'@'localhost' for column 'v' in table 'orders'",
        "the privilege UPDATE on `orders`",
        "GRANT UPDATE ON `orders` TO ..",
    ),
    (
        1044,
        "Access denied for user 'dm'@'%' to database 'shop'",
        "a privilege on `shop`.*",
        " ON `shop`.* TO ..",
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


NAMELESS = "SELECT command denied to user 'dm'@'localhost' for table 'orders'"


@pytest.mark.parametrize(
    ("number", "words", "statement", "schema", "grants"),
    [
        (1142, NAMELESS, "SELECT * FROM `shop`.`orders`", "other", "GRANT SELECT ON `shop`.`orders` TO 'dm'@'10.%'"),
        (1142, NAMELESS, "SELECT * FROM shop.Orders AS o", "", "GRANT SELECT ON `shop`.`orders` TO 'dm'@'10.%'"),
        (1142, NAMELESS, "SELECT * FROM shop.orders_old, orders", "x", "GRANT SELECT ON `x`.`orders` TO 'dm'@'10.%'"),
        (
            1142,
            NAMELESS,
            "SELECT * FROM a.orders, b.orders",
            "",
            "GRANT SELECT ON `a`.`orders` TO 'dm'@'10.%'; GRANT SELECT ON `b`.`orders` TO 'dm'@'10.%'",
        ),
        (
            1142,
            "SELECT, LOCK TABLES command denied to user 'dm'@'localhost' for table `shop`.`orders`",
            "LOCK TABLES `shop`.`orders` READ",
            "",
            "GRANT SELECT, LOCK TABLES ON `shop`.* TO 'dm'@'10.%'",
        ),
        (
            1044,
            "Access denied for user 'dm'@'%' to database 'shop'",
            "LOCK TABLES `shop`.`orders` READ",
            "",
            "GRANT SELECT, LOCK TABLES ON `shop`.* TO 'dm'@'10.%'",
        ),
        (
            1142,
            "SELECT with locking clause command denied to user 'dm'@'localhost' for table 'orders'",
            "SELECT id FROM `shop`.`orders` FOR UPDATE",
            "",
            "GRANT SELECT, UPDATE ON `shop`.`orders` TO 'dm'@'10.%'",
        ),
        (
            1227,
            "Access denied; you need (at least one of) the SUPER, SYSTEM_VARIABLES_ADMIN or SESSION_VARIABLES_ADMIN"
            " privilege(s) for this operation",
            "SET SESSION sql_log_bin = 0",
            "",
            "GRANT SESSION_VARIABLES_ADMIN ON *.* TO 'dm'@'10.%'",
        ),
        (
            1370,
            "execute command denied to user 'dm'@'%' for routine 'shop.f'",
            "SELECT shop.f()",
            "",
            "GRANT EXECUTE ON `shop`.* TO 'dm'@'10.%'",
        ),
    ],
)
def test_what_the_server_leaves_out_is_taken_from_statement_and_session(
    number: int, words: str, statement: str, schema: str, grants: str
) -> None:
    raised = pymysql.err.OperationalError(number, words)
    who = partial(Grantee.of, "dm@10.%", schema)
    for error in (
        server_error(raised, role="source one", host="db", port=3306, user="dm", statement=statement, who=who),
        failure(raised, "db:3306", statement.encode(), user="dm", who=who),
    ):
        assert error.details["grant"] == grants


def test_a_table_is_shown_at_the_source_by_select() -> None:
    raised = pymysql.err.OperationalError(
        1142, "SHOW command denied to user 'dm'@'localhost' for table `shop`.`orders`"
    )
    error = server_error(raised, role="source one", host="db", port=3306, user="dm", statement="..")
    assert error.details["lacks"] == "the privilege SELECT on `shop`.`orders`"
    assert error.details["grant"] == "GRANT SELECT ON `shop`.`orders` TO .."


@pytest.mark.parametrize(
    ("number", "words", "statement"),
    [
        (1044, "Access denied for user 'dm'@'%' to database 'my_shop'", "/* app */ CREATE DATABASE my_shop"),
        (1142, "SHOW command denied to user 'dm'@'h' for table 'par'", "SHOW CREATE TABLE `my_shop`.`par`"),
        (1142, "REFERENCES command denied to user 'dm'@'h' for table `my_shop`.`par`", "CREATE TABLE .."),
        (
            1142,
            "REFERENCES command denied to user 'dm'@'h' for table 'my_shop.par'",
            "CREATE TABLE `my_shop`.`chi` (`p` int, CONSTRAINT `f` FOREIGN KEY (`p`) REFERENCES `par` (`id`))",
        ),
        (
            1142,
            "REFERENCES command denied to user 'dm'@'h' for table 'par'",
            "CREATE TABLE IF NOT EXISTS `my_shop`.`chi` (`p` int REFERENCES `par` (`id`))",
        ),
    ],
)
def test_on_what_need_not_be_there_a_grant_is_one_on_the_schema(number: int, words: str, statement: str) -> None:
    """All that is needed there, by the name without wildcards: it decides, whatever patterns the account has."""
    raised = pymysql.err.OperationalError(number, words)
    error = failure(raised, "db:3306", statement.encode(), user="dm", who=partial(Grantee.of, "dm@10.%", ""))
    assert error.details["grant"] == f"GRANT {', '.join(TARGET_PRIVILEGES)} ON `my\\_shop`.* TO 'dm'@'10.%'"


@pytest.mark.parametrize(
    ("current", "quoted"), [("dm@%", "'dm'@'%'"), ("o'neil@%", "'o''neil'@'%'"), ("d\\m@%", "`d\\m`@'%'")]
)
def test_an_account_is_named_as_any_sql_mode_reads_it(current: str, quoted: str) -> None:
    assert Grantee.of(current, None).account == quoted


def test_a_use_of_a_schema_at_the_target_needs_what_a_task_needs_there() -> None:
    raised = pymysql.err.OperationalError(1044, "Access denied for user 'dm'@'%' to database 'shop'")
    error = failure(raised, "db:3306", b"USE `shop`", user="dm", who=partial(Grantee.of, "o'neil@%", None))
    assert error.details["grant"] == f"GRANT {', '.join(TARGET_PRIVILEGES)} ON `shop`.* TO 'o''neil'@'%'"


@pytest.mark.parametrize("number", [1045, 1130, 1698])
def test_a_refused_login_is_about_user_and_password(number: int) -> None:
    raised = pymysql.err.OperationalError(number, "Access denied for user 'dm'@'localhost' (using password: YES)")
    assert server_error(raised, role="source", host="db", port=3306, user="dm", connecting=True).name == "access-denied"
    assert failure(raised, "db:3306", user="dm").name == "access-denied"
