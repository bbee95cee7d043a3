"""Accounts as servers print them, and as a target is to have them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.ident import TableName
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.sql.context import SourceContext
from dm.tools.objects.accounts.adapted import (
    BothServers,
    RoutedObjects,
    WantedAccount,
    escaped,
    giving_role,
    granting,
    shown,
    wanted_account,
)
from dm.tools.objects.accounts.statement import AccountNotUnderstood, told_account, told_privileges
from dm.tools.objects.accounts.stored import Login, Privilege, StoredAccount
from dm.tools.objects.adapted import RoutedNames
from dm.tools.objects.stored import Account, ObjectName

VERSIONS: Mapping[Flavor, int] = {"mysql": 90704, "mariadb": 101119, "tidb": 80011}
APP = Account("app", "%")
NATIVE = Login("mysql_native_password", b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7")
PLUGINS: Mapping[Flavor, Collection[str]] = {
    "mysql": ("caching_sha2_password", "sha256_password"),
    "mariadb": ("mysql_native_password", "unix_socket", "ed25519"),
    "tidb": ("mysql_native_password", "caching_sha2_password"),
}
PLACE = RoutedObjects(
    RoutedNames(
        {"shop": "shop", "old_1": "new", "many": "many"},
        {
            TableName("shop", "t"): TableName("shop", "t"),
            TableName("old_1", "t_1"): TableName("new", "t"),
            TableName("many", "t"): TableName("other", "t"),
        },
        frozenset(),
    ),
    frozenset({ObjectName("view", "old_1", "v"), ObjectName("function", "old_1", "F")}),
)


def context(flavor: Flavor) -> SourceContext:
    return SourceContext(flavor, VERSIONS[flavor], "")


def servers(source: Flavor, target: Flavor) -> BothServers:
    return BothServers(dialect(source, VERSIONS[source]), dialect(target, VERSIONS[target]), PLUGINS[target])


def wanted(stored: StoredAccount, source: Flavor = "mysql", target: Flavor = "mysql") -> WantedAccount:
    return wanted_account(stored, servers(source, target), PLACE)


def test_what_show_create_user_prints() -> None:
    mysql = (
        "CREATE USER `a``b`@`%` IDENTIFIED WITH 'caching_sha2_password' AS 0x2441 AND IDENTIFIED WITH 'other'"
        " DEFAULT ROLE `r`@`%`,`s`@`%` REQUIRE SUBJECT '/CN=WITH x' ISSUER 'it''s'"
        " WITH MAX_QUERIES_PER_HOUR 1 MAX_USER_CONNECTIONS 3 PASSWORD EXPIRE INTERVAL 3 DAY ACCOUNT LOCK PASSWORD"
        " HISTORY 5 PASSWORD REUSE INTERVAL 2 DAY PASSWORD REQUIRE CURRENT OPTIONAL FAILED_LOGIN_ATTEMPTS 3"
        ' ATTRIBUTE \'{"comment": "x\\\'y"}\''
    )
    logins, every, clauses = told_account(mysql, context("mysql"))
    assert logins == (Login("caching_sha2_password", b"$A"), Login("other"))
    assert every
    assert clauses == {
        "REQUIRE": "REQUIRE SUBJECT '/CN=WITH x' ISSUER 'it''s'",
        "MAX_QUERIES_PER_HOUR": "MAX_QUERIES_PER_HOUR 1",
        "MAX_USER_CONNECTIONS": "MAX_USER_CONNECTIONS 3",
        "PASSWORD EXPIRE": "PASSWORD EXPIRE INTERVAL 3 DAY",
        "ACCOUNT": "ACCOUNT LOCK",
        "PASSWORD HISTORY": "PASSWORD HISTORY 5",
        "PASSWORD REUSE": "PASSWORD REUSE INTERVAL 2 DAY",
        "PASSWORD REQUIRE": "PASSWORD REQUIRE CURRENT OPTIONAL",
        "FAILED_LOGIN_ATTEMPTS": "FAILED_LOGIN_ATTEMPTS 3",
        "ATTRIBUTE": 'ATTRIBUTE \'{"comment": "x\\\'y"}\'',
    }
    mariadb = (
        "CREATE USER `a`@`%` IDENTIFIED VIA ed25519 USING 'ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY' OR unix_socket"
        " REQUIRE SSL WITH MAX_STATEMENT_TIME 2.000000 PASSWORD EXPIRE"
    )
    logins, every, clauses = told_account(mariadb, context("mariadb"))
    assert [(each.plugin, each.secret[:4]) for each in logins] == [("ed25519", b"ZIgU"), ("unix_socket", b"")]
    assert not every
    assert clauses == {
        "REQUIRE": "REQUIRE SSL",
        "MAX_STATEMENT_TIME": "MAX_STATEMENT_TIME 2.000000",
        "PASSWORD EXPIRE": "PASSWORD EXPIRE",
    }
    assert told_account("CREATE USER `nop`@`%`", context("mariadb")) == ((Login("mysql_native_password"),), False, {})
    usual = "REQUIRE NONE PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK PASSWORD HISTORY DEFAULT PASSWORD_LOCK_TIME 0"
    assert told_account(f"CREATE USER 'u'@'%' IDENTIFIED WITH 'p' AS '' {usual}", context("tidb"))[2] == {}
    for strange in ("CREATE USER `a`@`%` MADE UP", "CREATE USER `a", "SELECT 1"):
        with pytest.raises(AccountNotUnderstood):
            told_account(strange, context("mysql"))


def test_what_show_grants_prints() -> None:
    lines = [
        "GRANT SELECT, BINLOG MONITOR ON *.* TO `app`@`%` IDENTIFIED BY PASSWORD '*14E6' REQUIRE SSL WITH GRANT OPTION"
        " MAX_USER_CONNECTIONS 3",
        "GRANT SELECT ON `of_role`.* TO `readers`",
        "GRANT `readers` TO `app`@`%` WITH ADMIN OPTION",
        "GRANT PROXY ON `x`@`%` TO `app`@`%`",
        "REVOKE INSERT ON `x`.* FROM `app`@`%`",
        "SET DEFAULT ROLE `readers` FOR `app`@`%`",
        "GRANT USAGE ON `y`.* TO `app`@`%`",
    ]
    privileges, unread = told_privileges(lines, APP, context("mariadb"))
    assert {shown(each) for each in privileges} == {
        "SELECT ON *.* WITH GRANT OPTION",
        "REPLICATION CLIENT ON *.* WITH GRANT OPTION",
    }
    assert [line.split()[0] for line in unread] == ["GRANT", "REVOKE"]
    tidb = [
        "GRANT SELECT ON `s`.`t` TO 'app'@'%' WITH GRANT OPTION",
        "GRANT INSERT(a), UPDATE(a, b) ON `s`.`t` TO 'app'@'%'",
    ]
    assert {shown(each) for each in told_privileges(tidb, APP, context("tidb"))[0]} == {
        f"{word} ON `s`.`t` WITH GRANT OPTION" for word in ("SELECT", "INSERT (`a`)", "UPDATE (`a`)", "UPDATE (`b`)")
    }


WORDS = st.sampled_from(["SELECT", "INSERT", "SHOW VIEW", "XA_RECOVER_ADMIN"])
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@given(
    st.lists(st.tuples(WORDS, NAMES | st.just("")), min_size=1),
    NAMES,
    NAMES | st.just(""),
    st.sampled_from(["", "FUNCTION", "PACKAGE BODY"]),
    st.builds(Account, NAMES, NAMES),
    st.booleans(),
)
def test_a_written_grant_is_read_as_what_it_was_made_of(
    words: list[tuple[str, str]], schema: str, name: str, kind: str, account: Account, grantable: bool
) -> None:
    columns = {word: {column for each, column in words if each == word} for word, _ in words}
    given_ = {
        Privilege(word, column, kind if name else "", schema, name, grantable)
        for word, found in columns.items()
        for column in (found - {""} or found)
    }
    text = granting(given_, account)
    assert told_privileges([text], account, context("mysql")) == (frozenset(given_), ())
    assert told_privileges([text], Account("else", "where"), context("mysql"))[0] == frozenset()
    assert told_privileges([giving_role(account, APP, admin=grantable)], APP, context("mysql")) == (frozenset(), ())


def test_a_hash_is_kept_where_the_plugin_is_the_same() -> None:
    raw = bytes(range(256))
    kept = wanted(StoredAccount(APP, logins=(Login("caching_sha2_password", raw),)), "mysql", "tidb")
    assert kept.statement == b"CREATE USER `app`@`%` IDENTIFIED WITH 'caching_sha2_password' AS 0x" + raw.hex().encode()
    ed = Login("ed25519", b"ZIgUREUg")
    both = wanted(StoredAccount(APP, logins=(ed, Login("unix_socket"))), "mariadb", "mariadb")
    assert both.statement == b"CREATE USER `app`@`%` IDENTIFIED VIA `ed25519` USING 'ZIgUREUg' OR `unix_socket`"
    one = wanted(StoredAccount(APP, logins=(ed, NATIVE)), "mariadb", "tidb")
    assert (
        one.statement
        == b"CREATE USER `app`@`%` IDENTIFIED WITH 'mysql_native_password' AS 0x" + NATIVE.secret.hex().encode()
    )
    assert one.findings == ("at the source it logs in by ed25519, too",)


def test_no_password_is_invented_and_none_is_left_out() -> None:
    for logins, every in (
        ((NATIVE,), False),
        ((Login("unix_socket"),), False),  # it asks the system, so it is not one without a password
        ((Login("unix_socket"), Login("mysql_native_password")), False),
        ((Login("caching_sha2_password", b"$A"), Login("authentication_ldap_simple")), True),
    ):
        found = wanted(
            StoredAccount(APP, logins=logins, every_login=every, clauses={"REQUIRE": "REQUIRE SSL"}), "mysql", "mysql"
        )
        assert found.statement == b"", logins
        assert found.own_password
        assert found.obstacle.endswith(": CREATE USER `app`@`%` IDENTIFIED BY '<a new password>' REQUIRE SSL")
    empty = wanted(StoredAccount(APP, logins=(Login("mysql_native_password"),)), "mariadb", "mysql")
    assert (empty.statement, empty.own_password) == (b"CREATE USER `app`@`%` IDENTIFIED BY ''", False)
    second = wanted(StoredAccount(APP, logins=(Login("caching_sha2_password", b"$A"),), second_password=True))
    assert "RETAIN CURRENT PASSWORD" in second.findings[0]


def test_clauses_that_only_one_product_has_are_told() -> None:
    clauses = {
        "REQUIRE": "REQUIRE SSL",
        "PASSWORD HISTORY": "PASSWORD HISTORY 5",
        "MAX_USER_CONNECTIONS": "MAX_USER_CONNECTIONS 3",
    }
    stored = StoredAccount(APP, logins=(NATIVE,), clauses=clauses)
    across = wanted(stored, "mysql", "mariadb")
    assert across.statement.endswith(b" REQUIRE SSL WITH MAX_USER_CONNECTIONS 3")
    assert across.findings == ("the target has no PASSWORD HISTORY 5",)
    assert wanted(stored, "mysql", "tidb").statement.endswith(
        b" REQUIRE SSL WITH MAX_USER_CONNECTIONS 3 PASSWORD HISTORY 5"
    )


@pytest.mark.parametrize(
    ("role", "source", "target", "name"),
    [
        (Account("r", "%"), "mysql", "mariadb", "r"),
        (Account("r", ""), "mariadb", "mysql", "r@%"),
        (Account("r", ""), "mariadb", "tidb", "r@%"),
        (Account("r", "h"), "mysql", "tidb", "r@h"),
        (Account("r", "h"), "mysql", "mariadb", None),
    ],
)
def test_a_role_has_a_host_or_none(role: Account, source: Flavor, target: Flavor, name: str | None) -> None:
    found = wanted(StoredAccount(role, role=True), source, target)
    holder = StoredAccount(APP, logins=(NATIVE,), roles={role: True}, default_roles=frozenset({role}))
    held = wanted(holder, source, target)
    if name is None:
        assert "has no host" in found.obstacle
        assert (held.roles, held.default_roles) == ({}, frozenset())
        assert held.left
    else:
        assert str(found.name) == name
        assert found.statement.startswith(b"CREATE ROLE `r`")
        assert held.roles == {Account.of(name): True}
        assert held.default_roles == {Account.of(name)}


def test_privileges_go_where_the_task_routes_what_they_are_on() -> None:
    given_ = {
        Privilege("SELECT"),
        Privilege("INSERT", schema="shop"),
        Privilege("DELETE", schema="old%"),
        Privilege("INSERT", schema="elsewhere"),
        Privilege("CREATE", schema="many"),
        Privilege("UPDATE", column="a", schema="old_1", name="t_1", grantable=True),
        Privilege("SHOW VIEW", schema="old_1", name="v"),
        Privilege("SELECT", schema="old_1", name="not_migrated"),
        Privilege("EXECUTE", kind="FUNCTION", schema="old_1", name="f"),
        Privilege("EXECUTE", kind="PROCEDURE", schema="old_1", name="f"),
    }
    found = wanted(StoredAccount(APP, logins=(NATIVE,), privileges=frozenset(given_)), "mariadb", "mariadb")
    assert sorted(map(shown, found.privileges)) == [
        "CREATE ON `many`.*",
        "CREATE ON `other`.*",
        "DELETE ON `new`.*",
        "EXECUTE ON FUNCTION `new`.`f`",
        "INSERT ON `shop`.*",
        "SELECT ON *.*",
        "SHOW VIEW ON `new`.`v`",
        "UPDATE (`a`) ON `new`.`t` WITH GRANT OPTION",
    ]
    assert [line.partition(":")[0] for line in found.left] == [
        "EXECUTE ON PROCEDURE `old_1`.`f`",
        "INSERT ON `elsewhere`.*",
        "SELECT ON `old_1`.`not_migrated`",
    ]
    assert escaped("a_b%\\") == "a\\_b\\%\\\\"
    revoked = StoredAccount(APP, logins=(NATIVE,), unread=("REVOKE INSERT ON `shop`.* FROM `app`@`%`",))
    assert "partial revokes" in wanted(revoked).no_grants
