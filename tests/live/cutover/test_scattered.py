"""Merged tables go back to the shards that their rows name: there and back, both servers equal the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.live.cutover.test_way_back import Plan, Shop, opened, pairs
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until

pytestmark = pytest.mark.live

SHARDS = ("1", "2", "x")
_ROW = "id INT, note VARCHAR(40)"
_SHARD = "shard VARCHAR(9) COLLATE utf8mb4_bin NOT NULL"


@dataclass
class Shards(Shop):
    """Orders with a key and lines without one, in shards at the source and merged at the target."""

    rows: dict[tuple[str, int], str] = field(default_factory=dict)
    lines: Counter[tuple[str, int]] = field(default_factory=Counter)

    def _transaction(self, connection: pymysql.connections.Connection[Any]) -> None:
        self.written += 1
        shard, number, note = self.draw.choice(SHARDS), self.draw.randrange(9), f"written {self.written}"
        other = self.draw.choice(SHARDS)
        there, gone = (shard, number) in self.rows, self.draw.random() < 0.3
        table = f"shop.orders_{shard}" if self.at == 0 else "store.orders"
        only = "" if self.at == 0 else f" AND shard = '{shard}'"
        with connection.cursor() as cursor:
            if self.at == 1 and there and (other, number) not in self.rows:
                cursor.execute(f"UPDATE {table} SET shard = '{other}', note = %s WHERE id = {number}{only}", (note,))
                del self.rows[shard, number]
                self.rows[other, number] = note
            elif there and gone:
                cursor.execute(f"DELETE FROM {table} WHERE id = {number}{only}")
                del self.rows[shard, number]
            elif there:
                cursor.execute(f"UPDATE {table} SET note = %s WHERE id = {number}{only}", (note,))
                self.rows[shard, number] = note
            else:
                more = "" if self.at == 0 else f", shard = '{shard}'"
                cursor.execute(f"INSERT INTO {table} SET id = {number}, note = %s{more}", (note,))
                self.rows[shard, number] = note
            self._line(cursor, shard, number)
        connection.commit()

    def _line(self, cursor: pymysql.cursors.Cursor, shard: str, number: int) -> None:
        """Equal lines, each of which counts; at the target some get another shard."""
        values = f"{number % 3}, 'line'"
        if self.at == 0:
            cursor.execute(f"INSERT INTO shop.lines_{shard} (id, note) VALUES ({values})")
        else:
            cursor.execute(f"INSERT INTO store.lines (id, note, shard) VALUES ({values}, '{shard}')")
        self.lines[shard, number % 3] += 1
        if self.at == 1 and self.draw.random() < 0.3:
            cursor.execute(f"UPDATE store.lines SET shard = 'x' WHERE shard = '{shard}' AND id = {number % 3} LIMIT 1")
            self.lines[shard, number % 3] -= 1
            self.lines["x", number % 3] += 1

    def equal(self, server: ThrowawayServer) -> bool:
        """Whether a server has what the ledger says."""
        if server is self.servers[1]:
            rows = {(str(shard), number): note for shard, number, note in _read(server, "shard, id, note", "orders")}
            lines = Counter((str(shard), number) for shard, number in _read(server, "shard, id", "lines"))
            return rows == self.rows and lines == +self.lines
        rows, lines = {}, Counter()
        for shard in SHARDS:
            rows |= {(shard, number): note for number, note in _read(server, "id, note", f"orders_{shard}")}
            lines.update((shard, number) for (number,) in _read(server, "id", f"lines_{shard}"))
        return rows == self.rows and lines == +self.lines


def _read(server: ThrowawayServer, columns: str, table: str) -> Any:
    schema = "store" if table in ("orders", "lines") else "shop"
    return server.query(f"SELECT {columns} FROM {schema}.{table}")


SHARDED = Plan(
    (
        [
            statement
            for shard in SHARDS
            for statement in (
                f"CREATE TABLE shop.orders_{shard} ({_ROW}, PRIMARY KEY (id))",
                f"CREATE TABLE shop.lines_{shard} ({_ROW})",
            )
        ],
        [
            f"CREATE TABLE store.orders ({_ROW}, {_SHARD}, PRIMARY KEY (id, shard))",
            f"CREATE TABLE store.lines ({_ROW}, {_SHARD})",
        ],
    ),
    "".join(
        f"{line}\n"
        for line in (
            "routes:",
            "  store: {schema-pattern: shop, target-schema: store}",
            *(
                f"  {table}: {{schema-pattern: shop, table-pattern: '{table}_*', target-schema: store,"
                f" target-table: {table}, extract-table: {{table-regexp: '^{table}_(.*)$', target-column: shard}}}}"
                for table in ("orders", "lines")
            ),
        )
    ),
    "[store, orders, lines]",
    Shards,
)


@pytest.fixture
def shards(request: pytest.FixtureRequest, server: ServerFactory, tmp_path: Path) -> Iterator[Shop]:
    flavors: tuple[Flavor, Flavor] = request.param
    with opened(SHARDED, (server(flavors[0]), server(flavors[1])), tmp_path) as shop:
        yield shop


@pytest.mark.parametrize(("shards", "times"), [*pairs(1)[:1], *pairs(3)], indirect=["shards"])
def test_merged_tables_go_back_to_their_shards_and_come_again(shards: Shop, times: int) -> None:
    source, target = shards.servers
    for turn in range(times):
        shards.work(30)
        shards.move("--prove", "full")
        shards.work(20)
        target.execute(f"ALTER TABLE store.orders ADD COLUMN more_{turn} INT")
        shards.work(10)
        shards.daemon.kill()
        shards.work(10)
        shards.daemon.start()
        wait_until(lambda: shards.equal(source), "each shard has its rows", 120)
        assert len(source.query(f"SHOW COLUMNS FROM shop.orders_x LIKE 'more_{turn}'")) == 1
        shards.move("--back", "--prove", "full")
        shards.work(10)
        wait_until(lambda: all(map(shards.equal, shards.servers)), "both have everything, once")
    columns = [row[0] for row in target.query("SHOW COLUMNS FROM store.orders")]
    assert columns == ["id", "note", "shard", *(f"more_{turn}" for turn in range(times))], "no statement came back"
