"""Which types there are: those of the files of this package that have a FAMILY.

A type is known by its file alone: without it, a table with such a column is refused as of an unknown type.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Final, Self

from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor
from dm.mysql.types.family import ColumnType, DataType, Spelling, TypeFamily


@dataclass(frozen=True, slots=True)
class TypeRegistry:
    """The types of some families, by name, and how they are spelled."""

    types: Mapping[str, ColumnType]
    spellings: Mapping[str, Spelling]

    @classmethod
    def of(cls, modules: Iterable[ModuleType]) -> Self:
        """Those of these modules."""
        types: dict[str, ColumnType] = {}
        spellings: dict[str, Spelling] = {}
        for module in modules:
            family: TypeFamily = module.FAMILY
            types |= {each.name: each for each in family.types}
            types |= {printed: types[name] for printed, name in family.printed.items()}
            spellings |= family.spellings
        return cls(types, spellings)


def family_modules() -> list[ModuleType]:
    """The files of this package that are families."""
    names = sorted(found.name for found in iter_modules([str(Path(__file__).parent)]) if found.name not in _OTHERS)
    return [import_module(f"{__package__}.{name}") for name in names]


_WORD_END: Final = re.compile(r"[( ]")
_OTHERS: Final = frozenset({"family", "registry"})
KNOWN = TypeRegistry.of(family_modules())


def column_type(name: str) -> ColumnType:
    """The type of this name, in its normal form or as information_schema prints it; KeyError if there is none."""
    return KNOWN.types[name]


def _by_name(kind: ColumnType) -> tuple[Callable[[str], ColumnType], tuple[str]]:
    return column_type, (kind.name,)


copyreg.pickle(ColumnType, _by_name)  # the executors of Spark compare descriptors by identity, too


def printed_type(text: str) -> ColumnType | None:
    """The type of what information_schema prints of a column, `int(10) unsigned`; None if there is none."""
    return KNOWN.types.get(_WORD_END.split(text, maxsplit=1)[0])


def defines_moment(definition: Clause, context: SourceContext) -> bool:
    """Whether a column's definition begins with a type whose values depend on the session's time zone."""
    cursor = Cursor(definition, context)
    return is_known(cursor.word()) and column_type(read_name(cursor).base).is_moment


def has_type(name: str) -> bool:
    """Whether there is a type of this name."""
    return name in KNOWN.types


def is_known(word: str) -> bool:
    """Whether a type's spelling begins with this word, in upper case."""
    return word in KNOWN.spellings


def read_name(cursor: Cursor) -> DataType:
    """Read a data type as far as its lengths or members."""
    word = cursor.take().upper
    read = KNOWN.spellings.get(word)
    if read is None:
        cursor.at -= 1
        cursor.fail("this data type is not known")
    return read(cursor, word)


def read_type(cursor: Cursor) -> DataType:
    """Read a data type with its attributes."""
    data_type = read_name(cursor)
    while attribute := cursor.accept_any("UNSIGNED", "SIGNED", "ZEROFILL"):
        data_type.unsigned = data_type.unsigned or attribute != "SIGNED"  # ZEROFILL implies UNSIGNED
    _read_charset(cursor, data_type)
    return data_type


def _read_charset(cursor: Cursor, data_type: DataType) -> None:
    """CHARACTER SET, ASCII, UNICODE, BYTE and BINARY, in the orders that the grammars allow."""
    while True:
        if cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET") or cursor.accept("CHARSET"):
            data_type.charset = cursor.take().text
        elif cursor.accept("ASCII"):
            data_type.charset = "latin1"
        elif cursor.accept("UNICODE"):
            data_type.charset = "ucs2"
        elif cursor.accept("BYTE"):
            data_type.charset = "binary"
        elif cursor.accept("BINARY"):
            data_type.binary = True
        elif cursor.accept("COMPRESSED"):  # MariaDB's storage format, without effect on the type
            if cursor.accept("="):
                cursor.name()
        else:
            break
