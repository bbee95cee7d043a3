"""From a column value to its part of a key.

Two values that are equal in the target's column must have equal parts, whichever shard they come from. So the part is
computed as the *target's* type. If that can't be promised (a conversion that rounds, cuts or reinterprets, a text
collation with no server to ask), there is no fold, and the caller treats all values of the column as one.

Numbers rely on Python's rule that equal numbers of different types hash alike: 5, 5.0 and Decimal("5.00") are one key,
and so are 0.0 and -0.0, as in the server.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from dm.changes.collation import ASCII_CHARSETS, UTF8_CHARSETS, Weights, coarser, fold_ascii, stripper
from dm.mysql.binlog.value import Value
from dm.mysql.schema.table import Column
from dm.mysql.schema.widening import faithful
from dm.mysql.types.bytes import short_part
from dm.mysql.types.family import Fold

_MULTI_BYTE: Final = frozenset({"gbk", "gb2312", "gb18030", "big5", "euckr", "ujis", "eucjpms"})


def fold_for(source: Column, target: Column, prefix: int | None, weights: Weights | None) -> Fold | None:
    """How values of a source column become parts of a target key; None if no fold can be promised."""
    if not faithful(source, target):
        return None
    if not source.type.is_text:
        return source.type.fold(source, target, prefix)
    if source.charset == "binary" or target.charset == "binary":
        return None
    return _text_fold(source, target, prefix, weights)


def _text_fold(source: Column, target: Column, prefix: int | None, weights: Weights | None) -> Fold | None:
    of, to, collation = source.charset or "", target.charset or "", target.collation or ""
    if collation.endswith("_bin"):
        return _binary_text_fold(of, to, prefix, weights)
    if weights is None or not collation:
        return None
    if of not in ASCII_CHARSETS:
        return None
    collation = coarser(collation)
    profile = weights.profile(collation)
    ask = weights
    if profile is None:
        strip = stripper(weights, collation) if to in UTF8_CHARSETS else None
        return None if strip is None else _weighed(of, collation, prefix, weights, strip)
    read = profile.read

    def fold(value: Value) -> Hashable:
        if not isinstance(value, bytes):
            return value
        part = fold_ascii(value, prefix)
        if part is None:
            part = read(ask.weigh(value, of, collation, prefix) or b"")
        return short_part(part)

    return fold


def _weighed(of: str, collation: str, prefix: int | None, weights: Weights, strip: Callable[[bytes], bytes]) -> Fold:
    def fold(value: Value) -> Hashable:
        if not isinstance(value, bytes):
            return value
        return short_part(strip(weights.weigh(value, of, collation, prefix) or b""))

    return fold


def _binary_text_fold(of: str, to: str, prefix: int | None, weights: Weights | None) -> Fold | None:
    """Under a _bin collation equal text is equal bytes, except for trailing spaces, which PAD SPACE ignores."""
    if to not in ASCII_CHARSETS or of not in ASCII_CHARSETS:
        return None
    convertible = of == to or {of, to} <= UTF8_CHARSETS
    cut_as_utf8 = convertible and to in UTF8_CHARSETS
    cut_as_bytes = convertible and to not in UTF8_CHARSETS | _MULTI_BYTE
    ask = weights
    if ask is None and not convertible:
        return None
    if ask is None and prefix is not None and not (cut_as_utf8 or cut_as_bytes):
        return None

    def fold(value: Value) -> Hashable:
        if not isinstance(value, bytes):
            return value
        if value.isascii() or (prefix is None and convertible) or cut_as_bytes:
            part: bytes = value[:prefix]
        elif cut_as_utf8:
            part = value.decode("utf-8", "surrogateescape")[:prefix].encode("utf-8", "surrogateescape")
        else:
            assert ask is not None
            part = ask.convert(value, of, to, prefix) or b""
        return short_part(part.rstrip(b" "))

    return fold
