"""SHOW GRANTS as both servers print it, read into what an account may do."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.sourcelog.upstream.privilege import Grants


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


def given(*pairs: tuple[str, str], to: str = "`dm`@`%`") -> list[str]:
    """One privilege by each pattern."""
    return [f"GRANT {privilege} ON `{pattern}`.* TO {to}" for privilege, pattern in pairs]


@pytest.mark.parametrize(
    ("flavor", "wider", "narrower"),
    [
        ("mysql", "pp_x", r"pp\_x"),
        ("mysql", "p%", "pp_x"),
        ("mysql", "p%_x", "pp%"),
        ("mysql", "%", "_p%"),
        ("mariadb", "pp_x", r"pp\_x"),
        ("mariadb", "pp%", "pp_x"),
        ("mariadb", "pp%", "p%_x"),
        ("mariadb", "%x", "____"),
        ("mariadb", "%", "_p%"),
    ],
)
def test_of_several_patterns_the_most_specific_decides(flavor: Flavor, wider: str, narrower: str) -> None:
    lines = given(("SELECT", wider), ("INSERT", narrower))
    for grants in (Grants(lines, flavor), Grants(lines[::-1], flavor)):
        assert (grants.on_schema("INSERT", "pp_x"), grants.on_schema("SELECT", "pp_x")) == (True, False)
        assert grants.patterns("pp_x") == (narrower,), "what a GRANT has to name"


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_where_two_patterns_are_equal_what_both_give_counts(flavor: Flavor) -> None:
    grants = Grants(given(("SELECT, INSERT", "%_x"), ("SELECT", "_p%"), ("UPDATE", "_q%")), flavor)
    assert (grants.on_schema("SELECT", "pp_x"), grants.on_schema("INSERT", "pp_x")) == (True, False)
    assert grants.patterns("pp_x") == ("%_x", "_p%")


def test_mariadb_unites_what_account_roles_and_public_have() -> None:
    lines = [
        *given(("SELECT", "pp%"), ("INSERT", "%x")),
        *given(("UPDATE", "pp_x"), ("DELETE", "pp%"), to="`reader`"),
        *given(("INDEX", "%"), to="PUBLIC"),
    ]
    grants = Grants(lines, "mariadb")
    held = {name for name in ("SELECT", "INSERT", "UPDATE", "DELETE", "INDEX") if grants.on_schema(name, "pp_x")}
    assert held == {"SELECT", "UPDATE", "INDEX"}
    assert grants.patterns("pp_x") == ("pp%",), "the account's own"


def test_with_active_roles_mysql_takes_the_name_or_the_first_in_the_order_of_bytes() -> None:
    lines = given(("SELECT", "pp_x"), ("INSERT", r"pp\_x"), ("UPDATE", "%x"), ("DELETE", "shop"), ("INDEX", "s%"))
    grants = Grants(lines, "mysql", united=True)
    assert [name for name in ("SELECT", "INSERT", "UPDATE") if grants.on_schema(name, "pp_x")] == ["UPDATE"]
    assert grants.patterns("pp_x") == ("%x",)
    assert (grants.on_schema("DELETE", "shop"), grants.on_schema("INDEX", "shop")) == (True, False)


def test_under_partial_revokes_a_pattern_is_a_name() -> None:
    grants = Grants(given(("SELECT", "pp_x"), ("INSERT", "pp%"), ("UPDATE", r"pp\_x")), literal=True)
    assert [name for name in ("SELECT", "INSERT", "UPDATE") if grants.on_schema(name, "pp_x")] == ["SELECT"]


def test_a_wildcard_of_one_stands_for_a_byte() -> None:
    grants = Grants(given(("SELECT", "____")))
    assert (grants.on_schema("SELECT", "ä_x"), grants.on_schema("SELECT", "ää_x")) == (True, False)
