"""A server's refusal of a statement for want of a privilege: which one, as far as the server says it.

It is no matter of user and password, since the login worked. The server's words are translated by its `lc_messages`;
where they are not English, they are handed on as the cause and the privilege stays unnamed.
"""

from __future__ import annotations

import re
from typing import Final

from dm.errors.error import DMError

# MySQL "Server Error Message Reference"; MariaDB "Error Codes". All of them come after the login: no session of ours
# names a schema when it logs in (1044 would be possible there).
PRIVILEGE_ERRORS: Final = frozenset({1044, 1142, 1143, 1227, 1370})

# 1227: "Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s) for this operation".
_SPECIFIC: Final = re.compile(r"\(at least one of\) the (?P<names>[A-Z_, ]+(?: or [A-Z_ ]+)?) privilege")
# 1142, 1143: "SELECT command denied to user 'a'@'b' for table 't'"; MariaDB writes `s`.`t`.
_COMMAND: Final = re.compile(
    r"^(?P<names>[A-Z, ]+) command denied to user .* (?:for|in) table (?P<table>.+)$", re.DOTALL
)
# 1044: "Access denied for user 'a'@'b' to database 's'".
_SCHEMA: Final = re.compile(r" to database '(?P<schema>.*)'$", re.DOTALL)


def privilege_missing(words: str, *, role: str, address: str, user: str, cause: str) -> DMError:
    """The error for one of PRIVILEGE_ERRORS; `words` are the server's message."""
    privilege, where = _lacking(words)
    named = f"the privilege {privilege}" if privilege else "a privilege"
    on = f" on {where}" if where and where != "*.*" else ""
    grant = f"GRANT {_one_of(privilege) or '..'} ON {where or '..'} TO .."
    return DMError(
        "privilege-missing", role=role, address=address, user=user, lacks=f"{named}{on}", grant=grant, cause=cause
    )


def _lacking(words: str) -> tuple[str, str]:
    if match := _SPECIFIC.search(words):
        return match["names"], "*.*"
    if match := _COMMAND.search(words):
        # Any privilege of a table lets its definition be shown; the one that is needed anyway is SELECT.
        names = "SELECT" if match["names"] in ("SHOW", "ANY") else match["names"]
        return names, match["table"].replace("'", "")
    if match := _SCHEMA.search(words):
        return "", f"`{match['schema']}`.*"
    return "", ""


def _one_of(names: str) -> str:
    """The one to grant, where the server names several that would do: the least, so not SUPER."""
    listed = re.split(r", | or ", names)
    return next((name for name in listed if name != "SUPER"), names)
