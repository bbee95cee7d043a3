"""Drawn DDL for all shards of a table: a sequence of statements, each valid after the ones before it.

A statement has `{t}` in place of the table. Left out are defaults that are no constants, and keys over columns that
rows of several shards share. The parts of one statement are about different columns, so their order says nothing.

For the optimistic mode most statements are such that no shard waits for others. Shards may come to statements that are
about different things in any order (`another_order`), and names of columns come only once, unless `again` says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

_TYPES = {
    "TINYINT": ("0", "1", "-5", "127"),
    "SMALLINT": ("0", "1", "-5", "32767"),
    "INT": ("0", "1", "-5", "7", "2147483647"),
    "BIGINT": ("0", "1", "9223372036854775807"),
    "VARCHAR(10)": ("''", "'a'", "'Ä'", "'ten signs.'"),
    "VARCHAR(40)": ("''", "'a'", "'ß and so on'"),
    "VARCHAR(60)": ("''", "'a'", "'one of more than forty characters, as it seems'"),
    "VARCHAR(80)": ("''", "'a'", "'one that has more than sixty characters, which not many others have'"),
    "DECIMAL(10,2)": ("0", "1.5", "-99.99"),
    "DATETIME": ("'2024-02-29 12:00:00'", "'1999-12-31 23:59:59'"),
}
_WIDER = {
    "TINYINT": "SMALLINT",
    "SMALLINT": "INT",
    "INT": "BIGINT",
    "VARCHAR(10)": "VARCHAR(40)",
    "VARCHAR(40)": "VARCHAR(60)",
    "VARCHAR(60)": "VARCHAR(80)",
}
_POOL = ("a", "b", "c", "d")
_EVERYTHING = "*"


@dataclass(frozen=True)
class Style:
    """What is drawn for the optimistic mode."""

    again: bool = False  # a column may come back after it was dropped
    not_null: bool = False  # a column may become NOT NULL


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


@dataclass(frozen=True)
class Part:
    """One operation of a statement."""

    text: str
    names: frozenset[str]  # of what it is about
    change: Callable[[ShardShape], None]
    gated: bool = False  # optimistic shards wait for each other at it
    before: str = ""  # a change of rows that makes it possible
    mild: bool = False  # the table after it takes rows from before it, and they become the same in the end
    redefines: bool = False  # a column has another default after it


@dataclass(frozen=True)
class ShardDdl:
    """One statement."""

    statement: str
    parts: tuple[Part, ...]

    @property
    def names(self) -> frozenset[str]:
        """Of what it is about."""
        return frozenset(name for part in self.parts for name in part.names)

    @property
    def gated(self) -> bool:
        """Whether optimistic shards wait for each other at it."""
        return any(part.gated for part in self.parts)

    @property
    def mild(self) -> bool:
        """Whether a target that has it takes rows of a shard that has not come to it."""
        return all(part.mild for part in self.parts)

    @property
    def redefines(self) -> bool:
        """Whether a column has another default after it."""
        return any(part.redefines for part in self.parts)

    @property
    def alteration(self) -> str:
        """What a tool is told that copies the table; empty where it can't do that."""
        head = "ALTER TABLE {t} "
        unfit = any(
            part.before or part.text.startswith("CHANGE") or (part.text.startswith("ADD COLUMN") and not part.mild)
            for part in self.parts
        )
        return self.statement.removeprefix(head) if self.statement.startswith(head) and not unfit else ""

    def independent(self, other: ShardDdl) -> bool:
        """Whether the order of the two says nothing."""
        everything = any(_EVERYTHING in each.names for each in (self, other))
        return not (everything or self.names & other.names or (self.gated and other.gated))

    def on(self, table: str) -> list[str]:
        """The statements for a table."""
        before = [part.before for part in self.parts if part.before]
        return [text.format(t=table) for text in (*before, self.statement)]

    def apply(self, shape: ShardShape) -> None:
        """The shape after it."""
        for part in self.parts:
            part.change(shape)


