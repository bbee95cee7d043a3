"""ENUM and SET values travel as numbers; each side maps a number to its own label.

If source and target have the same labels in the same order, the number is sent unchanged. Otherwise it is translated to
the number of the target's member with the very same label. It is never sent as text: a label that the target lacks but
that looks like a number would be taken for one (MySQL Reference Manual, "The ENUM Type").
"""

from __future__ import annotations

from collections.abc import Callable

from dm.errors import DMError
from dm.mysql.binlog.value import Value
from dm.mysql.schema.table import Column


def renumbering(source: Column, target: Column) -> Callable[[Value], Value]:
    """How a number of the source's ENUM or SET becomes the target's."""
    if source.members == target.members:
        return _same
    places = {label: at for at, label in enumerate(target.members)}
    to = [places.get(label) for label in source.members]

    def place(at: int) -> int:
        found = to[at] if at < len(to) else None
        if found is None:
            label = source.members[at] if at < len(source.members) else f"number {at + 1}"
            raise DMError("member-missing", column=target.name, label=label)
        return found

    def enum_number(value: Value) -> Value:
        return place(value - 1) + 1 if isinstance(value, int) and value else value

    def set_mask(value: Value) -> Value:
        if not isinstance(value, int):
            return value
        mask, at = 0, 0
        while value >> at:
            if value >> at & 1:
                mask |= 1 << place(at)
            at += 1
        return mask

    return enum_number if source.base == "enum" else set_mask


def _same(value: Value) -> Value:
    return value


def label_of(source: Column) -> Callable[[Value], Value]:
    """How a number of the source's ENUM or SET becomes label text, for a text column at the target."""

    def enum_label(value: Value) -> Value:
        if not isinstance(value, int):
            return value
        return source.members[value - 1].encode() if 0 < value <= len(source.members) else b""

    def set_labels(value: Value) -> Value:
        if not isinstance(value, int):
            return value
        return ",".join(label for at, label in enumerate(source.members) if value >> at & 1).encode()

    return enum_label if source.base == "enum" else set_labels
