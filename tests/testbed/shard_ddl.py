"""Drawn DDL for all shards of a table: a sequence of statements, each valid behind the ones before it.

A statement has `{t}` in place of the table. Left out are defaults that are no constants, and keys over columns that
rows of several shards share. The parts of one statement are about different columns, so their order says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

_TYPES = {
    "INT": ("0", "1", "-5", "7", "2147483647"),
    "BIGINT": ("0", "1", "9223372036854775807"),
    "VARCHAR(10)": ("''", "'a'", "'Ä'", "'ten signs.'"),
    "VARCHAR(40)": ("''", "'a'", "'ß and so on'"),
    "DECIMAL(10,2)": ("0", "1.5", "-99.99"),
    "DATETIME": ("'2024-02-29 12:00:00'", "'1999-12-31 23:59:59'"),
}
_WIDER = {"INT": "BIGINT", "VARCHAR(10)": "VARCHAR(40)"}
_POOL = ("a", "b", "c", "d")


@dataclass(frozen=True)
class ShardColumn:
    """A column that statements add, alter and drop."""

    name: str
    kind: str
    nullable: bool = True
    default: str = ""

    @property
    def sql(self) -> str:
        """Its definition."""
        null = "" if self.nullable else " NOT NULL"
        return f"{self.name} {self.kind}{null}" + (f" DEFAULT {self.default}" if self.default else "")

    def draw(self, chance: random.Random) -> str:
        """A value to write."""
        return "NULL" if self.nullable and chance.random() < 0.2 else chance.choice(_TYPES[self.kind])


@dataclass
class ShardShape:
    """What a shard is like behind some statements of the sequence."""

    keyed: bool
    columns: list[ShardColumn] = field(default_factory=list)  # beside id, v and k
    indexes: dict[str, str] = field(default_factory=dict)  # name to column
    wide_key: bool = False

    def copy(self) -> ShardShape:
        """One that can be changed without changing this one."""
        return replace(self, columns=list(self.columns), indexes=dict(self.indexes))

    def create(self, table: str) -> str:
        """CREATE TABLE of the first shape."""
        key = ", PRIMARY KEY (id)" if self.keyed else ""
        return f"CREATE TABLE {table} (id INT NOT NULL, v INT, k INT NOT NULL DEFAULT 0{key})"

    def draw_ddl(self, chance: random.Random) -> str:
        """The next statement; this shape is changed by it."""
        if chance.random() < 0.15:
            return self._index_statement(chance)
        parts, touched = list[str](), set[str]()
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            draw = chance.choice(
                (self._add, self._add, self._drop, self._modify, self._rename, self._index, self._unindex, self._key)
            )
            parts += [text for text in [draw(chance, touched)] if text]
        return "ALTER TABLE {t} " + (", ".join(parts) or f"ALTER COLUMN v SET DEFAULT {chance.randrange(9)}")

    def _index_statement(self, chance: random.Random) -> str:
        name = next(f"j{number}" for number in range(100) if f"j{number}" not in self.indexes)
        if self.indexes and chance.random() < 0.4:
            name = chance.choice(sorted(self.indexes))
            del self.indexes[name]
            return f"DROP INDEX {name} ON {{t}}"
        self.indexes[name] = "v"
        return f"CREATE INDEX {name} ON {{t}} (v)"

    def _one(
        self, chance: random.Random, touched: set[str], fits: Callable[[ShardColumn], bool] = lambda _: True
    ) -> ShardColumn | None:
        found = [column for column in self.columns if column.name not in touched and fits(column)]
        return chance.choice(found) if found else None

    def _free(self, chance: random.Random, touched: set[str]) -> str | None:
        taken = touched | {column.name for column in self.columns}
        found = [name for name in _POOL if name not in taken]
        return chance.choice(found) if found else None

    # Each gives the words of one part, or None where there is nothing to do it to.

    def _add(self, chance: random.Random, touched: set[str]) -> str | None:
        name = self._free(chance, touched)
        if name is None:
            return None
        kind = chance.choice(list(_TYPES))
        nullable = chance.random() < 0.6 or kind == "DATETIME"
        column = ShardColumn(name, kind, nullable, chance.choice(_TYPES[kind]) if chance.random() < 0.5 else "")
        self.columns.append(column)
        touched.add(name)
        return f"ADD COLUMN {column.sql}{chance.choice(('', '', ' FIRST', ' AFTER id', ' AFTER v'))}"

    def _drop(self, chance: random.Random, touched: set[str]) -> str | None:
        column = self._one(chance, touched)
        if column is None:
            return None
        self.columns.remove(column)
        self.indexes = {name: on for name, on in self.indexes.items() if on != column.name}
        touched.add(column.name)
        return f"DROP COLUMN {column.name}"

    def _modify(self, chance: random.Random, touched: set[str]) -> str | None:
        column = self._one(chance, touched)
        if column is None:
            return None
        wider = ShardColumn(column.name, _WIDER.get(column.kind, column.kind))
        self.columns[self.columns.index(column)] = wider
        touched.add(column.name)
        return f"MODIFY COLUMN {wider.sql}"

    def _rename(self, chance: random.Random, touched: set[str]) -> str | None:
        column = self._one(chance, touched, lambda each: each.name not in self.indexes.values())
        name = self._free(chance, touched)
        if column is None or name is None:
            return None
        renamed = replace(column, name=name)
        self.columns[self.columns.index(column)] = renamed
        touched |= {column.name, name}
        return f"CHANGE COLUMN {column.name} {renamed.sql}"

    def _index(self, chance: random.Random, touched: set[str]) -> str | None:
        column, name = self._one(chance, touched), f"i{chance.randrange(100)}"
        if column is None or name in self.indexes:
            return None
        self.indexes[name] = column.name
        touched |= {column.name, name}
        return f"ADD INDEX {name} ({column.name})"

    def _unindex(self, chance: random.Random, touched: set[str]) -> str | None:
        found = sorted(name for name, on in self.indexes.items() if on not in touched and name not in touched)
        if not found:
            return None
        name = chance.choice(found)
        touched |= {self.indexes.pop(name), name}
        return f"DROP INDEX {name}"

    def _key(self, chance: random.Random, touched: set[str]) -> str | None:
        if not self.keyed or "id" in touched:
            return None
        self.wide_key = not self.wide_key
        touched.add("id")
        return f"DROP PRIMARY KEY, ADD PRIMARY KEY ({'id, k' if self.wide_key else 'id'})"


def draw_sequence(chance: random.Random, *, keyed: bool, length: int) -> tuple[list[str], list[ShardShape]]:
    """Statements, and the shapes before and behind each: one more."""
    shape = ShardShape(keyed)
    statements, shapes = list[str](), [shape.copy()]
    for _ in range(length):
        statements.append(shape.draw_ddl(chance))
        shapes.append(shape.copy())
    return statements, shapes
