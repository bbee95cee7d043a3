"""One transaction of the source, as the assembler yields it: raw row events, not yet decoded."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from dm.accelerator.native import shared
from dm.errors import DMError
from dm.gtid import Gtid
from dm.mysql.binlog.charset import charset_of
from dm.mysql.binlog.reader import Query, Rows, TableMap
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.sourcelog.stream.marks import Writer
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.upstream.facts import ServerFacts


@shared
class RowsItem(NamedTuple):
    """One row event with the table map it refers to."""

    table_map: TableMap
    rows: Rows


@dataclass(slots=True)
class StatementItem:
    """One query event that is neither BEGIN nor an end: DDL, or something that needs no replication."""

    query: Query
    start: int = 0  # start of its event, in the file where the transaction ends


Item = RowsItem | StatementItem


class TransactionItems(Protocol):
    """The items of a transaction, in memory or partly in a spool file; readable several times."""

    @property
    def size(self) -> int:
        """The memory that the last `release` returns."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Item]: ...

    def hold(self) -> None:
        """Register one more reader: `release` is called once more."""
        ...

    def release(self) -> None:
        """A reader is done; nothing reads the items after the last call."""
        ...


# One lock for all: it is held for an addition.
_counting = threading.Lock()


class Readers(ABC):
    """Counts the readers of a transaction's items; the last one returns their memory."""

    __slots__ = ("_quota", "_readers", "size")

    def __init__(self, size: int, quota: MemoryQuota | None) -> None:
        self.size = size
        self._quota = quota
        self._readers = 1

    def hold(self) -> None:
        """Register one more reader: `release` is called once more."""
        with _counting:
            self._readers += 1

    def release(self) -> None:
        """A reader is done; nothing reads the items after the last call."""
        with _counting:
            self._readers -= 1
            last = self._readers == 0
        if last:
            self._forget()
            if self._quota is not None:
                self._quota.release(self.size)

    @abstractmethod
    def _forget(self) -> None:
        """Drop the items; nothing reads them any more."""


class MemoryItems(Readers):
    """Items of a transaction that is small enough to stay in memory."""

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[Item] = (), size: int = 0, quota: MemoryQuota | None = None) -> None:
        super().__init__(size, quota)
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def _forget(self) -> None:
        self._items = ()


class PlainItems(MemoryItems):
    """Items of a small transaction that has only rows."""

    __slots__ = ("rows",)

    def __init__(self, rows: list[RowsItem], size: int, quota: MemoryQuota) -> None:
        super().__init__(rows, size, quota)
        self.rows = rows

    def _forget(self) -> None:
        self._items, self.rows = (), []


@dataclass(slots=True)
class SourceTransaction:
    """What the source committed at once, or a mere move of the position (no items)."""

    begin: Position
    end: Position
    gtid: Gtid | None
    timestamp: int  # the source's clock, seconds
    items: TransactionItems = field(default_factory=MemoryItems)
    size: int = 0  # bytes of binlog
    starts: int = 0  # how often the run has seen the server start; its sessions of before are no more
    moment: int = 0  # when it was committed, in microseconds, where an order of several sources needs it
    moves: bool = False  # it is no transaction: a file begins or ends here
    writer: Writer = "others"  # who has executed its statement

    @property
    def empty(self) -> bool:
        """Whether only the position moves."""
        return not len(self.items)


# How to read the text of a query event: the logged session variables that affect its meaning.

# MariaDB's OPTION_EXPLICIT_DEF_TIMESTAMP, logged since the variable is a session variable (10.10; sql/sql_priv.h).
# MySQL logs it since 5.7 where it matters (Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP). Before these versions the variable holds
# for the whole server, and is OFF by default.
_EXPLICIT_TIMESTAMP: Final = 1 << 24
# The only values default_collation_for_utf8mb4 can have (MySQL Reference Manual).
UTC: Final = ("UTC", "GMT", "Etc/UTC")
"""Names under which a server has the time zone +00:00."""
_OF_UTF8MB4: Final = {45: "utf8mb4_general_ci", 255: "utf8mb4_0900_ai_ci"}


def explicit_defaults_for_timestamp(facts: ServerFacts, query: Query) -> bool | None:
    """The session's variable; None if the event does not tell, because it made no difference."""
    flags = query.session.flags2
    if not facts.dialect.tells_explicit_timestamps:
        return facts.explicit_timestamps
    if facts.dialect.flags_explicit_timestamps and flags is not None:
        return bool(flags & _EXPLICIT_TIMESTAMP)
    return query.session.explicit_defaults_for_timestamp


def _charset_collations(query: Query, names: Mapping[int, str]) -> tuple[tuple[str, str], ...] | None:
    pairs = query.session.charset_collations
    if pairs is None:
        return None
    found = []
    for owner, number in pairs:
        charset, collation = charset_of(owner), names.get(number)
        if charset is None or collation is None:
            why = f"character_set_collations names collation {number}, which the source does not have now"
            raise DMError("ddl-not-understood", statement=query.readable, why=why)
        found.append((charset, collation))
    return tuple(found)


def _in_utc(facts: ServerFacts, query: Query) -> bool:
    zone = query.time_zone  # None where the statement did not depend on it
    return zone in (None, "+00:00", *UTC) or (zone == "SYSTEM" and facts.system_time_zone in UTC)


def query_context(facts: ServerFacts, query: Query, names: Mapping[int, str]) -> SourceContext:
    """What the meaning of a query event's text depends on; `names` are the source's collations by number."""
    context = SourceContext.of_sql_mode(facts.flavor, facts.version, query.schema, query.sql_mode or 0)
    explicit = explicit_defaults_for_timestamp(facts, query)
    return replace(
        context,
        # What the server wrote itself has escapes under any sql_mode (`dm.mysql.binlog.query`).
        no_backslash_escapes=context.no_backslash_escapes and not query.by_server,
        utf8="utf8mb3" if facts.utf8_is_utf8mb3 else "utf8mb4",
        in_utc=_in_utc(facts, query),
        lower_case_names=facts.lower_case_table_names == 1,
        explicit_defaults_for_timestamp=context.explicit_defaults_for_timestamp if explicit is None else explicit,
        utf8mb4_collation=_OF_UTF8MB4.get(query.default_collation_for_utf8mb4 or 0),
        charset_collations=_charset_collations(query, names),
        server_collation=None if query.charset is None else names.get(query.charset[2]),
    )
