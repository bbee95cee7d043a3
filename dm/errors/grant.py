"""GRANT statements, for prechecks and for ways out: each can be copied to the server as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

# Of the target, in DM's order; REFERENCES for tables with foreign keys.
TARGET_PRIVILEGES: Final = ("CREATE", "SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "DROP", "INDEX", "REFERENCES")

WHO: Final = "SELECT CURRENT_USER(), DATABASE()"


class Grantee(NamedTuple):
    """Whom a server takes a session for, and where that looks for tables."""

    account: str  # as GRANT names it
    schema: str  # "" for none

    @classmethod
    def of(cls, current_user: object, schema: object) -> Grantee:
        """From the server's answer to `WHO`."""
        return cls(account_sql(_text(current_user)), _text(schema))


def nobody() -> Grantee:
    """Where the server can't be asked: a user's name may be that of several accounts."""
    return Grantee("..", "")


def account_sql(current_user: str) -> str:
    """What CURRENT_USER() says, in the quotes of a statement."""
    user, _, host = current_user.rpartition("@")
    return "@".join(map(_quoted, (user, host)))


def _quoted(part: str) -> str:
    if "\\" in part:  # which is itself in a string or begins an escape, as the sql_mode says
        return "`" + part.replace("`", "``") + "`"
    return "'" + part.replace("'", "''") + "'"


def grant(privileges: Iterable[str], on: str, account: str) -> str:
    """The statement; `on` is in SQL, `*.*` where a privilege is the server's as a whole."""
    return f"GRANT {', '.join(privileges)} ON {on} TO {account}"


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
