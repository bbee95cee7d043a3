"""Rows are found again whatever the type of their key is, and without a key by the bytes of every type and charset."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pymysql
import pytest
from pymysql.cursors import Cursor

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.live.binlog.types import CASES
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.loop_result import draw_seed
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live

# Texts that collations, paddings and conversions like to mix up.
_WORDS = ("a", "A", "á", "a ", "ss", "ß", "Ж", "日本", "\\\\'%_", "")


def _types(flavor: Flavor, charsets: Iterator[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for of, definition, values in CASES:
        if of == flavor:
            yield definition, values
    words = tuple("'" + word.replace("'", "''") + "'" for word in _WORDS)
    for charset in charsets:
        yield f"VARCHAR(40) CHARACTER SET {charset}", words
        yield f"CHAR(40) CHARACTER SET {charset} COLLATE {'binary' if charset == 'binary' else charset + '_bin'}", words


def _create(cursor: Cursor, number: int, definition: str) -> list[str]:
    """Tables whose key is the value, or has it in it, where the server takes such a key, and one without a key."""
    made = []
    prefix = "(12)" if any(word in definition.upper() for word in ("BLOB", "TEXT", "VARBINARY(")) else ""
    for name, keys in (
        (f"keyed{number}", f", PRIMARY KEY (v{prefix})"),
        (f"paired{number}", f", PRIMARY KEY (n, v{prefix})"),
        # An UPDATE of many such rows sends each value through an expression.
        (f"several{number}", ", id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE"),
        (f"keyless{number}", ""),
    ):
        null = "NOT NULL" if "v" in keys else "NULL"
        try:
            cursor.execute(f"CREATE TABLE {name} (v {definition} {null}, n INT{keys})")
        except pymysql.err.Error:
            assert keys, definition
        else:
            made.append(name)
    return made


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("every", [32, pytest.param(1, marks=pytest.mark.chaos)])
def test_rows_of_every_type_are_found_again(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, every: int, safe: bool
) -> None:
    seed = draw_seed(flavor, "key types")
    print(f"seed: {seed}")
    name = schema(upstream, target)
    found = upstream.query("SELECT character_set_name FROM information_schema.character_sets ORDER BY 1")
    keyed = rows = 0
    with running_sync(subtask_for(upstream, target, name, task=name, compact=True, safe_mode=safe)) as sync:
        sync.wait_synced()
        session = upstream.connect(database=name, charset="utf8mb4", autocommit=True)
        with session, session.cursor() as cursor:
            cursor.execute("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'")
            types = enumerate(_types(flavor, (str(row[0]) for row in found)))
            for number, (definition, values) in islice(types, seed % every, None, every):
                for table in _create(cursor, number, definition):
                    keyed += not table.startswith("keyless")
                    for at, value in enumerate(values):
                        rows += cursor.execute(f"INSERT IGNORE INTO {table} (v, n) VALUES ({value}, {at})")
                    cursor.execute(f"UPDATE {table} SET n = n + 100")
                    cursor.execute(f"DELETE FROM {table} WHERE n % 3 = 1")
                    cursor.execute(f"UPDATE {table} SET n = n + 100")
        status = sync.wait_synced(300)
    assert status["missingRows"] == 0
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
    if every == 1:
        assert (keyed > 80, rows > 1000) == (True, True), (keyed, rows)
        record(f"syncer.key_types.{flavor}", {"keyed": keyed, "rows": rows})
