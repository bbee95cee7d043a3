"""What the extension offers, and the classes whose fields it knows.

Mypy holds the stub (`_native.pyi`) against these protocols.

The extension reads and makes fields of classes by place, by slot, or by name. It has the list of each one's fields
(`dm/accelerator/shared.h`). `@shared` hands a class over as soon as it is defined, and the extension refuses it
where the two lists differ. So a field that is added on one side and forgotten on the other stops every process that has
the extension, at its first import; nothing declines in silence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, Protocol, TypeVar

Item = TypeVar("Item")


class TextRows(Protocol):
    """Rows of the text protocol on their way into columns."""

    def run(self, data: bytes | bytearray, start: int, end: int, rows: int, size: int, /) -> Any:
        """Take the rows of usual packets; TakenRows."""
        ...

    def row(self, data: bytes | bytearray, start: int, end: int, /) -> bool:
        """Take one row; False when the bytes are none."""
        ...

    def take(self) -> list[Any]:
        """The columns, each as ColumnBuffers; afterwards there are none."""
        ...


class ChangeMaker(Protocol):
    """From row events to row changes, and on to workers."""

    def __call__(self, items: Any, at: int, tables: Any, safe: bool, /) -> Any:
        """MadeChanges of the items from a place on."""
        ...

    def spread(
        self, holder: Any, changes: list[Any], at: int, free: int, limit: int, room: Any, /
    ) -> tuple[list[tuple[int, list[Any]]], int]:
        """The changes from a place on by worker, and the place of the first that was not given."""
        ...

    def spread_run(
        self,
        holder: Any,
        changes: list[Any],
        at: int,
        free: int,
        limit: int,
        room: Any,
        ends: list[int],
        /,
    ) -> tuple[list[tuple[int, list[Any], bytes]], int]:
        """The same for changes of several transactions, with the transaction of each."""
        ...


class Native(Protocol):
    """The extension."""

    @property
    def structures(self) -> dict[str, tuple[str, ...]]:
        """The fields of every structure that C knows."""
        ...

    def adopt(self, name: str, made: type, fields: tuple[str, ...], members: tuple[Any, ...] | None, /) -> None:
        """Take a class as the one of a structure; raises TypeError if its fields are others."""
        ...

    def declines(self) -> dict[str, int]:
        """How often each loop has left something to Python, since the extension was loaded."""
        ...

    def Layout(  # noqa: N802 (a class there)
        self, steps: tuple[Any, ...], absent: object, proofs: tuple[Any, ...] = ..., unread: object = ..., /
    ) -> Any:
        """How to read the images that hold one set of columns."""
        ...

    def TextRows(self, width: int, /) -> TextRows:  # noqa: N802 (a class there)
        """Rows of so many values."""
        ...

    def Literals(  # noqa: N802 (a class there)
        self, steps: tuple[Any, ...], open: bytes, close: bytes, /
    ) -> Callable[[tuple[Any, ...]], bytes]:
        """What makes the literals of a row."""
        ...

    def ChangeMaker(self, factor: int, raw: int, each: int, /) -> ChangeMaker:  # noqa: N802 (a class there)
        """The loop, which counts memory by the bytes of an event and by change."""
        ...

    def compacted(
        self,
        changes: Sequence[Item],
        limit: int,
        keys_of: Callable[[Item], tuple[Any, ...]],
        absent: object,
        wild: object,
        /,
    ) -> Sequence[Item] | None:
        """The changes, those of one row merged."""
        ...

    def grouped(
        self,
        changes: Sequence[Item],
        limit: int,
        keys_of: Callable[[Item], tuple[Any, ...]],
        alone: Callable[[Item], list[Any]],
        absent: object,
        wild: object,
        /,
    ) -> list[Any] | None:
        """The changes by the statements that they share: a Group, or the statements of one alone."""
        ...

    def tally(self, changes: Sequence[Any], /) -> list[tuple[Any, int, int, int]] | None:
        """The plans of the changes, each with its inserts, updates and deletes; None where Python has to count."""
        ...

    def event_groups(
        self,
        changes: Sequence[Item],
        room: int,
        keys_of: Callable[[Item], tuple[Any, ...]],
        wild: object,
        scanned_rows: int,
        /,
    ) -> list[tuple[list[Item], list[bytes], int]] | None:
        """The changes by the rows events that they share, with their images; None where they are not all events."""
        ...

    def binlog_statement(self, pieces: Sequence[bytes], /) -> bytes:
        """The statement that has a server execute the events."""
        ...

    def cut_image(self, cut: bytes, image: bytes, /) -> bytes | None:
        """The image of some of its columns; None where Python has to look."""
        ...

    def proven_rows(self, layouts: dict[bytes, Any], rows: tuple[Any, ...], /) -> list[Any] | None:
        """The row changes of an event with their bytes; None where one is not proven, or a layout is missing."""
        ...

    def decode_rows(self, layouts: dict[bytes, Any], rows: tuple[Any, ...], /) -> list[Any] | None:
        """The row changes of an event; None where a layout is missing, too."""
        ...

    def frames(self, data: bytes, start: int, end: int, checksum: bool, place: int, /) -> tuple[Sequence[Any], int]:
        """The events of a piece of a file, and their end."""
        ...

    def rows_event(
        self, form: Any, handler: Callable[..., Any], data: bytes, start: int, end: int, header: Any, /
    ) -> Any:
        """The rows event of a body; what the handler says of an unusual one."""
        ...

    def table_map_event(
        self, known: dict[bytes, Any], handler: Callable[..., Any], data: bytes, start: int, end: int, header: Any, /
    ) -> Any:
        """The table map of a known body; what the handler says of another."""
        ...

    def rows_of(self, events: Sequence[Any], at: int, state: Any, made: type[Item], /) -> Any:
        """The rows events at a place of a list; FoundRows."""
        ...

    def transactions_of(
        self, events: Sequence[Any], at: int, state: Any, largest: int, made: type[Item], /
    ) -> tuple[list[Any], int]:
        """The transactions at a place of a list, each a FoundTransaction, and their end."""
        ...

    def cut(
        self,
        data: bytearray | memoryview,
        start: int,
        sequence: int,
        offset: int,
        checksum: bool,
        ways: bytearray,
        boundary: object,
        inside: int,
        table_ids: set[bytes],
        feed: Callable[[bytes, int], bool],
        /,
    ) -> Any:
        """A run of usual events out of packets; Cut."""
        ...

    def local_data(self, columns: tuple[Any, ...], start: int, rows: int, size: int, /) -> tuple[bytes, int]:
        """Rows of columns as the data of LOAD DATA, and the row after."""
        ...

    def json_numbers(self, offsets: Any, values: Any, documents: int, /) -> int:
        """How many numbers texts of documents have; -1 where a text in them may be a date, a time or bytes."""
        ...

    def json_text(self, doc: bytes, /) -> str | None:
        """The text of a stored document."""
        ...

    def crc32(self, data: bytes | bytearray | memoryview, /) -> int:
        """The CRC-32 of bytes."""
        ...


_Class = TypeVar("_Class", bound=type)

NO_MEMBER: Final = "_"
"""Stands for a number that no member of an enumeration has."""

STRUCTURES: Final[dict[str, type]] = {}
"""All that have been handed over, by name."""


class Adopting(Protocol):
    """What of an extension is asked here."""

    @property
    def adopt(self) -> Callable[[str, type, tuple[str, ...], tuple[Any, ...] | None], None]:
        """Take a class as the one of a structure; raises TypeError if its fields are others."""
        ...


_extension: Adopting | None = None


def field_names(made: type) -> tuple[str, ...]:
    """The fields of a structure in their order, or the members of an enumeration by number."""
    if issubclass(made, IntEnum):
        members = {member.value: member.name for member in made}
        return tuple(members.get(number, NO_MEMBER) for number in range(max(members) + 1))
    if dataclasses.is_dataclass(made):
        return tuple(field.name for field in dataclasses.fields(made))
    names: tuple[str, ...] = made._fields  # type: ignore[attr-defined]  # a named tuple's
    return names


def shared(made: _Class) -> _Class:
    """A class that the extension knows, under its own name."""
    if _extension is not None:
        _adopt(_extension, made)
    STRUCTURES[made.__name__] = made
    return made


def hand_over(extension: Adopting) -> None:
    """Give all structures to an extension, those to come included."""
    global _extension
    _extension = extension
    for made in STRUCTURES.values():
        _adopt(extension, made)


def _adopt(extension: Adopting, made: type) -> None:
    names = field_names(made)
    members: tuple[Any, ...] | None = None
    if issubclass(made, IntEnum):
        members = tuple(None if name == NO_MEMBER else made[name] for name in names)
    extension.adopt(made.__name__, made, names, members)