@dataclass
class ShardShape:
    """What a shard is like after some statements of the sequence."""

    keyed: bool
    columns: list[ShardColumn] = field(default_factory=list)  # beside id, v and k
    indexes: dict[str, str] = field(default_factory=dict)  # name to column
    uniques: frozenset[str] = frozenset()  # names of keys beside the primary one
    wide_key: bool = False
    style: Style | None = None  # of the optimistic mode
    names: int = 0  # of columns so far

    def copy(self) -> ShardShape:
        """One that can be changed without changing this one."""
        return replace(self, columns=list(self.columns), indexes=dict(self.indexes))

    def create(self, table: str) -> str:
        """CREATE TABLE of the first shape."""
        key = ", PRIMARY KEY (id)" if self.keyed else ""
        return f"CREATE TABLE {table} (id INT NOT NULL, v INT, k INT NOT NULL DEFAULT 0{key})"

    def draw_ddl(self, chance: random.Random) -> ShardDdl:
        """The next statement; this shape is changed by it."""
        if chance.random() < 0.15:
            statement = self._index_statement(chance)
            statement.apply(self)
            return statement
        parts, touched = list[Part](), set[str]()
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            draw = chance.choice(
                (
                    self._add, self._add, self._drop, self._modify, self._modify, self._rename, self._index,
                    self._unindex, self._key, self._unique, self._unique,
                )
            )  # fmt: skip
            part = draw(chance, touched)
            if part is not None:
                part.change(self)
                parts.append(part)
        if not parts:
            text = f"ALTER COLUMN v SET DEFAULT {chance.randrange(9)}"
            parts.append(Part(text, frozenset({"v"}), lambda shape: None, gated=True))
        return self._ddl("ALTER TABLE {t} " + ", ".join(part.text for part in parts), *parts)

    def _ddl(self, statement: str, *parts: Part) -> ShardDdl:
        return ShardDdl(statement, parts if self.keyed else tuple(replace(part, gated=True) for part in parts))

    def add_last(self) -> ShardDdl:
        """A column of all shards' last statement, after which nothing that was left open stays so."""
        column = ShardColumn("the_last", "INT")
        part = Part(f"ADD COLUMN {column.sql}", frozenset({_EVERYTHING}), lambda shape: shape.columns.append(column))
        part.change(self)
        return self._ddl("ALTER TABLE {t} " + part.text, part)

    def _index_statement(self, chance: random.Random) -> ShardDdl:
        name = next(f"j{number}" for number in range(100) if f"j{number}" not in self.indexes)
        if self.indexes and chance.random() < 0.4:
            name = chance.choice(sorted(self.indexes))
            names = frozenset({name, self.indexes[name]})
            return self._ddl(f"DROP INDEX {name} ON {{t}}", Part("", names, lambda shape: _pop(shape, name), mild=True))
        part = Part("", frozenset({name, "v"}), lambda shape: shape.indexes.update({name: "v"}), mild=True)
        return self._ddl(f"CREATE INDEX {name} ON {{t}} (v)", part)

    def _one(
        self, chance: random.Random, touched: set[str], fits: Callable[[ShardColumn], bool] = lambda _: True
    ) -> ShardColumn | None:
        found = [column for column in self.columns if column.name not in touched and fits(column)]
        return chance.choice(found) if found else None

    def _free(self, chance: random.Random, touched: set[str]) -> str | None:
        if self.style is not None and not self.style.again:
            self.names += 1
            return f"c{self.names}"
        taken = touched | {column.name for column in self.columns}
        found = [name for name in _POOL if name not in taken]
        return chance.choice(found) if found else None

    # Each gives one part, or None where there is nothing to do it to.

    def _add(self, chance: random.Random, touched: set[str]) -> Part | None:
        name = self._free(chance, touched)
        if name is None:
            return None
        kind = chance.choice(list(_TYPES))
        nullable = chance.random() < 0.6 or kind == "DATETIME"
        column = ShardColumn(name, kind, nullable, chance.choice(_TYPES[kind]) if chance.random() < 0.5 else "")
        touched.add(name)
        text = f"ADD COLUMN {column.sql}{chance.choice(('', '', ' FIRST', ' AFTER id', ' AFTER v'))}"
        mild = nullable or bool(column.default)
        return Part(text, frozenset({name}), lambda shape: shape.columns.append(column), mild=mild)

    def _drop(self, chance: random.Random, touched: set[str]) -> Part | None:
        column = self._one(chance, touched)
        if column is None:
            return None
        touched.add(column.name)
        indexes = [name for name, on in self.indexes.items() if on == column.name]

        def change(shape: ShardShape) -> None:
            shape.columns = [each for each in shape.columns if each.name != column.name]
            shape.indexes = {name: on for name, on in shape.indexes.items() if on != column.name}

        names = frozenset({column.name, *indexes})
        return Part(f"DROP COLUMN {column.name}", names, change, gated=bool(indexes))

    def _modify(self, chance: random.Random, touched: set[str]) -> Part | None:
        column = self._one(chance, touched)
        if column is None:
            return None
        wider = ShardColumn(column.name, _WIDER.get(column.kind, column.kind))
        if self.style is not None:
            wider = self._modified(chance, column, self.style)
        touched.add(column.name)
        gated = wider.default != column.default or (
            column.nullable and not wider.nullable and wider.kind != column.kind
        )
        before = ""
        if column.nullable and not wider.nullable:
            before = f"UPDATE {{t}} SET {column.name} = {_TYPES[wider.kind][0]} WHERE {column.name} IS NULL"
        return Part(
            f"MODIFY COLUMN {wider.sql}",
            frozenset({column.name}),
            _replacing(column.name, wider),
            gated,
            before,
            mild=wider.nullable or not column.nullable,
            redefines=wider.default != column.default,
        )

    @staticmethod
    def _modified(chance: random.Random, column: ShardColumn, style: Style) -> ShardColumn:
        wide = _WIDER.get(column.kind, column.kind)
        drawn = chance.random()
        if drawn < 0.5:
            return replace(column, kind=wide)
        if drawn < 0.7:
            return replace(column, kind=wide, nullable=True)
        if drawn < 0.9 and style.not_null and column.kind != "DATETIME":
            return replace(column, nullable=False)
        return ShardColumn(column.name, wide)

    def _rename(self, chance: random.Random, touched: set[str]) -> Part | None:
        column = self._one(chance, touched, lambda each: each.name not in self.indexes.values())
        name = self._free(chance, touched)
        if column is None or name is None:
            return None
        renamed = replace(column, name=name)
        names = frozenset({column.name, name})
        touched |= names
        return Part(f"CHANGE COLUMN {column.name} {renamed.sql}", names, _replacing(column.name, renamed), gated=True)

    def _index(self, chance: random.Random, touched: set[str]) -> Part | None:
        column, name = self._one(chance, touched), f"i{chance.randrange(100)}"
        if column is None or name in self.indexes:
            return None
        on = column.name
        names = frozenset({on, name})
        touched |= names
        return Part(f"ADD INDEX {name} ({on})", names, lambda shape: shape.indexes.update({name: on}), mild=True)

    def _unindex(self, chance: random.Random, touched: set[str]) -> Part | None:
        found = sorted(name for name, on in self.indexes.items() if on not in touched and name not in touched)
        if not found:
            return None
        name = chance.choice(found)
        names = frozenset({self.indexes[name], name})
        touched |= names
        return Part(f"DROP INDEX {name}", names, lambda shape: _pop(shape, name), mild=True)

    def _key(self, chance: random.Random, touched: set[str]) -> Part | None:
        if not self.keyed or "id" in touched:
            return None
        wide = not self.wide_key
        touched.add("id")

        def change(shape: ShardShape) -> None:
            shape.wide_key = wide

        text = f"DROP PRIMARY KEY, ADD PRIMARY KEY ({'id, k' if wide else 'id'})"
        return Part(text, frozenset({"id", "k"}), change, gated=True)

    def _unique(self, chance: random.Random, touched: set[str]) -> Part | None:
        name = chance.choice(("x", "y"))
        if not self.keyed or name in touched:
            return None
        touched.add(name)
        there = name in self.uniques

        def change(shape: ShardShape) -> None:
            shape.uniques = shape.uniques - {name} if there else shape.uniques | {name}

        text = f"DROP INDEX {name}" if there else f"ADD UNIQUE INDEX {name} ({'v, id' if name == 'x' else 'id, k'})"
        return Part(text, frozenset({name, "id"}), change, gated=True, mild=True)


def _pop(shape: ShardShape, index: str) -> None:
    del shape.indexes[index]


def _replacing(name: str, by: ShardColumn) -> Callable[[ShardShape], None]:
    def change(shape: ShardShape) -> None:
        shape.columns = [by if each.name == name else each for each in shape.columns]

    return change


def draw_sequence(chance: random.Random, *, keyed: bool, length: int, style: Style | None = None) -> list[ShardDdl]:
    """Statements; with a style, the last one is about all that was left open."""
    shape = ShardShape(keyed, style=style)
    drawn = [shape.draw_ddl(chance) for _ in range(length)]
    return drawn if style is None else [*drawn, shape.add_last()]


def another_order(chance: random.Random, drawn: Sequence[ShardDdl]) -> list[ShardDdl]:
    """The statements as another shard may come to them: neighbours change places where that says nothing."""
    order = list(drawn)
    for _ in range(len(order)):
        place = chance.randrange(max(len(order) - 1, 1))
        if len(order) > 1 and order[place].independent(order[place + 1]):
            order[place], order[place + 1] = order[place + 1], order[place]
    return order
