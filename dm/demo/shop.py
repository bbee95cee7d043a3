"""A small shop: customers, orders, line items and a log of visits without a key.

The schema is what people have: foreign keys, JSON, decimals, unsigned numbers, text in many scripts, an ENUM, a SET, a
unique key under a case-insensitive collation, a timestamp that the server keeps, and a table that nobody gave a primary
key. `shard` keeps the keys of two shops apart, so that they can be merged into one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dm.demo.workload import Statement
from dm.ident import Ident, TableName

_SHARD_KEYS = 100_000_000
_BATCH = 2000

_GIVEN = ("Ada", "Łukasz", "Zoë", "Дарья", "美咲", "محمد", "Ελένη", "José", "Nguyễn", "O'Brien", "Åse", "धर्म")
_FAMILY = (
    "Müller",
    "Smith",
    "Иванова",
    "田中",
    "García",
    "de la Cruz",
    "Þórsdóttir",
    "Öztürk",
    "김",
    "D\\Angelo",
    "🦊 Fox",
)
_COUNTRIES = ("DE", "FR", "JP", "BR", "IN", "US", "IS", "GR")
_STATES = ("new", "paid", "shipped", "returned")
_PAGES = ("/", "/cart", "/checkout", "/search?q=%C3%A9t%C3%A9", "/item/{}", "/help")
_NOTES = (
    None,
    "",
    "bitte klingeln",
    "line one\nline two",
    "“quoted” and 'quoted'",
    "a \\ and a \t",
    "🎁 gift",
    "x" * 300,
)
_CHANNELS = ("web", "app", "phone")


class ShopServer(Protocol):
    """What is needed of a server."""

    def connect(self, **arguments: Any) -> Connection[Cursor]:
        """A new connection."""
        ...


@dataclass
class Sizes:
    """How many rows the tables start with."""

    customers: int
    orders: int
    lines: int
    visits: int

    @classmethod
    def of_total(cls, rows: int) -> Sizes:
        """The usual proportions, at least `rows` in sum."""
        customers, orders, visits = rows // 12, rows // 4, rows // 6
        return cls(customers, orders, rows - customers - orders - visits, visits)


class Shop:
    """The shop as a scene for a workload."""

    def __init__(self, schema: str, *, shard: int, rows: int) -> None:
        self.schema = schema
        self.sizes = Sizes.of_total(rows)
        self._first = shard * _SHARD_KEYS + 1
        self._prefix = f"{shard:x}-"
        self._name_tables()
        self._next_customer = self._first + self.sizes.customers
        self._next_order = self._first + self.sizes.orders
        self._alters = 0

    def _name_tables(self) -> None:
        self._customers = TableName(self.schema, "customers").sql
        self._orders = TableName(self.schema, "orders").sql
        self._lines = TableName(self.schema, "line_items").sql
        self._visits = TableName(self.schema, "visits").sql

    def moves(self, schema: str) -> None:
        """Its tables are in another schema from now on."""
        self.schema = schema
        self._name_tables()

    def create(self) -> Sequence[str]:
        """The statements that create schema and tables."""
        return (
            f"CREATE DATABASE {Ident(self.schema).sql} CHARACTER SET utf8mb4",
            f"CREATE TABLE {self._customers} ("
            " id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,"
            " email VARCHAR(120) NOT NULL,"
            " name VARCHAR(80) NOT NULL COMMENT 'as the customer writes it',"
            " country CHAR(2) CHARACTER SET ascii NOT NULL,"
            " credit DECIMAL(12,2) NOT NULL DEFAULT 0.00,"
            " preferences JSON,"
            " newsletter TINYINT(1) NOT NULL DEFAULT 1,"
            " joined DATETIME(6) NOT NULL,"
            " changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
            " UNIQUE KEY by_email (email))",
            f"CREATE TABLE {self._orders} ("
            " id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,"
            " customer_id BIGINT UNSIGNED NOT NULL,"
            " reference VARCHAR(24) NOT NULL,"
            " state ENUM('new','paid','shipped','returned') NOT NULL DEFAULT 'new',"
            " total DECIMAL(14,4) NOT NULL,"
            " discount FLOAT,"
            " note TEXT,"
            " placed DATETIME(3) NOT NULL,"
            " UNIQUE KEY by_reference (reference), KEY by_customer (customer_id, placed),"
            f" CONSTRAINT orders_customer FOREIGN KEY (customer_id) REFERENCES {self._customers} (id))",
            f"CREATE TABLE {self._lines} ("
            " order_id BIGINT UNSIGNED NOT NULL,"
            " line SMALLINT UNSIGNED NOT NULL,"
            " sku VARCHAR(40) NOT NULL,"
            " quantity INT UNSIGNED NOT NULL,"
            " price DECIMAL(10,2) NOT NULL,"
            " flags SET('gift','fragile','backorder') NOT NULL DEFAULT '',"
            " weight DOUBLE,"
            " PRIMARY KEY (order_id, line), KEY by_sku (sku(12)),"
            f" CONSTRAINT line_items_order FOREIGN KEY (order_id) REFERENCES {self._orders} (id))",
            f"CREATE TABLE {self._visits} ("
            " at DATETIME(6) NOT NULL, customer_id BIGINT UNSIGNED, page VARCHAR(100) NOT NULL,"
            " seconds FLOAT NOT NULL, session VARBINARY(16), KEY by_customer (customer_id))",
        )

    def load(self, server: ShopServer, seed: int) -> int:
        """Fill the empty tables in big multi-row inserts; says how many rows."""
        chance = random.Random(seed)
        connection = server.connect(autocommit=False, binary_prefix=True)
        try:
            with connection.cursor() as cursor:
                # The tables are filled parents first; checking each row again would double the time.
                cursor.execute("SET SESSION foreign_key_checks = 0, unique_checks = 0")
                for insert, rows in (
                    (self._insert_customer(), self._customer_rows(chance)),
                    (self._insert_order(altered=False), self._order_rows(chance)),
                    (self._insert_line(), self._line_rows(chance)),
                    (self._insert_visit(), self._visit_rows(chance)),
                ):
                    for batch in _batches(rows):
                        cursor.executemany(insert, batch)
                        connection.commit()
        finally:
            connection.close()
        sizes = self.sizes
        return sizes.customers + sizes.orders + sizes.lines + sizes.visits

    # Rows

    def _customer(self, chance: random.Random, key: int) -> tuple[object, ...]:
        preferences = {
            "theme": chance.choice(("dark", "light")),
            "size": chance.randrange(50),
            "tags": ["ä", None, 1.5],
        }
        return (
            key,
            f"{self._prefix}{key:x}@example.{chance.choice(('org', 'COM', 'net'))}",
            f"{chance.choice(_GIVEN)} {chance.choice(_FAMILY)}",
            chance.choice(_COUNTRIES),
            f"{chance.randrange(-50_000, 500_000) / 100:.2f}",
            json.dumps(preferences, ensure_ascii=False) if chance.random() < 0.8 else None,
            chance.randrange(2),
            _moment(chance, 6),
        )

    def _order(self, chance: random.Random, key: int) -> tuple[object, ...]:
        return (
            key,
            self._some_customer(chance),
            f"{self._prefix}R{key:09d}",
            chance.choice(_STATES),
            f"{chance.randrange(100_000_000) / 10_000:.4f}",
            chance.choice((None, 0.1, 1 / 3, chance.random() * 100)),
            chance.choice(_NOTES),
            _moment(chance, 3),
        )

    def _line(self, chance: random.Random, order: int, line: int) -> tuple[object, ...]:
        return (
            order,
            line,
            f"SKU-{chance.randrange(5000):05d}-{chance.choice('ABCdéß')}",
            chance.choice((1, 2, 3, 4_294_967_295)),
            f"{chance.randrange(1_000_000) / 100:.2f}",
            chance.randrange(8),
            chance.choice((None, chance.random() * 1e6, 1e-300)),
        )

    def _visit(self, chance: random.Random) -> tuple[object, ...]:
        customer = None if chance.random() < 0.3 else self._some_customer(chance)
        page = chance.choice(_PAGES).format(chance.randrange(100))
        return (_moment(chance, 0), customer, page, chance.choice((0.1, 2.5, 16_777_216.0)), chance.randbytes(8))

    def _customer_rows(self, chance: random.Random) -> Iterator[tuple[object, ...]]:
        return (self._customer(chance, self._first + number) for number in range(self.sizes.customers))

    def _order_rows(self, chance: random.Random) -> Iterator[tuple[object, ...]]:
        return (self._order(chance, self._first + number) for number in range(self.sizes.orders))

    def _line_rows(self, chance: random.Random) -> Iterator[tuple[object, ...]]:
        for number in range(self.sizes.lines):
            line, order = divmod(number, self.sizes.orders)
            yield self._line(chance, self._first + order, line + 1)

    def _visit_rows(self, chance: random.Random) -> Iterator[tuple[object, ...]]:
        return (self._visit(chance) for _ in range(self.sizes.visits))

    # Statements

    def _insert_customer(self) -> str:
        return (
            f"INSERT INTO {self._customers} (id, email, name, country, credit, preferences, newsletter, joined)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
        )

    def _insert_order(self, *, altered: bool) -> str:
        columns = "id, customer_id, reference, state, total, discount, note, placed"
        values = "%s, %s, %s, %s, %s, %s, %s, %s"
        if altered:
            columns, values = f"{columns}, channel", f"{values}, %s"
        return f"INSERT INTO {self._orders} ({columns}) VALUES ({values})"

    def _insert_line(self) -> str:
        return (
            f"INSERT INTO {self._lines} (order_id, line, sku, quantity, price, flags, weight)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)"
        )

    def _insert_visit(self) -> str:
        return f"INSERT INTO {self._visits} (at, customer_id, page, seconds, session) VALUES (%s, %s, %s, %s, %s)"

    def _some_customer(self, chance: random.Random) -> int:
        return chance.randrange(self._first, self._next_customer)

    def _some_order(self, chance: random.Random) -> int:
        # Recent orders are the busy ones.
        age = int(chance.expovariate(1 / 200)) if chance.random() < 0.7 else chance.randrange(self.sizes.orders)
        return max(self._first, self._next_order - 1 - age)

    def transaction(self, chance: random.Random) -> Sequence[Statement]:
        """One thing that happens in a shop."""
        happening = chance.choices(
            (
                self._place_order, self._sign_up, self._move_on, self._change_customer, self._renumber_lines,
                self._swap_references, self._swap_emails, self._cancel_order, self._browse, self._tidy_visits,
            ),
            weights=(25, 8, 20, 12, 6, 4, 3, 5, 15, 4),
        )[0]  # fmt: skip
        return happening(chance)

    def _place_order(self, chance: random.Random) -> Sequence[Statement]:
        key = self._next_order
        self._next_order += 1
        order = self._order(chance, key)
        altered = self._alters > 0
        if altered:
            order = (*order, chance.choice(_CHANNELS))
        lines = [(self._insert_line(), self._line(chance, key, line + 1)) for line in range(chance.randrange(1, 6))]
        return ((self._insert_order(altered=altered), order), *lines)

    def _sign_up(self, chance: random.Random) -> Sequence[Statement]:
        key = self._next_customer
        self._next_customer += 1
        return ((self._insert_customer(), self._customer(chance, key)),)

    def _move_on(self, chance: random.Random) -> Sequence[Statement]:
        key = self._some_order(chance)
        statements: list[Statement] = [
            (f"UPDATE {self._orders} SET state = %s, discount = %s WHERE id = %s",
             (chance.choice(_STATES), chance.random(), key)),
        ]  # fmt: skip
        if self._alters:
            statements.append((f"UPDATE {self._orders} SET shipped_at = %s WHERE id = %s", (_moment(chance, 0), key)))
        return statements

    def _change_customer(self, chance: random.Random) -> Sequence[Statement]:
        key = self._some_customer(chance)
        return (
            (f"UPDATE {self._customers} SET credit = credit + %s, name = %s,"
             " preferences = JSON_SET(COALESCE(preferences, '{}'), '$.size', %s, '$.seen', 'é\"') WHERE id = %s",
             (f"{chance.random():.2f}", chance.choice(_FAMILY), chance.randrange(99), key)),
        )  # fmt: skip

    def _renumber_lines(self, chance: random.Random) -> Sequence[Statement]:
        """Move primary keys: the first line goes after the others, and the rest moves up."""
        key = self._some_order(chance)
        move = f"UPDATE {self._lines} SET line = %s WHERE order_id = %s AND line = %s"
        return (
            (move, (1000, key, 1)),
            (f"UPDATE {self._lines} SET line = line - 1 WHERE order_id = %s AND line < 1000 ORDER BY line", (key,)),
            (f"UPDATE {self._lines} SET line = 1 + (SELECT * FROM (SELECT COUNT(*) FROM {self._lines}"
             " WHERE order_id = %s AND line < 1000) AS others) WHERE order_id = %s AND line = 1000", (key, key)),
        )  # fmt: skip

    def _swap_references(self, chance: random.Random) -> Sequence[Statement]:
        return _swap(chance, self._orders, "reference", self._some_order(chance), self._some_order(chance))

    def _swap_emails(self, chance: random.Random) -> Sequence[Statement]:
        return _swap(chance, self._customers, "email", self._some_customer(chance), self._some_customer(chance))

    def _cancel_order(self, chance: random.Random) -> Sequence[Statement]:
        key = self._some_order(chance)
        return (
            (f"DELETE FROM {self._lines} WHERE order_id = %s", (key,)),
            (f"DELETE FROM {self._orders} WHERE id = %s", (key,)),
        )

    def _browse(self, chance: random.Random) -> Sequence[Statement]:
        visit = self._visit(chance)
        # The same row again, now and then: nothing tells the two apart.
        return [(self._insert_visit(), visit)] * chance.choice((1, 1, 1, 2, 3))

    def _tidy_visits(self, chance: random.Random) -> Sequence[Statement]:
        customer = self._some_customer(chance)
        if chance.random() < 0.5:
            return ((f"DELETE FROM {self._visits} WHERE customer_id = %s LIMIT 2", (customer,)),)
        return ((f"UPDATE {self._visits} SET seconds = seconds * 2 WHERE customer_id = %s LIMIT 1", (customer,)),)

    def alter(self) -> str:
        """The shop's next change of the orders table."""
        self._alters += 1
        if self._alters == 1:
            return (
                f"ALTER TABLE {self._orders} ADD COLUMN channel VARCHAR(16) NOT NULL DEFAULT 'web' AFTER state,"
                " ADD COLUMN shipped_at DATETIME NULL, ADD INDEX by_state (state, placed),"
                " MODIFY COLUMN note MEDIUMTEXT"
            )
        number = self._alters
        return (
            f"ALTER TABLE {self._orders} ADD COLUMN extra_{number} INT NULL,"
            f" ADD INDEX by_extra_{number} (extra_{number}), ALTER COLUMN state SET DEFAULT 'paid'"
        )


