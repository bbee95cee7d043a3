"""One object as a server stores it: its statement, and the settings of the session that created it.

Both servers keep with a routine, trigger or event the sql_mode, the character set and the collations of its session;
with an event also the time zone; with a view no sql_mode. What the text means depends on them, so they are part of the
object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Kind = Literal["function", "procedure", "package", "package body", "view", "trigger", "event"]
KINDS: Final[tuple[Kind, ...]] = ("function", "procedure", "package", "package body", "view", "trigger", "event")
"""In the order in which they are created."""
ROUTINES: Final = frozenset({"function", "procedure", "package", "package body"})
ACTING: Final[frozenset[Kind]] = frozenset({"trigger", "event"})
"""Those that change rows by themselves."""


class ObjectName(NamedTuple):
    """What an object is called, and what it is."""

    kind: Kind
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.schema}.{self.name}"


class Account(NamedTuple):
    """An account or, without a host, a role of MariaDB."""

    user: str
    host: str

    @classmethod
    def of(cls, text: str) -> Account:
        """From `user@host`, as servers list it: a host has no `@`."""
        user, at, host = text.rpartition("@")
        return cls(user, host) if at else cls(text, "")

    def __str__(self) -> str:
        return f"{self.user}@{self.host}" if self.host else self.user


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """The session of an object's creation, as far as the server keeps it; empty where it keeps nothing."""

    client: str  # character_set_client
    collation: str  # collation_connection
    database_collation: str = ""  # the default of the schema at that time
    sql_mode: str = ""
    time_zone: str = ""

    @property
    def modes(self) -> frozenset[str]:
        """The single modes."""
        return frozenset(mode for mode in self.sql_mode.upper().split(",") if mode)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One of them; `statement` has the server's own bytes, None where the account may not read it."""

    name: ObjectName
    definer: Account
    statement: bytes | None = None
    settings: ObjectSettings = ObjectSettings("utf8mb4", "utf8mb4_general_ci")
    table: str = ""  # of a trigger
    place: int = 0  # of a trigger among those of its table and moment
    moment: str = ""  # of a trigger: BEFORE or AFTER, and what
    status: str = ""  # of an event
    comment: str = ""  # of an event
