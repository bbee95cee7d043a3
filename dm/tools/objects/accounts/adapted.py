"""A source's account as the target is to have it, and the statements that make it.

- A hash goes to the target where that has the same plugin. Where it has not, only the account's owner knows the
  password: the statement is told with a place for a new one, and is never run. No password is invented.
- Where one of several logins is enough, those that the target has not are left out; where all are needed, none may be.
- A role is an account with a host at MySQL and TiDB, and has none at MariaDB: `reader@%` is `reader` there.
- Privileges on a schema go to where the task routes the schema and its tables; those on a table, view or routine go
  with it. What the task does not bring takes its privileges along with it into a remark.
- A partial revoke would have to be there before the privilege that it narrows. So such an account's privileges are left
  to a person.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dm.ident import Ident, TableName
from dm.mysql.dialect import Dialect
from dm.mysql.sql.literal import quoted
from dm.sourcelog.upstream.privilege import pattern_matches
from dm.tools.objects.accounts.stored import Login, Privilege, StoredAccount
from dm.tools.objects.adapted import RoutedNames, account_in_sql
from dm.tools.objects.stored import ROUTINES, Account, ObjectName

_EVERYWHERE: Final = ("REQUIRE", "PASSWORD EXPIRE", "ACCOUNT")
_LIMITS: Final = ("MAX_QUERIES_PER_HOUR", "MAX_UPDATES_PER_HOUR", "MAX_CONNECTIONS_PER_HOUR", "MAX_USER_CONNECTIONS")
_PASSWORDS: Final = ("mysql_native_password", "caching_sha2_password", "sha256_password", "ed25519")


@dataclass(frozen=True, slots=True)
class RoutedObjects:
    """What a source has of a task's schemas, and where it goes."""

    names: RoutedNames
    objects: frozenset[ObjectName]

    def targets(self, schema: str) -> list[str]:
        """The target's schemas that have something of this one."""
        tables = (target.schema for table, target in self.names.tables.items() if table.schema == schema)
        return sorted({self.names.schemas[schema], *tables})

    def of_routine(self, privilege: Privilege) -> str:
        """The target's schema of a routine that is there; empty for none."""
        known = {(each.kind, each.schema, each.name.lower()) for each in self.objects if each.kind in ROUTINES}
        found = (privilege.kind.lower(), privilege.schema, privilege.name.lower()) in known
        return self.names.schemas.get(privilege.schema, "") if found else ""

    def of_table(self, privilege: Privilege) -> TableName | None:
        """The target's table or view of one that is there."""
        name = TableName(privilege.schema, privilege.name)
        if ObjectName("view", *name) in self.objects:
            return TableName(self.names.schemas[name.schema], name.table)
        return self.names.tables.get(name)


@dataclass(frozen=True, slots=True)
class BothServers:
    """What decides between two servers."""

    source: Dialect
    target: Dialect
    plugins: Collection[str]  # of the target


@dataclass(frozen=True, slots=True)
class WantedAccount:
    """An account as it is to be; without a statement `obstacle` says why not."""

    name: Account
    role: bool
    statement: bytes = field(default=b"", repr=False)
    obstacle: str = ""
    logins: tuple[Login, ...] = ()
    own_password: bool = False  # the target can't have the source's
    clauses: Mapping[str, str] = field(default_factory=dict)
    privileges: frozenset[Privilege] = frozenset()
    roles: Mapping[Account, bool] = field(default_factory=dict)
    default_roles: frozenset[Account] = frozenset()
    findings: tuple[str, ...] = ()  # of the account
    left: tuple[str, ...] = ()  # of its privileges
    no_grants: str = ""  # why its privileges can't be given