def _swap(chance: random.Random, table: str, column: str, one: int, other: int) -> Sequence[Statement]:
    """Exchange a unique value between two rows, by way of a third value as SQL demands."""
    name = Ident(column).sql
    parked = f"parked-{chance.getrandbits(48):x}"
    take = f"UPDATE {table} SET {name} = @taken WHERE id = %s"
    return (
        (f"SELECT {name} INTO @kept FROM {table} WHERE id = %s", (one,)),
        (f"SELECT {name} INTO @taken FROM {table} WHERE id = %s", (other,)),
        (f"UPDATE {table} SET {name} = %s WHERE id = %s", (parked, other)),
        (take, (one,)),
        (f"UPDATE {table} SET {name} = @kept WHERE id = %s AND {name} = %s", (other, parked)),
    )


def _moment(chance: random.Random, digits: int) -> str:
    day = f"20{chance.randrange(20, 26)}-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}"
    clock = f"{chance.randrange(24):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}"
    fraction = f".{chance.randrange(10**digits):0{digits}d}" if digits else ""
    return f"{day} {clock}{fraction}"


def _batches(rows: Iterator[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    batch: list[tuple[object, ...]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def load_all(shops: Sequence[tuple[ShopServer, Shop]], seed: int) -> int:
    """Create and fill shops on several servers at the same time; says how many rows there are in all."""

    def fill(server: ShopServer, shop: Shop, number: int) -> int:
        connection = server.connect()
        try:
            with connection.cursor() as cursor:
                for statement in shop.create():
                    cursor.execute(statement)
        finally:
            connection.close()
        return shop.load(server, seed + number)

    with ThreadPoolExecutor(max_workers=len(shops)) as pool:
        jobs = [pool.submit(fill, server, shop, number) for number, (server, shop) in enumerate(shops)]
        return sum(job.result() for job in jobs)
