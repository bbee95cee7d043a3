"""The accounts of one server that have to do with schemas.

Those are accounts with a privilege on one of the schemas or on something in them, accounts that such an account is a
role of, and the roles that they have in turn. A privilege on `*.*` alone makes no account one of these schemas: such
accounts run the server. They are told by name.

The privileges come from SHOW GRANTS, since no table has all of them; who has a role, only tables tell for all accounts.
Hashes come as digits, so their bytes can be any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from dm.errors import DMError
from dm.errors.grant import grant
from dm.mysql.sql.context import SourceContext
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.privilege import pattern_matches
from dm.tools.objects.accounts.statement import told_account, told_privileges
from dm.tools.objects.accounts.stored import SYSTEM_ACCOUNTS, Login, StoredAccount
from dm.tools.objects.adapted import account_in_sql
from dm.tools.objects.reading import StoredObjectReader, text_of
from dm.tools.objects.stored import Account

_ON_SCHEMAS: Final = ("db", "tables_priv", "columns_priv", "procs_priv")
_UNREADABLE: Final = frozenset({1044, 1142, 1143, 1227, 1410})


@dataclass(frozen=True, slots=True)
class RoleEdge:
    """A role, and who has it."""

    role: Account
    holder: Account
    admin: bool


class AccountReader:
    """Reads accounts with the session of another reader; raises DMError."""

    def __init__(self, reader: StoredObjectReader) -> None:
        self._reader = reader
        self._dialect = reader.facts.dialect
        self._context = SourceContext(reader.facts.flavor, reader.facts.version, "")
        if self._dialect.prints_hashes_as_digits:
            reader.query("SET SESSION print_identified_with_as_hex = ON")
        self.itself = Account.of(reader.texts("SELECT CURRENT_USER()")[0][0])
        """The account of the session."""
        self._edges: list[RoleEdge] | None = None
        self._hidden = dict[Account, tuple[Login, bool]]()

    @property
    def unreadable(self) -> str:
        """The GRANT that the session's account lacks to read accounts; empty if it lacks none."""
        try:
            self._reader.query("SELECT user FROM mysql.user LIMIT 1")
            self._reader.query("SELECT user FROM mysql.db LIMIT 1")
        except DMError as error:
            if error.server_errno not in _UNREADABLE:
                raise
            return grant(("SELECT",), "mysql.*", account_in_sql(self.itself))
        return ""

    @property
    def plugins(self) -> frozenset[str]:
        """By which accounts can log in here."""
        if self._dialect.login_plugins:
            return frozenset(self._dialect.login_plugins)
        sql = "SELECT plugin_name FROM information_schema.plugins WHERE plugin_type = 'AUTHENTICATION'"
        return frozenset(name for (name,) in self._reader.texts(f"{sql} AND plugin_status = 'ACTIVE'"))

    @property
    def every_privilege(self) -> frozenset[str]:
        """What ALL PRIVILEGES ON *.* is printed as; empty where it is printed by these words."""
        if not self._dialect.prints_all_privileges:
            return frozenset()
        aside = {"USAGE", "PROXY", "GRANT OPTION"}
        return frozenset(row[0].upper() for row in self._reader.texts("SHOW PRIVILEGES")) - aside

    def on_schemas(self, schemas: Collection[str]) -> set[Account]:
        """The accounts with a privilege on one of these schemas, or on something in them; PUBLIC is one of them."""
        found = set[Account]()
        folds = self._reader.facts.lower_case_table_names != 0
        asked = {name.lower() if folds else name for name in schemas}
        for table in _ON_SCHEMAS:
            if table == "procs_priv" and not self._dialect.has_routines:
                continue
            for user, host, name in self._reader.texts(f"SELECT user, host, db FROM mysql.{table}"):
                known = name.lower() if folds else name
                if known in asked or (table == "db" and any(pattern_matches(known, each) for each in asked)):
                    found.add(Account(user, host))
        return found

    def with_roles(self, accounts: Iterable[Account]) -> set[Account]:
        """These accounts, those that have one of them as a role, and the roles of all of them."""
        found = set(accounts)
        for forward in (False, True):
            while True:
                more = {
                    edge.role if forward else edge.holder
                    for edge in self.edges
                    if (edge.holder if forward else edge.role) in found
                }
                if more <= found:
                    break
                found |= more
        return found

    @property
    @reads_answers
    def edges(self) -> list[RoleEdge]:
        """All roles, and who has them."""
        if self._edges is None:
            rows = list[tuple[str, ...]]()
            if self._dialect.roles_are_accounts:
                rows = self._reader.texts(
                    "SELECT from_user, from_host, to_user, to_host, with_admin_option FROM mysql.role_edges"
                )
            elif self._dialect.has_roles:
                rows = self._reader.texts("SELECT role, '', user, host, admin_option FROM mysql.roles_mapping")
            self._edges = [
                RoleEdge(Account(role, of), Account(user, host), admin == "Y") for role, of, user, host, admin in rows
            ]
        return self._edges

    @reads_answers
    def names(self) -> dict[Account, bool]:
        """All accounts but those of the system, and whether each is a role."""
        role = "'N'"
        if self._dialect.roles_are_accounts:
            role = "IF(account_locked = 'Y' AND password_expired = 'Y' AND authentication_string = '', 'Y', 'N')"
        elif self._dialect.has_roles:
            role = "is_role"
        rows = self._reader.texts(f"SELECT user, host, {role} FROM mysql.user")
        return {Account(user, host): told == "Y" for user, host, told in rows if user not in SYSTEM_ACCOUNTS}

    def everywhere(self) -> list[Account]:
        """The accounts with a privilege on *.* that reads or writes tables."""
        rows = self._reader.texts(
            "SELECT DISTINCT grantee FROM information_schema.user_privileges"
            " WHERE privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'EXECUTE')"
        )
        named = {f"'{each.user}'@'{each.host}'": each for each in self.names()}
        return sorted({named[grantee] for (grantee,) in rows if grantee in named})

    @reads_answers
    def read(self, account: Account, *, role: bool) -> StoredAccount | None:
        """All about one account; None if it has gone. Raises DMError, AccountNotUnderstood."""
        name = account_in_sql(account)
        try:
            lines = [row[0] for row in self._reader.texts(f"SHOW GRANTS FOR {name}")]
            logins, every, clauses = ((), False, {}) if role else self._told(account)
        except DMError as error:
            if error.server_errno in (1133, 1141, 1396, 1269):
                return None
            raise
        privileges, unread = told_privileges(lines, account, self._context)
        return StoredAccount(
            account, role, logins, every, clauses, privileges,
            {edge.role: edge.admin for edge in self.edges if edge.holder == account},
            self._default_roles(account), unread, self._second_password(account),
        )  # fmt: skip

    @reads_answers
    def _told(self, account: Account) -> tuple[tuple[Login, ...], bool, dict[str, str]]:
        raw: Any = self._reader.query(f"SHOW CREATE USER {account_in_sql(account)}")[0][0]
        text = text_of(raw)
        if not self._dialect.keeps_hashes_printable:
            row = self._reader.query(
                "SELECT plugin, HEX(authentication_string) FROM mysql.user WHERE user = %s AND host = %s", *account
            )[0]
            login = Login(text_of(row[0]), bytes.fromhex(text_of(row[1])))
            bare = text.replace(f"'{text_of(login.secret)}'", "''", 1)
            logins, every, clauses = told_account(bare, self._context)
            return (login, *logins[1:]), every, clauses
        return told_account(text, self._context)

    def _default_roles(self, account: Account) -> frozenset[Account]:
        if self._dialect.roles_are_accounts:
            sql = "SELECT default_role_user, default_role_host FROM mysql.default_roles WHERE user = %s AND host = %s"
            return frozenset(Account(user, host) for user, host in self._reader.texts(sql, *account))
        if not self._dialect.has_roles:
            return frozenset()
        sql = "SELECT default_role FROM mysql.user WHERE user = %s AND host = %s"
        return frozenset(Account(role, "") for (role,) in self._reader.texts(sql, *account) if role)

    def _second_password(self, account: Account) -> bool:
        if not self._dialect.has_second_passwords:
            return False
        sql = "SELECT JSON_CONTAINS_PATH(user_attributes, 'one', '$.additional_password') FROM mysql.user"
        return self._reader.texts(f"{sql} WHERE user = %s AND host = %s", *account)[:1] == [("1",)]