def wanted_account(stored: StoredAccount, servers: BothServers, place: RoutedObjects) -> WantedAccount:
    """The account for the target."""
    name, obstacle = _name(stored, servers)
    clauses, findings = _clauses(stored, servers)
    logins = tuple(each for each in stored.logins if each.plugin in servers.plugins)
    lacking = sorted({each.plugin for each in stored.logins} - {each.plugin for each in logins})
    own = not stored.role and (not logins or (stored.every_login and bool(lacking)))
    open_to_all = own and not stored.every_login and all(_is_empty(each) for each in stored.logins)
    if own and not open_to_all:
        findings.append("its password at the target is its own")
        obstacle = obstacle or (
            f"it logs in by {', '.join(lacking)}, which the target has not; create it with a password of its own:"
            f" CREATE USER {account_in_sql(name)} IDENTIFIED BY '<a new password>'{_tail(clauses)}"
        )
    elif lacking and not open_to_all:
        findings.append(f"at the source it logs in by {', '.join(lacking)}, too")
    if not stored.every_login and not servers.target.plugins_come_via and len(logins) > 1:
        findings.append(f"at the source it logs in by {', '.join(each.plugin for each in logins[1:])}, too")
        logins = logins[:1]
    if stored.second_password:
        findings.append("its old password (RETAIN CURRENT PASSWORD) is left: applications have to use the new one")
    statement = b"CREATE ROLE " if stored.role else b"CREATE USER "
    statement += account_in_sql(name).encode("utf-8", "surrogateescape")
    if not stored.role:
        statement += b" IDENTIFIED BY ''" if open_to_all else _identified(logins, servers.target)
        statement += _tail(clauses).encode("utf-8", "surrogateescape")
    found = WantedAccount(
        name, stored.role, b"" if obstacle else statement, obstacle, logins, own and not open_to_all, clauses,
        findings=tuple(findings),
    )  # fmt: skip
    return _with_privileges(found, stored, servers, place)


def _is_empty(login: Login) -> bool:
    """Whether it takes whoever comes; other plugins without a secret ask the system for it."""
    return login.plugin in _PASSWORDS and not login.secret


def role_name(role: Account, servers: BothServers) -> Account:
    """What a role is called at the target; raises ValueError where it can't be one there."""
    if servers.source.roles_are_accounts == servers.target.roles_are_accounts:
        return role
    if servers.target.roles_are_accounts:
        return Account(role.user, "%")
    if role.host != "%":
        raise ValueError(f"a role of {servers.target.title} has no host, and {role} has one")
    return Account(role.user, "")


def _name(stored: StoredAccount, servers: BothServers) -> tuple[Account, str]:
    if not stored.role:
        return stored.name, ""
    if not servers.target.has_roles:
        return stored.name, f"{servers.target.title} of this version has no roles"
    try:
        return role_name(stored.name, servers), ""
    except ValueError as error:
        return stored.name, str(error)


def _clauses(stored: StoredAccount, servers: BothServers) -> tuple[dict[str, str], list[str]]:
    """Those that the target knows, and what is left."""
    if stored.role:
        return {}, []
    if servers.source.family == servers.target.family:
        return dict(stored.clauses), []
    known = {key: text for key, text in stored.clauses.items() if key in (*_EVERYWHERE, *_LIMITS)}
    return known, [f"the target has no {text}" for key, text in stored.clauses.items() if key not in known]


def _tail(clauses: Mapping[str, str]) -> str:
    limits = [text for key, text in clauses.items() if key.startswith("MAX_")]
    others = [text for key, text in clauses.items() if key != "REQUIRE" and not key.startswith("MAX_")]
    parts = [clauses.get("REQUIRE", ""), f"WITH {' '.join(limits)}" if limits else "", *others]
    return "".join(f" {part}" for part in parts if part)


def _identified(logins: Sequence[Login], target: Dialect) -> bytes:
    if target.plugins_come_via:
        methods = [
            Ident(each.plugin).sql.encode() + (b" USING " + quoted(each.secret) if each.secret else b"")
            for each in logins
        ]
        return b" IDENTIFIED VIA " + b" OR ".join(methods)
    return b" AND".join(
        b" IDENTIFIED WITH "
        + quoted(each.plugin.encode())
        + (b" AS " + _literal(each.secret, target) if each.secret else b"")
        for each in logins
    )


def _literal(secret: bytes, target: Dialect) -> bytes:
    return b"0x" + secret.hex().encode() if target.takes_hashes_as_digits else quoted(secret)


