"""Between servers of two flavours each changed value is found, and its statement ends it."""

from __future__ import annotations

import random
from functools import partial

import pytest

from dm.mysql.dialect import Flavor
from tests.testbed.diffing import differences, put_right
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.random_table import Table, draw_table
from tests.testbed.shared_dialect import shared_dialect
from tests.testbed.sync import running_sync, subtask_for
from tests.testbed.typed_rows import change_a_value, filled_table, session
from tests.testbed.without_signs import without_negative_zeros

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(1800)]

TABLES, ROUNDS = 12, 8
COLLATION = "utf8mb4_general_ci"  # the servers' defaults differ


def drawn(number: int, source: Flavor, target: Flavor, chance: random.Random) -> Table:
    """A table of types that both have."""
    table = draw_table(f"t{number}", source, chance, shared_dialect(source, target))
    without_negative_zeros(table)
    return table


@pytest.mark.parametrize(("of", "to"), [("mysql", "mariadb"), ("mariadb", "mysql")])
def test_each_change_is_found(park: ServerPark, schema: SchemaFactory, of: Flavor, to: Flavor) -> None:
    source, target, chance = park.shared(of, "upstream-1"), park.shared(to, "target"), random.Random(2302)
    name = schema(source, target)
    for server in (source, target):
        server.execute(f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE {COLLATION}")
    subtask = subtask_for(source, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with session(source) as cursor:
            draws = (partial(drawn, number, of, to, chance) for number in range(TABLES))
            tables = [filled_table(cursor, name, draw, chance) for draw in draws]
        sync.wait_synced()
    assert differences(subtask) == {}
    found, without_fix = 0, set[str]()  # documents in tables without a key: no server computes what they are known by
    for number in range(ROUNDS):
        with session(target) as cursor:
            statements = {t.name: change_a_value(cursor, name, t, chance) for t in tables if t.name not in without_fix}
        wrong = {table: rows for table, rows in differences(subtask).items() if table not in without_fix}
        assert wrong.keys() == {table for table, statement in statements.items() if statement}, (number, statements)
        assert all(len(rows) in (1, 2) for rows in wrong.values())
        found += len(wrong)
        put_right(target, [row for rows in wrong.values() for row in rows])
        without_fix |= {table for table, rows in wrong.items() if any(row.fix.impossible for row in rows)}
        assert differences(subtask).keys() == without_fix, (number, statements)
    assert found > 0.6 * TABLES * ROUNDS
