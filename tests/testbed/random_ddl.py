"""Random DDL on random tables.

Each draw gives statements and what the tables are once the server has accepted them; nothing changes when it refuses.
What a crash can't be recovered from by looking at structures is left out: it pauses a task on purpose.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from dm.ident import Ident
from dm.mysql.dialect import Flavor
from tests.testbed.random_table import (
    KEY_TYPES,
    NATIVE,
    Column,
    Dialect,
    Index,
    Table,
    draw_column,
    draw_generated,
    draw_key_column,
    draw_table,
)

_SUBJECT = re.compile(r"(?<=COLUMN )`(?:[^`]|``)+`")


@dataclass(frozen=True)
class Draft:
    """One statement, and the tables as they are after it."""

    sql: str
    tables: list[Table]


class RandomDdl:
    """Draws statements that change the structure of tables in one schema."""

    def __init__(self, schema: str, flavor: Flavor, chance: random.Random, dialect: Dialect | None = None) -> None:
        self._schema = schema
        self._flavor: Flavor = flavor
        self._dialect = dialect or NATIVE[flavor]
        self._chance = chance
        self._numbers = 0
        self._alterations: dict[Callable[[Table], str | None], int] = {
            self._add_column: 6, self._drop_column: 4, self._modify_column: 5, self._rename_column: 3,
            self._add_index: 4, self._drop_index: 3, self._primary_key: 1, self._default: 1, self._comment: 1,
        }  # fmt: skip

    def new_name(self) -> str:
        """A name that no table of the schema ever had."""
        self._numbers += 1
        if self._dialect.table_names:
            return self._chance.choice(self._dialect.table_names).format(self._numbers)
        return f"t{self._numbers}" if self._chance.random() < 0.7 else f"T`ä {self._numbers}"

    def draw(self, tables: list[Table]) -> Draft | None:
        """The next statement; None where the draw has nothing to change."""
        chance = self._chance
        at = chance.randrange(len(tables))
        table = tables[at]
        others = [one for number, one in enumerate(tables) if number != at]
        match chance.choices(
            ("alter", "multi", "rename", "truncate", "create", "like", "select", "drop", "swap"),
            weights=(10, 8, 2, 2, 2, 1, 1, 2, 1),
        )[0]:
            case "alter":
                return self._alter(table, others, 1)
            case "multi":
                return self._alter(table, others, chance.choice((2, 3, 4)))
            case "rename":
                new = table.copy()
                new.name = self.new_name()
                return Draft(f"RENAME TABLE {self._sql(table)} TO {self._sql(new)}", [*others, new])
            case "truncate":
                return Draft(f"TRUNCATE TABLE {self._sql(table)}", tables)
            case "create":
                new = draw_table(self.new_name(), self._flavor, chance, self._dialect)
                return Draft(new.create(self._schema), [*tables, new])
            case "like":
                new = table.copy()
                new.name = self.new_name()
                return Draft(f"CREATE TABLE {self._sql(new)} LIKE {self._sql(table)}", [*tables, new])
            case "select":
                # Keys and generated columns are not taken along.
                columns = [replace(column, default="", generated="", extra="") for column in table.writable]
                new = Table(self.new_name(), columns, serial=table.serial)
                names = ", ".join(Ident(column.name).sql for column in columns)
                sql = f"CREATE TABLE {self._sql(new)} AS SELECT {names} FROM {self._sql(table)}"
                return Draft(sql, [*tables, new])
            case "drop" if len(tables) > 3:
                return Draft(f"DROP TABLE {chance.choice(('', 'IF EXISTS '))}{self._sql(table)}", others)
            case "swap" if others:
                return self._swap(table, others[0], others[1:])
            case _:
                return None

    def _sql(self, table: Table) -> str:
        return f"{Ident(self._schema).sql}.{Ident(table.name).sql}"

    def _swap(self, one: Table, other: Table, rest: list[Table]) -> Draft | None:
        if {column.name for column in one.columns} == {column.name for column in other.columns}:
            return None  # whether it was done could not be seen
        first, second, free = one.copy(), other.copy(), one.copy()
        first.name, second.name, free.name = other.name, one.name, self.new_name()
        pairs = ((one, free), (other, second), (free, first))
        return Draft(
            "RENAME TABLE " + ", ".join(f"{self._sql(old)} TO {self._sql(new)}" for old, new in pairs),
            [first, second, *rest],
        )

    def _alter(self, table: Table, others: list[Table], count: int) -> Draft | None:
        new = table.copy()
        operations = []
        for _ in range(count):
            (kind,) = self._chance.choices(list(self._alterations), weights=list(self._alterations.values()))
            operation = kind(new)
            if operation is not None:
                operations.append(operation)
        subjects = [found[0] for operation in operations if (found := _SUBJECT.search(operation))]
        if not operations or len(set(subjects)) < len(subjects):
            # MariaDB takes a column that is added and modified twice at once, but not modified twice.
            return None
        return Draft(f"ALTER TABLE {self._sql(table)} {', '.join(operations)}", [*others, new])

    def _place(self, table: Table) -> tuple[str, int]:
        at = self._chance.randrange(-1, len(table.columns) + 1)
        if at == -1:
            return " FIRST", 0
        if at == len(table.columns):
            return "", at
        return f" AFTER {Ident(table.columns[at].name).sql}", at + 1

    def _add_column(self, table: Table) -> str | None:
        chance = self._chance
        column: Column | None
        if chance.random() < 0.15:
            column = draw_generated(table, chance, self._dialect)
        elif chance.random() < 0.2:
            column = draw_key_column(table, chance, self._dialect, nullable=chance.random() < 0.5)
        else:
            column = draw_column(table, self._flavor, chance, self._dialect)
        if column is None:
            return None
        place, at = self._place(table)
        table.columns.insert(at, column)
        return f"ADD COLUMN {column.sql}{place}"

    def _drop_column(self, table: Table) -> str | None:
        if len(table.writable) < 3:
            return None
        column = self._chance.choice(table.columns)
        if not self._dialect.alters_keys and any(
            column.name in dict(index.parts) and (len(index.parts) > 1 or index.kind == "PRIMARY KEY")
            for index in table.indexes
        ):
            return None
        table.columns.remove(column)
        left = [replace(index, parts=tuple(p for p in index.parts if p[0] != column.name)) for index in table.indexes]
        table.indexes = [index for index in left if index.parts]
        return f"DROP COLUMN {Ident(column.name).sql}"

    def _modify_column(self, table: Table) -> str | None:
        old = self._chance.choice(table.columns)
        # With another type below it an expression may only work in the source's own sql_mode; that pauses.
        if old.generated or old.extra or old in table.bases:
            return None
        if not self._dialect.converts:
            new = replace(old, default="")
        elif old in table.key_columns:
            kind = self._chance.choice((old.type, *KEY_TYPES))
            new = Column(old.name, kind, tuple(KEY_TYPES.get(kind, old.values)), nullable=old.nullable)
        else:
            new = replace(draw_column(table, self._flavor, self._chance), name=old.name)
        table.columns.remove(old)
        place, at = self._place(table)
        table.columns.insert(at, new)
        if not place:  # it stays where it is
            table.columns.remove(new)
            table.columns.append(new)
            place = f" AFTER {Ident(table.columns[-2].name).sql}" if len(table.columns) > 1 else ""
        return f"MODIFY COLUMN {new.sql}{place}"

    def _rename_column(self, table: Table) -> str | None:
        at = self._chance.randrange(len(table.columns))
        old = table.columns[at]
        new = replace(old, name=table.next_name(self._chance))
        table.columns[at] = new
        table.indexes = [
            replace(index, parts=tuple((new.name if name == old.name else name, size) for name, size in index.parts))
            for index in table.indexes
        ]
        if old.generated or self._chance.random() < 0.7:
            return f"RENAME COLUMN {Ident(old.name).sql} TO {Ident(new.name).sql}"
        return f"CHANGE COLUMN {Ident(old.name).sql} {new.sql}"

    def _add_index(self, table: Table) -> str | None:
        columns = self._chance.sample(table.columns, min(len(table.columns), self._chance.choice((1, 1, 2))))
        kind = self._chance.choice(("KEY", "KEY", "UNIQUE KEY"))
        parts = tuple(
            (one.name, 5 if "TEXT" in one.type or "BLOB" in one.type or "COMPRESSED" in one.type else 0)
            for one in columns
        )
        index = Index(table.next_name(self._chance), kind, parts)
        table.indexes.append(index)
        return f"ADD {index.sql}"

    def _drop_index(self, table: Table) -> str | None:
        if not table.indexes:
            return None
        index = self._chance.choice(table.indexes)
        if index.kind == "PRIMARY KEY" and not self._dialect.alters_keys:
            return None
        table.indexes.remove(index)
        return "DROP PRIMARY KEY" if index.kind == "PRIMARY KEY" else f"DROP INDEX {Ident(index.name).sql}"

    def _primary_key(self, table: Table) -> str | None:
        """Another primary key, or the first one."""
        if not self._dialect.alters_keys:
            return None
        column = self._chance.choice(table.columns)
        # Under IGNORE a server stores 0 in a key whose expression gives NULL: no target computes that.
        if column.generated and any(base.nullable for base in table.bases):
            return None
        old = [index for index in table.indexes if index.kind == "PRIMARY KEY"]
        new = Index("PRIMARY", "PRIMARY KEY", ((column.name, 0),))
        table.indexes = [new, *(index for index in table.indexes if index not in old)]
        at = table.columns.index(column)
        table.columns[at] = replace(column, nullable=False)
        return ("DROP PRIMARY KEY, " if old else "") + f"ADD {new.sql}"

    def _default(self, table: Table) -> str | None:
        column = self._chance.choice(table.writable)
        # Without a default IGNORE stores an empty vector in MySQL, also where NULL is allowed. No statement writes one.
        choices = ("SET DEFAULT NULL",) if column.without_text else ("DROP DEFAULT", "SET DEFAULT NULL")
        return f"ALTER COLUMN {Ident(column.name).sql} " + self._chance.choice(choices)

    def _comment(self, table: Table) -> str | None:
        if not self._dialect.converts:
            return "COMMENT = 'it''s 100 %'"
        return self._chance.choice(("COMMENT = 'it''s 100 %'", "DEFAULT CHARSET = utf8mb4", "ROW_FORMAT = DYNAMIC"))