def _with_privileges(
    found: WantedAccount, stored: StoredAccount, servers: BothServers, place: RoutedObjects
) -> WantedAccount:
    if any(line.startswith("REVOKE") for line in stored.unread):
        return replace(found, no_grants="it has partial revokes: give its privileges by hand")
    left = [f"{line}: left" for line in stored.unread]
    privileges = set[Privilege]()
    for privilege in stored.privileges:
        there = [*_moved(privilege, place)]
        privileges.update(there)
        if not there:
            left.append(f"{shown(privilege)}: of nothing that the task brings, left")
    roles = dict[Account, bool]()
    for role, admin in stored.roles.items():
        name = _role_or_none(role, servers)
        if name is None:
            left.append(f"role {role}: left, since a role has no host at {servers.target.title}")
        else:
            roles[name] = admin
    default = {name for name in (_role_or_none(role, servers) for role in stored.default_roles) if name is not None}
    if servers.target.has_roles and not servers.target.roles_are_accounts and len(default) > 1:
        left.append(f"the target takes one default role, not {', '.join(sorted(map(str, default)))}")
        default = set()
    return replace(
        found, privileges=frozenset(privileges), roles=roles, default_roles=frozenset(default & roles.keys()),
        left=tuple(sorted(left)),
    )  # fmt: skip


def _role_or_none(role: Account, servers: BothServers) -> Account | None:
    try:
        return role_name(role, servers)
    except ValueError:
        return None


def _moved(privilege: Privilege, place: RoutedObjects) -> Iterator[Privilege]:
    if not privilege.schema:
        yield privilege
    elif privilege.kind:
        schema = place.of_routine(privilege)
        if schema:
            yield privilege._replace(schema=schema)
    elif privilege.name:
        table = place.of_table(privilege)
        if table is not None:
            yield privilege._replace(schema=table.schema, name=table.table)
    else:
        own = [schema for schema in place.names.schemas if _is_of(privilege.schema, schema)]
        if all(place.targets(schema) == [schema] for schema in own):
            yield from [privilege] if own else []
        else:
            for target in {target for schema in own for target in place.targets(schema)}:
                yield privilege._replace(schema=escaped(target))


def _is_of(pattern: str, schema: str) -> bool:
    return pattern == schema or pattern_matches(pattern, schema)


def escaped(schema: str) -> str:
    """A schema's name as a pattern that no other name matches."""
    return schema.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")


def on(privilege: Privilege) -> str:
    """The place of a privilege as GRANT names it."""
    if not privilege.schema:
        return "*.*"
    schema = Ident(privilege.schema).sql
    if not privilege.name:
        return f"{schema}.*"
    kind = f"{privilege.kind} " if privilege.kind else ""
    return f"{kind}{schema}.{Ident(privilege.name).sql}"


def shown(privilege: Privilege) -> str:
    """A privilege as people write it."""
    column = f" ({Ident(privilege.column).sql})" if privilege.column else ""
    return f"{privilege.word}{column} ON {on(privilege)}" + (" WITH GRANT OPTION" if privilege.grantable else "")


def granting(privileges: Collection[Privilege], account: Account) -> str:
    """One GRANT of privileges on one place."""
    columns = dict[str, list[str]]()
    for each in sorted(privileges):
        columns.setdefault(each.word, []).extend([each.column] if each.column else [])
    words = [
        word + (f" ({', '.join(Ident(column).sql for column in named)})" if named else "")
        for word, named in columns.items()
    ]
    first = next(iter(privileges))
    option = " WITH GRANT OPTION" if first.grantable else ""
    return f"GRANT {', '.join(words)} ON {on(first)} TO {account_in_sql(account)}{option}"


def giving_role(role: Account, account: Account, *, admin: bool) -> str:
    """The GRANT of a role."""
    option = " WITH ADMIN OPTION" if admin else ""
    return f"GRANT {account_in_sql(role)} TO {account_in_sql(account)}{option}"


def defaulting(roles: Collection[Account], account: Account, target: Dialect) -> str:
    """The statement of default roles."""
    named = ", ".join(account_in_sql(role) for role in sorted(roles))
    return f"SET DEFAULT ROLE {named} {'TO' if target.roles_are_accounts else 'FOR'} {account_in_sql(account)}"
