"""One account as a server has it: how it logs in, its limits, its privileges.

Hashes of passwords are secrets. They stand in `Login.secret` and in statements made of it, and nowhere else: neither in
what is compared for people, nor in an error, nor in a log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dm.tools.objects.stored import Account

SYSTEM_ACCOUNTS: Final = frozenset(
    {"mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys", "root", "PUBLIC", "debian-sys-maint"}
)
"""Users that a server has by itself, on any host, and the administrator's: they stay what they are on each side."""


@dataclass(frozen=True, slots=True)
class Login:
    """A way to log in."""

    plugin: str
    secret: bytes = field(default=b"", repr=False)  # as the server keeps it, a hash mostly


class Privilege(NamedTuple):
    """One privilege on one thing."""

    word: str
    column: str = ""
    kind: str = ""  # FUNCTION, PROCEDURE, PACKAGE or PACKAGE BODY
    schema: str = ""  # a pattern where `name` is empty; empty itself for all schemas
    name: str = ""
    grantable: bool = False

    @property
    def place(self) -> Privilege:
        """What it is on, and whether it may be passed on: one GRANT names all privileges of one place."""
        return self._replace(word="", column="")


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """An account or role; `understood` is False where the server's text has another form than is known."""

    name: Account
    role: bool = False  # it can't log in, and others have its privileges
    logins: tuple[Login, ...] = ()
    every_login: bool = False  # all of them are needed, not one of them
    clauses: Mapping[str, str] = field(default_factory=dict)  # by their first words, those that are no defaults
    privileges: frozenset[Privilege] = frozenset()
    roles: Mapping[Account, bool] = field(default_factory=dict)  # that it has, and whether it may give them on
    default_roles: frozenset[Account] = frozenset()
    unread: tuple[str, ...] = ()  # lines of SHOW GRANTS of another kind, which hold no secret
    second_password: bool = False  # which no statement tells
