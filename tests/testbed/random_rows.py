"""Random statements that change rows of random tables, whatever these look like."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from dm.ident import Ident
from tests.testbed.random_table import Column, Table

SOME_ROWS = 8


class RandomRows:
    """Statements on the tables that there are at the moment; the list is shared with whoever changes them."""

    def __init__(self, schema: str, tables: list[Table], chance: random.Random) -> None:
        self._schema = schema
        self._tables = tables
        self._chance = chance
        self._kinds: dict[Callable[[Table], Sequence[str]], int] = {
            self._insert: 30, self._update: 18, self._delete: 7, self._replace: 8, self._upsert: 8, self._move_key: 8,
            self._swap: 5, self._copy: 2, self._multi_update: 3, self._multi_delete: 1, self._savepoint: 3,
            self._insert_columns: 4,
        }  # fmt: skip

    def transaction(self) -> list[str]:
        """The statements of one transaction, without BEGIN and COMMIT; each of them may be refused."""
        chance = self._chance
        size = chance.random()
        count = chance.choice((1, 1, 2, 3, 5)) if size < 0.96 else chance.choice((20, 60))
        return [statement for _ in range(count) for statement in self._action()]

    def _action(self) -> Sequence[str]:
        (kind,) = self._chance.choices(list(self._kinds), weights=list(self._kinds.values()))
        return kind(self._chance.choice(self._tables))

    def _name(self, table: Table) -> str:
        return f"{Ident(self._schema).sql}.{Ident(table.name).sql}"

    def _ignore(self) -> str:
        return self._chance.choice(("", " IGNORE"))

    def _values(self, table: Table, rows: int) -> str:
        columns = table.writable
        names = ", ".join(Ident(column.name).sql for column in columns)
        lists = (", ".join(column.draw(self._chance) for column in columns) for _ in range(rows))
        return f"INTO {self._name(table)} ({names}) VALUES " + ", ".join(f"({values})" for values in lists)

    def _rows(self) -> int:
        return self._chance.choice((1, 1, 1, 2, 3, 10)) if self._chance.random() < 0.99 else 150

    def _insert(self, table: Table) -> Sequence[str]:
        return (f"INSERT{self._ignore()} {self._values(table, self._rows())}",)

    def _insert_columns(self, table: Table) -> Sequence[str]:
        """With defaults for the rest."""
        some = [column for column in table.writable if self._chance.random() < 0.5] or table.writable[:1]
        names = ", ".join(Ident(column.name).sql for column in some)
        values = ", ".join(column.draw(self._chance) for column in some)
        return (f"INSERT IGNORE INTO {self._name(table)} ({names}) VALUES ({values})",)

    def _replace(self, table: Table) -> Sequence[str]:
        return (f"REPLACE {self._values(table, self._chance.choice((1, 1, 4)))}",)

    def _upsert(self, table: Table) -> Sequence[str]:
        changes = self._changes(table, table.writable)
        return (f"INSERT {self._values(table, self._chance.choice((1, 2)))} ON DUPLICATE KEY UPDATE {changes}",)

    def _changes(self, table: Table, columns: Sequence[Column], prefix: str = "") -> str:
        chosen = self._chance.sample(columns, min(len(columns), self._chance.choice((1, 1, 2, 5))))
        return ", ".join(f"{prefix}{Ident(column.name).sql} = {column.draw(self._chance)}" for column in chosen)

    def _condition(self, table: Table, prefix: str = "") -> str:
        column = self._chance.choice(table.key_columns or table.writable)
        value = column.draw(self._chance)
        name = prefix + Ident(column.name).sql
        if value in ("NULL", "DEFAULT"):
            return f"{name} IS NULL"
        return f"{name} {self._chance.choice(('=', '=', '=', '<=', '>'))} {value}"

    def _limit(self) -> str:
        return self._chance.choice((" LIMIT 1", " LIMIT 1", " LIMIT 3", f" LIMIT {SOME_ROWS}", ""))

    def _update(self, table: Table) -> Sequence[str]:
        where = self._chance.choice((f" WHERE {self._condition(table)}", ""))
        limit = self._limit() if where else " LIMIT 20"
        return (f"UPDATE{self._ignore()} {self._name(table)} SET {self._changes(table, table.writable)}{where}{limit}",)

    def _delete(self, table: Table) -> Sequence[str]:
        return (f"DELETE FROM {self._name(table)} WHERE {self._condition(table)}{self._limit()}",)

    def _move_key(self, table: Table) -> Sequence[str]:
        changes = self._changes(table, table.key_columns or table.writable)
        return (f"UPDATE IGNORE {self._name(table)} SET {changes} WHERE {self._condition(table)}{self._limit()}",)

    def _swap(self, table: Table) -> Sequence[str]:
        """Two rows exchange a value of a key by way of a free one."""
        if not table.key_columns:
            return self._update(table)
        column = self._chance.choice(table.key_columns)
        one, other, free = (self._chance.choice(column.values) for _ in range(3))
        free = "NULL" if column.nullable else free
        name = Ident(column.name).sql
        found = f"{name} IS NULL" if free == "NULL" else f"{name} = {free}"
        move = f"UPDATE IGNORE {self._name(table)} SET {name} = {{}} WHERE {{}} LIMIT 1"
        return (
            move.format(free, f"{name} = {one}"),
            move.format(one, f"{name} = {other}"),
            move.format(other, found),
        )

    def _copy(self, table: Table) -> Sequence[str]:
        names = ", ".join(Ident(column.name).sql for column in table.writable)
        name = self._name(table)
        return (f"INSERT IGNORE INTO {name} ({names}) SELECT {names} FROM {name} LIMIT {SOME_ROWS}",)

    def _joined(self, table: Table) -> tuple[Table, str, str]:
        other = self._chance.choice(self._tables)
        tables = f"{self._name(table)} x JOIN {self._name(other)} y"
        return other, tables, f"{self._condition(table, 'x.')} AND {self._condition(other, 'y.')}"

    def _multi_update(self, table: Table) -> Sequence[str]:
        other, tables, condition = self._joined(table)
        changes = self._changes(table, table.writable[:4], "x.")
        if other is not table:
            changes += ", " + self._changes(other, other.writable[:4], "y.")
        return (f"UPDATE IGNORE {tables} SET {changes} WHERE {condition}",)

    def _multi_delete(self, table: Table) -> Sequence[str]:
        other, tables, condition = self._joined(table)
        return (f"DELETE {'x' if other is table else 'x, y'} FROM {tables} WHERE {condition}",)

    def _savepoint(self, table: Table) -> Sequence[str]:
        end = self._chance.choice(
            ("ROLLBACK TO SAVEPOINT here", "ROLLBACK TO SAVEPOINT here", "RELEASE SAVEPOINT here")
        )
        inside = [*self._insert(table), *self._update(self._chance.choice(self._tables)), *self._delete(table)]
        return ("SAVEPOINT here", *inside, end)
