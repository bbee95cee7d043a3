"""A table's rows in their second form: the source's own row images, in events that the target executes.

A change that has its raw images can be sent either way. Columns that an event does not need (all but those of keys) may
not have been decoded; `decode_all` decodes them before the change becomes SQL.

The target may refuse images that look right here (a conversion, a setting, an engine's limit). Each such batch is done
again as SQL, row by row, so only time is lost. `refuse` makes that happen once: a table whose events were refused, and
whose rows then went as SQL without an error, goes as SQL from then on. If a refused statement held several tables, each
is sent alone first, to find the table that was refused.

Before its first row event a transaction asks (`events_allowed`): does the server apply events as when the session
began? Variables of the whole server decide how, anybody may set them at any time, and they hold at once: MariaDB passes
over missing rows and duplicate keys by one, sends rows to another schema by another, and by a third both servers cut
values that do not fit. So each transaction asks, in the round trip of its events, and commits only if nothing has
changed.

And it looks at the columns of each such table (`TableLook`). An event has no names: a server puts values where columns
stand, and drops those for which it has no column. Where somebody has altered the table by hand, values would be lost
without an error, or get into other columns. Where images before have the columns of a key alone (`dm.changes.
before_images`), the answer also says whether it is still the table's primary key: by another one the server would find
other rows. The question locks the table's structure until the transaction's end, as the events do, so what it sees
holds for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dm.changes.keys import Key
from dm.ident import Ident, TableName
from dm.mysql.binlog.image_cut import cut_image
from dm.mysql.binlog.image_proof import ProofStep
from dm.mysql.binlog.row_events import RowEvents, RowsKind
from dm.mysql.binlog.value import Row
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.schema.table import Column

ReadImage = Callable[[bytes], Row]


@dataclass(frozen=True, slots=True)
class Order:
    """What the order of a table's changes depends on."""

    keyed: bool  # a key finds its rows, one after the other
    key: Key | None  # of all changes of the target table, where they may not move over each other


LOOK: Final = b"SELECT /* columns */ "
"""What the question for a table's columns begins with; its answer has no row."""


@dataclass(frozen=True, slots=True)
class TableLook:
    """Asks for the columns of a table; those that the events have come first in the answer, named so."""

    sql: bytes
    names: tuple[str, ...]  # in lower case
    key: frozenset[str] = frozenset()  # of the primary key's columns, likewise; none: it may be any

    @classmethod
    def of(cls, table: TableName, columns: Sequence[Column], found_by: Sequence[int] = ()) -> TableLook:
        """The question for a table of these columns, as they stand there; `found_by`: those that find its rows."""
        there = [column for column in columns if not column.name.startswith("!hidden!")]
        hidden = [column.name for column in there if column.invisible]
        every = ", ".join([*(Ident(name).sql for name in hidden), f"{Ident(table.table).sql}.*"])
        # FALSE: no row is read or locked, and no partition opened. FOR UPDATE: the lock of the structure is the one
        # that the events take, so nothing comes between the two.
        sql = LOOK + f"{every} FROM {table.sql} WHERE FALSE FOR UPDATE".encode()
        shown = (column.name for column in there if not column.invisible)
        key = frozenset(columns[at].name.lower() for at in found_by)
        return cls(sql, tuple(name.lower() for name in (*hidden, *shown)), key)


@dataclass(frozen=True, slots=True)
class Applying:
    """How the target applies the table's events."""

    foreign_keys: bool  # it looks at them, unless a change says otherwise
    guard: bytes  # asks whether the server does as it did when the session began
    look: TableLook
    scans: bool  # it reads the table for each row that it searches
    cut: bytes | None = None  # how images before are cut to what it needs of them; None: they are not


class EventForm:
    """How the rows of one source table go to one target table as events; used by all lanes."""

    def __init__(
        self,
        events: RowEvents,
        proofs: Sequence[ProofStep],
        proving: dict[bytes, Any] | None,
        read_image: ReadImage,
        order: Order,
        applying: Applying,
    ) -> None:
        self.proofs = proofs
        """What has to hold of images that go as they are."""
        self._events = events
        self.read_image = read_image
        """Reads what a change left unread of an image; raises DMError."""
        self._foreign_keys = applying.foreign_keys
        self.guard = applying.guard
        """Asks whether the target still applies events as it did when the session began."""
        self.look = applying.look
        """Asks whether the target's table still has the columns that the events have."""
        self.scans = applying.scans
        """Whether the server reads the table for each row that it searches."""
        self.cut = applying.cut
        """How images before are cut; None: they go whole."""
        self.keyed = order.keyed
        self.order_key = order.key
        """What all changes of the target table share, where they keep their order."""
        self.proving = proving
        """What the compiled loop makes raw images with, emptied when they are no longer wanted."""
        self.refused = ""
        """Why the form is no longer used."""
        self.alone = False
        """Whether the table's events are sent in statements of their own."""

    def refuse(self, why: str) -> None:
        """Use SQL from now on."""
        self.refused = why
        if self.proving is not None:
            self.proving.clear()

    def images(self, raw_before: bytes | None, raw_after: bytes | None) -> tuple[bytes, ...]:
        """What an event has of a change."""
        if raw_before is not None and self.cut is not None:
            raw_before = cut_image(self.cut, raw_before)
        return tuple([raw for raw in (raw_before, raw_after) if raw is not None])

    def pieces(self, kind: RowsKind, images: Sequence[bytes], *, unchecked: bool) -> list[bytes]:
        """The events of these images, an update's before and after by turns, in pieces."""
        return self._events.pieces(kind, images, foreign_keys=self._foreign_keys and not unchecked)


GUARD: Final = b"SELECT 1 FROM DUAL WHERE @@GLOBAL."
"""What each such question begins with; its answer has one row."""

_MARIADB: Final = (
    b"slave_exec_mode = 'STRICT' AND @@GLOBAL.slave_type_conversions = '' AND @@GLOBAL.replicate_rewrite_db = ''"
)


def events_allowed(flavor: Flavor, version: int) -> bytes:
    """The question to a server of this version."""
    server = dialect(flavor, version)
    if server.rewrites_schemas:
        return GUARD + _MARIADB
    return GUARD + (b"replica" if server.says_replica else b"slave") + b"_type_conversions = ''"
