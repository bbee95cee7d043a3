"""Few keys, much traffic: the tables on which mistakes in order, in safe mode and in keyless rows show at once.

Everything happens on a few dozen keys, so that transactions that touch one row follow each other closely; values move
between unique keys (also between spellings that only the collation finds equal), primary keys move and come back, rows
die and are born again, and the table without a key is full of equal rows, so that one applied twice or left out
changes a count. `shard` keeps the keys of two upstreams apart when both are merged.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from dm.demo.workload import Statement
from dm.ident import Ident, TableName

_KEYS = 40
_SHARD_KEYS = 100_000
_WORDS = ("alpha", "Beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


class HotKeys:
    """A scene of hot rows: two unique keys beside the primary key, a table with a unique key only, one with none."""

    def __init__(self, schema: str, *, shard: int = 0, tidb: bool = False) -> None:
        self.schema = schema
        # The default collations of the servers are not the same one.
        self._collation = " COLLATE utf8mb4_general_ci" if tidb else ""
        self._drops = not tidb  # no column of an index of several goes there by the statement that drops the index
        self._base = shard * _SHARD_KEYS
        self._shard = shard
        self._hot = TableName(schema, "hot").sql
        self._coded = TableName(schema, "coded").sql
        self._keyless = TableName(schema, "keyless").sql
        self._alters = 0

    def create(self) -> Sequence[str]:
        """The statements that create schema and tables."""
        return (
            f"CREATE DATABASE IF NOT EXISTS {Ident(self.schema).sql} CHARACTER SET utf8mb4{self._collation}",
            f"CREATE TABLE {self._hot} (id INT NOT NULL PRIMARY KEY, a INT UNSIGNED NOT NULL, word VARCHAR(40),"
            " v BIGINT NOT NULL DEFAULT 0, note TEXT, UNIQUE KEY by_a (a), UNIQUE KEY by_word (word))",
            f"CREATE TABLE {self._coded} (code VARBINARY(12) NOT NULL, n INT, d DOUBLE, UNIQUE KEY by_code (code))",
            f"CREATE TABLE {self._keyless} (v INT, w VARCHAR(20), f FLOAT, t TIME(2))",
        )

    def transaction(self, chance: random.Random) -> Sequence[Statement]:
        """One to six things on hot rows, now and then a few hundred."""
        things = (
            self._insert, self._update, self._delete, self._reborn, self._move_key, self._swap, self._respell,
            self._replace, self._upsert, self._many, self._coded_change,
            self._keyless_insert, self._keyless_update, self._keyless_delete,
        )  # fmt: skip
        weights = (14, 20, 6, 8, 8, 6, 5, 5, 6, 3, 12, 12, 6, 6)
        count = chance.choice((1, 1, 1, 2, 3, 6)) if chance.random() < 0.99 else 200
        return [statement for thing in chance.choices(things, weights=weights, k=count) for statement in thing(chance)]

    def _id(self, chance: random.Random) -> int:
        return self._base + chance.randrange(_KEYS)

    def _a(self, chance: random.Random) -> int:
        return self._base + chance.randrange(_KEYS * 2)

    def _word(self, chance: random.Random) -> str | None:
        if chance.random() < 0.2:
            return None
        word = f"{chance.choice(_WORDS)} {chance.randrange(6)} {self._shard}"
        return chance.choice((word, word.upper()))

    def _row(self, chance: random.Random) -> tuple[object, ...]:
        note = chance.choice((None, "", "x" * chance.randrange(2000), "ä ' \\ \n"))
        return (self._id(chance), self._a(chance), self._word(chance), chance.randrange(10**12), note)

    def _insert(self, chance: random.Random) -> Sequence[Statement]:
        return ((f"INSERT IGNORE INTO {self._hot} (id, a, word, v, note) VALUES (%s, %s, %s, %s, %s)",
                 self._row(chance)),)  # fmt: skip

    def _update(self, chance: random.Random) -> Sequence[Statement]:
        if self._alters and chance.random() < 0.3:
            column = Ident(f"extra_{self._alters}").sql
            return ((f"UPDATE {self._hot} SET {column} = %s WHERE id = %s", (chance.randrange(100), self._id(chance))),)
        return ((f"UPDATE {self._hot} SET v = v + %s WHERE id = %s", (chance.randrange(1, 9), self._id(chance))),)

    def _delete(self, chance: random.Random) -> Sequence[Statement]:
        return ((f"DELETE FROM {self._hot} WHERE id = %s", (self._id(chance),)),)

    def _reborn(self, chance: random.Random) -> Sequence[Statement]:
        row = self._row(chance)
        return (
            (f"DELETE FROM {self._hot} WHERE id = %s", (row[0],)),
            (f"INSERT IGNORE INTO {self._hot} (id, a, word, v, note) VALUES (%s, %s, %s, %s, %s)", row),
        )

    def _move_key(self, chance: random.Random) -> Sequence[Statement]:
        return ((f"UPDATE IGNORE {self._hot} SET id = %s WHERE id = %s", (self._id(chance), self._id(chance))),)

    def _swap(self, chance: random.Random) -> Sequence[Statement]:
        """Two rows exchange primary keys by way of a free one."""
        one, other, free = self._id(chance), self._id(chance), self._base + _KEYS + chance.randrange(1000)
        move = f"UPDATE IGNORE {self._hot} SET id = %s WHERE id = %s"
        return ((move, (free, one)), (move, (one, other)), (move, (other, free)))

    def _respell(self, chance: random.Random) -> Sequence[Statement]:
        """The same word to the collation, other bytes."""
        function = chance.choice(("UPPER", "LOWER"))
        return ((f"UPDATE {self._hot} SET word = {function}(word) WHERE id = %s", (self._id(chance),)),)

    def _replace(self, chance: random.Random) -> Sequence[Statement]:
        """One row in, up to three rows out."""
        return ((f"REPLACE INTO {self._hot} (id, a, word, v, note) VALUES (%s, %s, %s, %s, %s)", self._row(chance)),)

    def _upsert(self, chance: random.Random) -> Sequence[Statement]:
        return ((f"INSERT INTO {self._hot} (id, a, word, v, note) VALUES (%s, %s, %s, %s, %s)"
                 " ON DUPLICATE KEY UPDATE v = v + 1", self._row(chance)),)  # fmt: skip

    def _many(self, chance: random.Random) -> Sequence[Statement]:
        low = self._id(chance)
        return ((f"UPDATE {self._hot} SET v = v + 1 WHERE id BETWEEN %s AND %s", (low, low + 12)),)

    def _coded_change(self, chance: random.Random) -> Sequence[Statement]:
        code = bytes((0, self._shard % 256, chance.randrange(20), chance.choice((0, 0x20, 0x5C, 0xFF))))
        kind = chance.randrange(4)
        if kind < 2:
            value = chance.choice((None, 0.1, -1e300, 1 / 3))
            return ((f"REPLACE INTO {self._coded} VALUES (%s, %s, %s)", (code, chance.randrange(100), value)),)
        if kind == 2:
            other = code[:3] + b"\0"
            return ((f"UPDATE IGNORE {self._coded} SET code = %s, n = n + 1 WHERE code = %s", (other, code)),)
        return ((f"DELETE FROM {self._coded} WHERE code = %s", (code,)),)

    def _keyless_row(self, chance: random.Random) -> tuple[object, ...]:
        # The shard is in the row, so that LIMIT 1 on one upstream never means a row of the other.
        return (
            self._base + chance.randrange(6),
            chance.choice((None, "a", "A", "a ")),
            chance.choice((0.1, 1e10)),
            chance.choice(("-00:00:01.50", "12:00:00")),
        )

    def _keyless_insert(self, chance: random.Random) -> Sequence[Statement]:
        row = self._keyless_row(chance)
        values = ", ".join(["(%s, %s, %s, %s)"] * chance.choice((1, 1, 2, 5)))
        return ((f"INSERT INTO {self._keyless} VALUES {values}", row * values.count("(")),)

    def _keyless_update(self, chance: random.Random) -> Sequence[Statement]:
        value = self._keyless_row(chance)
        return ((f"UPDATE {self._keyless} SET w = %s, f = f / 2 WHERE v = %s LIMIT %s",
                 (value[1], value[0], chance.choice((1, 1, 3)))),)  # fmt: skip

    def _keyless_delete(self, chance: random.Random) -> Sequence[Statement]:
        return ((f"DELETE FROM {self._keyless} WHERE v = %s LIMIT %s",
                 (self._keyless_row(chance)[0], chance.choice((1, 2, 4)))),)  # fmt: skip

    def alter(self) -> str:
        """Another column and index in, the one before out; merged upstreams can follow only the first."""
        before = self._alters
        self._alters += 1
        new = f"extra_{self._alters}"
        pieces = [
            f"ADD COLUMN {new} INT NOT NULL DEFAULT {self._alters} AFTER a",
            f"ADD INDEX by_{new} ({new}, v)",
        ]
        if before and self._drops:
            pieces += [f"DROP INDEX by_extra_{before}", f"DROP COLUMN extra_{before}"]
        return f"ALTER TABLE {self._hot} {', '.join(pieces)}"
