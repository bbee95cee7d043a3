"""SHOW GRANTS as both servers print it, read into what an account may do."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.task.precheck.privilege import Grants


@pytest.mark.parametrize(
    ("line", "privilege", "holds"),
    [
        ("GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION", "REPLICATION SLAVE", True),
        ("GRANT SELECT, RELOAD, REPLICATION CLIENT ON *.* TO `dm`@`%`", "RELOAD", True),
        ("GRANT SELECT, RELOAD ON *.* TO `dm`@`%`", "REPLICATION SLAVE", False),
        ("GRANT BINLOG MONITOR ON *.* TO `dm`@`%` IDENTIFIED BY PASSWORD '*00'", "REPLICATION CLIENT", True),
        ("GRANT ALL PRIVILEGES ON `shop`.* TO `dm`@`%`", "SELECT", False),
        ("GRANT USAGE ON *.* TO `dm`@`%`", "SELECT", False),
        ("GRANT PROXY ON ``@`` TO `root`@`localhost` WITH GRANT OPTION", "SELECT", False),
        ("GRANT `role`@`%` TO `dm`@`%`", "SELECT", False),
    ],
)
def test_global_privileges(line: str, privilege: str, holds: bool) -> None:
    assert Grants([line]).globally(privilege) is holds


@pytest.mark.parametrize(
    ("on", "schema", "holds"),
    [
        ("`shop`.*", "shop", True),
        ("`shop`.*", "shop2", False),
        (r"`my\_shop`.*", "my_shop", True),
        (r"`my\_shop`.*", "my-shop", False),
        ("`my_shop`.*", "my-shop", True),
        ("`shop%`.*", "shop_2024", True),
        ("`a``b`.*", "a`b", True),
        ("`x) TO (`.*", "x) TO (", True),
        ("`shop`.`orders`", "shop", False),
        ("*.*", "anything", True),
        ("FUNCTION `shop`.*", "shop", False),
    ],
)
def test_schema_privileges(on: str, schema: str, holds: bool) -> None:
    assert Grants([f"GRANT SELECT ON {on} TO `dm`@`%`"]).on_schema("SELECT", schema) is holds


def test_table_privileges() -> None:
    grants = Grants(
        [
            "GRANT SELECT, INSERT (`id`, `v,w`), UPDATE ON `shop`.`orders` TO `dm`@`%`",
            "GRANT SELECT ON `other`.* TO `dm`@`%`",
        ]
    )
    orders = TableName("shop", "orders")
    assert grants.on_table("SELECT", orders)
    assert grants.on_table("UPDATE", orders)
    assert not grants.on_table("INSERT", orders), "on two columns only"
    assert not grants.on_table("SELECT", TableName("shop", "customers"))
    assert grants.on_table("SELECT", TableName("other", "any"))


def test_a_partial_revoke_takes_away() -> None:
    grants = Grants(["GRANT SELECT ON *.* TO `dm`@`%`", "REVOKE SELECT ON `secret`.* FROM `dm`@`%`"])
    assert grants.on_schema("SELECT", "shop")
    assert not grants.on_schema("SELECT", "secret")
    assert not grants.on_table("SELECT", TableName("secret", "t"))
    assert grants.globally("SELECT")


def test_all_on_a_schema_holds_no_global_privilege() -> None:
    grants = Grants(["GRANT ALL PRIVILEGES ON `shop`.* TO `dm`@`%`"])
    assert grants.on_schema("LOCK TABLES", "shop")
    assert not grants.on_schema("RELOAD", "shop")
