"""MariaDB's UUID, INET6 and INET4: bytes inside, a text in ASCII outside, which is accepted from any client.

Row events hold them as fixed byte strings in the order of the text, without trailing zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from uuid import UUID

from dm.mysql.binlog.table_map import WireColumn, WireForm
from dm.mysql.binlog.value import Value
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.sql.literal import Encoder, wrong_type
from dm.mysql.types.family import ColumnType, TypedColumn, TypeFamily, bare, called, plainly
from dm.mysql.types.numbers import as_chars, fold_itself
from dm.mysql.types.temporal import text_bound

_SIZES: Final = {"uuid": 16, "inet6": 16, "inet4": 4}
_TEXTS: Final[dict[str, Callable[[bytes], str]]] = {
    "uuid": lambda raw: str(UUID(bytes=raw)),
    "inet6": lambda raw: str(IPv6Address(raw)),
    "inet4": lambda raw: str(IPv4Address(raw)),
}


def address_text(name: str, raw: bytes) -> str:
    """The text of a row event's value."""
    return _TEXTS[name](raw.ljust(_SIZES[name], b"\0"))


def _texts(name: str, charset: str | None) -> Encoder:
    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, bytes):
            raise wrong_type(value, name)
        return b"'" + address_text(name, value).encode() + b"'"

    return encode


def _default_text(column: TypedColumn, text: str) -> str:
    """An address or UUID as its type stores it, however it is spelled."""
    try:
        return str(ip_address(text))
    except ValueError:
        return text.replace("-", "").lower()


def _as_text(source: TypedColumn, target: TypedColumn) -> bool:
    return target.type is source.type or target.type.is_text


def _address(name: str, *, provable: bool) -> ColumnType:
    size = _SIZES[name]

    def mismatch(wire: WireType, column: WireColumn) -> str | None:
        return None if wire.size == size else f"it takes {size} bytes and the binlog has {wire.size}"

    return ColumnType(
        name=name,
        bytes_inside=size,
        wire=WireForm((WireCode.STRING,), mismatch, provable=provable, padded=lambda _: size),
        default_text=_default_text,
        fold=fold_itself,
        encodes=_texts,
        usual=called,
        exact=plainly,
        shown=as_chars,
        shown_as_text=True,
        ordered=True,
        bound=text_bound,
        plain_text=True,
        text_charset="latin1",
        spark="text",
    )


FAMILY: Final = TypeFamily(
    (
        replace(_address("uuid", provable=False), keeps=_as_text),
        _address("inet6", provable=True),  # whose text is not always the one that the source shows
        replace(_address("inet4", provable=True), keeps=_as_text),
    ),
    {"UUID": bare, "INET6": bare, "INET4": bare},
)
