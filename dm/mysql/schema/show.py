"""A structure as CREATE TABLE, the inverse of `dm.mysql.schema.parse` for everything that a structure holds.

Checks and partitions are left out, since a structure only holds their names; neither affects how rows are read.

The text of SHOW CREATE TABLE, split by its lines.

A server begins a line for each definition: columns, indexes, constraints. All but the last end with a comma. A
definition that is added to a table again is copied from this text, never generated from the parsed structure, which
does not hold everything. Lines that only look like definitions (a CHECK may hold any text) don't count: a name must be
in the parsed structure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from dm.ident import Ident
from dm.mysql.schema.table import Column, ForeignKey, Index, IndexPart, TableSchema

_KINDS: Final = {"unique": "UNIQUE KEY", "index": "KEY", "fulltext": "FULLTEXT KEY", "spatial": "SPATIAL KEY"}


def create_table(schema: TableSchema) -> str:
    """The statement that creates a table of this structure."""
    elements = [column_text(column) for column in schema.columns]
    elements += [index_text(index) for index in schema.indexes]
    elements += [_foreign_key(key) for key in schema.foreign_keys]
    body = ",\n  ".join(elements)
    return f"CREATE TABLE {schema.name.sql} (\n  {body}\n){_options(schema)}"


def type_text(column: Column) -> str:
    """A column's type as a statement writes it, without its character set."""
    return column.base + column.type.parameters(column) + (" unsigned" if column.unsigned else "")


def described(column: Column) -> str:
    """A column's type with its character set, for people."""
    return type_text(column) + (f" character set {column.charset}" if column.charset else "")


def _options(schema: TableSchema) -> str:
    options = {"ENGINE": schema.engine, "DEFAULT CHARSET": schema.charset, "COLLATE": schema.collation}
    return "".join(f" {name}={value}" for name, value in options.items() if value is not None)


def column_text(column: Column) -> str:
    """A column's definition."""
    words = [Ident(column.name).sql, type_text(column)]
    if column.charset is not None:
        words.append(f"CHARACTER SET {column.charset}")
    if column.collation is not None:
        words.append(f"COLLATE {column.collation}")
    if column.expression is not None:
        words.append(f"GENERATED ALWAYS AS ({column.expression}) {(column.generated or 'virtual').upper()}")
    if not column.nullable:
        words.append("NOT NULL")
    elif column.type.is_moment:
        words.append("NULL")  # the default depends on the server
    if column.default is not None:
        words.append(f"DEFAULT {column.default}")
    if column.on_update is not None:
        words.append(f"ON UPDATE {column.on_update}")
    if column.auto_increment:
        words.append("AUTO_INCREMENT")
    if column.invisible:
        words.append("INVISIBLE")
    return " ".join(words)


def index_text(index: Index) -> str:
    """An index's definition."""
    parts = ",".join(_part(part) for part in index.parts)
    if index.kind == "primary":
        return f"PRIMARY KEY ({parts})"
    by_hash = " USING HASH" if index.hash else ""
    hidden = " INVISIBLE" if index.invisible else ""  # for a MariaDB source, too, which writes IGNORED
    return f"{_KINDS[index.kind]} {Ident(index.name).sql} ({parts}){by_hash}{hidden}"


def _part(part: IndexPart) -> str:
    text = f"({part.expression})" if part.column is None else Ident(part.column).sql
    if part.prefix is not None:
        text += f"({part.prefix})"
    return text + (" DESC" if part.descending else "")


def _foreign_key(key: ForeignKey) -> str:
    columns = ",".join(Ident(name).sql for name in key.columns)
    parents = ",".join(Ident(name).sql for name in key.parent_columns)
    return (
        f"CONSTRAINT {Ident(key.name).sql} FOREIGN KEY ({columns}) REFERENCES {key.parent.sql} ({parents})"
        f" ON DELETE {key.on_delete.upper()} ON UPDATE {key.on_update.upper()}"
    )


