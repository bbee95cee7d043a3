"""Values of row images as a dump's files hold them: the bytes that the server would send.

So the expressions that give a dump's columns their types (`dm.lake`) give them to the feed's, and both have the same
types and the same meaning by construction. Members of ENUM and SET are numbers, as in a dump whose members' texts don't
tell which they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from uuid import UUID

from dm.binlog.value import ABSENT, Row, Value
from dm.errors import DMError
from dm.schema.table import Column, TableSchema

_ADDRESSES: Final[dict[str, Callable[[bytes], str]]] = {
    "uuid": lambda raw: str(UUID(bytes=raw.ljust(16, b"\0"))),
    "inet6": lambda raw: str(IPv6Address(raw.ljust(16, b"\0"))),
    "inet4": lambda raw: str(IPv4Address(raw.ljust(4, b"\0"))),
}


def image_of(schema: TableSchema, columns: Sequence[Column], row: Row) -> dict[str, bytes | None]:
    """A row by the names of its columns; generated ones are left out, as in a dump. Raises DMError."""
    found: dict[str, bytes | None] = {}
    for column, value in zip(columns, row, strict=True):
        if column.generated is not None:
            continue
        if value is ABSENT:
            raise DMError("feed-partial-image", table=schema.name, column=column.name)
        found[column.name] = _bytes(column, value)
    return found


def _bytes(column: Column, value: Value) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        address = _ADDRESSES.get(column.base)
        return value if address is None else address(value).encode()
    if column.base == "bit":
        assert isinstance(value, int)
        return value.to_bytes(((column.length or 1) + 7) // 8, "big")
    return (repr(value) if isinstance(value, float) else str(value)).encode()


def merged(before: Row | None, after: Row | None) -> tuple[Row | None, Row | None]:
    """An UPDATE's after image with the columns that it lacks since they are as before (MariaDB's FULL_NODUP)."""
    if before is None or after is None:
        return before, after
    return before, tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))
