"""The classes whose fields the extension reads and makes: by place, by slot, or by name.

The extension has the list of each one's fields (`dm/accelerator/structures.h`). `@shared` hands a class over as soon as
it is defined, and the extension refuses it where the two lists differ. So a field that is added on one side and
forgotten on the other stops every process that has the extension, at its first import; nothing declines in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any, Final, Protocol, TypeVar

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
    if is_dataclass(made):
        return tuple(field.name for field in fields(made))
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