_AUTO_INCREMENT: Final = re.compile(r"\bAUTO_INCREMENT=\d+ ?")
_NAME: Final = r"`((?:[^`]|``)+)`"
_END: Final = r"(?=,\n  [`A-Z]|\n\) )"  # the next definition, or the options; an expression may contain line ends
_INDEX: Final = re.compile(rf"^  ((?:(?:FULLTEXT|SPATIAL) )?KEY {_NAME} \(.*?){_END}", re.MULTILINE | re.DOTALL)
_FOREIGN_KEY: Final = re.compile(rf"^  (CONSTRAINT {_NAME} FOREIGN KEY \(.*?){_END}", re.MULTILINE | re.DOTALL)


def normal_structure(structure: str) -> str:
    """A CREATE TABLE text without the parts that inserts change."""
    head, separator, options = structure.rpartition("\n)")
    return head + separator + _AUTO_INCREMENT.sub("", options)


@dataclass(frozen=True, slots=True)
class Definitions:
    """What can be dropped from a table and added again: texts by name, in the table's order."""

    indexes: Mapping[str, str]
    fulltext: Mapping[str, str]
    foreign_keys: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.indexes or self.fulltext or self.foreign_keys)

    def has(self, others: Definitions) -> bool:
        """Whether these include all of the others, each with the same text."""
        return (
            others.indexes.items() <= self.indexes.items()
            and others.fulltext.items() <= self.fulltext.items()
            and others.foreign_keys.items() <= self.foreign_keys.items()
        )


def secondary_definitions(structure: str, schema: TableSchema) -> Definitions:
    """The non-unique indexes and the foreign keys of a text and its parsed structure."""
    kinds = {index.name: index.kind for index in schema.indexes if not index.unique}
    indexes = _found(_INDEX, structure, kinds)
    fulltext = {name: text for name, text in indexes.items() if kinds[name] == "fulltext"}
    return Definitions(
        {name: text for name, text in indexes.items() if name not in fulltext},
        fulltext,
        _found(_FOREIGN_KEY, structure, {key.name for key in schema.foreign_keys}),
    )


def _found(pattern: re.Pattern[str], structure: str, names: Collection[str]) -> dict[str, str]:
    found = ((match[2].replace("``", "`"), match[1]) for match in pattern.finditer(structure))
    return {name: text for name, text in found if name in names}


def take_off_foreign_keys(schema: TableSchema, definitions: Definitions) -> str | None:
    """The statement that drops the foreign keys; None if there are none."""
    parts = [f"DROP FOREIGN KEY {Ident(name).sql}" for name in definitions.foreign_keys]
    return f"ALTER TABLE {schema.name.sql} {', '.join(parts)}" if parts else None


def take_off_indexes(schema: TableSchema, definitions: Definitions) -> str | None:
    """The statement that drops the indexes; None if there are none."""
    parts = [f"DROP KEY {Ident(name).sql}" for name in (*definitions.indexes, *definitions.fulltext)]
    return f"ALTER TABLE {schema.name.sql} {', '.join(parts)}" if parts else None


def add_indexes(schema: TableSchema, wanted: Definitions, present: Definitions) -> list[str]:
    """The statements that add missing indexes; InnoDB builds only one FULLTEXT index at a time without a table copy."""
    plain = [f"ADD {text}" for name, text in wanted.indexes.items() if name not in present.indexes]
    groups = [plain] if plain else []
    groups += [[f"ADD {text}"] for name, text in wanted.fulltext.items() if name not in present.fulltext]
    return [f"ALTER TABLE {schema.name.sql} {', '.join(group)}" for group in groups]


def add_foreign_keys(schema: TableSchema, wanted: Definitions, present: Definitions) -> list[str]:
    """The statement that adds missing foreign keys, if any; parents without a schema are in the session's."""
    parts = [f"ADD {text}" for name, text in wanted.foreign_keys.items() if name not in present.foreign_keys]
    return [f"ALTER TABLE {schema.name.sql} {', '.join(parts)}"] if parts else []
