"""Python and C know the same fields of everything they share, and a difference is an error."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from types import ModuleType
from typing import NamedTuple

import pytest

import dm
from dm.accelerator.native import NO_MEMBER, STRUCTURES, field_names, hand_over, shared


@pytest.fixture
def _kept(native: ModuleType) -> Iterator[None]:
    """The classes as they are, whatever a test hands over."""
    before = dict(STRUCTURES)
    yield
    STRUCTURES.clear()
    STRUCTURES.update(before)
    hand_over(native)


def every_structure() -> dict[str, type]:
    """Those of all packages that have any."""
    for package in (
        "mysql.binlog",
        "changes",
        "mysql.sql",
        "dumpfiles",
        "sourcelog.relaylog",
        "loader",
        "sourcelog.stream",
    ):
        where = importlib.import_module(f"{dm.__name__}.{package}")
        for module in pkgutil.iter_modules(where.__path__, f"{where.__name__}."):
            importlib.import_module(module.name)
    return STRUCTURES


def test_both_sides_know_the_same_fields(native: ModuleType) -> None:
    assert {name: field_names(made) for name, made in every_structure().items()} == native.structures


def test_a_class_with_other_fields_is_refused(native: ModuleType) -> None:
    for name, made in every_structure().items():
        fields = field_names(made)
        for others in ((*fields, "more"), fields[:-1], (*fields[1:], fields[0])):
            with pytest.raises(TypeError, match=f"{name} has the fields"):
                native.adopt(name, made, others, None)


@pytest.mark.usefixtures("_kept")
def test_a_field_that_is_added_in_python_alone_is_refused_where_the_class_is_defined(native: ModuleType) -> None:
    hand_over(native)
    with pytest.raises(TypeError, match="KeyValue has the fields"):

        @shared
        class KeyValue(NamedTuple):
            at: int
            fold: None
            more: int = 0

    with pytest.raises(TypeError, match="RowChange has the fields"):

        @shared
        @dataclass(slots=True)
        class RowChange:
            plan: int
            kind: int

    with pytest.raises(TypeError, match="EventTreatment has the fields"):

        @shared
        class EventTreatment(IntEnum):
            SHOWN = 0
            ROWS = 1
            TABLE_MAP = 2
            UNUSUAL = 3
            MORE = 4

    with pytest.raises(TypeError, match="no structure Unheard"):

        @shared
        class Unheard(NamedTuple):
            at: int


@pytest.mark.usefixtures("_kept")
def test_a_class_that_is_no_plain_tuple_is_refused(native: ModuleType) -> None:
    class Wide(tuple[int, ...]):
        _fields = ("at", "fold")

    with pytest.raises(TypeError, match="adopt"):
        native.adopt("KeyValue", Wide, ("at", "fold"), None)


def test_members_of_an_enumeration_stand_at_their_numbers() -> None:
    class Some(IntEnum):
        THIRD = 3
        FIRST = 1

    assert field_names(Some) == (NO_MEMBER, "FIRST", NO_MEMBER, "THIRD")


@pytest.mark.parametrize(
    "arguments", [(), ("Rows",), ("Rows", 1, (), None), ("Rows", tuple, [], None), (1, tuple, (), None)]
)
def test_what_is_no_class_is_refused(native: ModuleType, arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        native.adopt(*arguments)
