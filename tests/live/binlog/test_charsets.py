"""Every character set a server has: columns, members and defaults in it reach the target with the same bytes."""

from __future__ import annotations

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.mysql.binlog.charset import charset_of, max_bytes
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

_TEXTS = (
    "",
    "plain 'text' \\ ",
    "äöüß€ńŁőÞ",
    "Привет",
    "Ελλάδα",
    "שלום",
    "مرحبا",
    "สวัสดี",
    "日本語カタカナ",
    "中文",
    "한국어",
    "😀𝄞",
)


def test_texts_in_every_character_set_arrive(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    charsets = [row[0] for row in upstream.query("SELECT character_set_name FROM information_schema.character_sets")]
    assert len(charsets) >= 38
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        session = upstream.connect(database=name, charset="utf8mb4")
        with session, session.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            for charset in charsets:
                cursor.execute(
                    f"CREATE TABLE c_{charset} (id INT PRIMARY KEY AUTO_INCREMENT, c CHAR(30), v VARCHAR(300), t TEXT,"
                    " e ENUM('a', 'b') DEFAULT 'b', s SET('x', 'y'), d VARCHAR(9) DEFAULT 'dflt')"
                    f" CHARACTER SET {charset}"
                )
                values = ", ".join(["(%s, %s, %s)"] * len(_TEXTS))
                cursor.execute(
                    f"INSERT INTO c_{charset} (c, v, t) VALUES {values}", [text for text in _TEXTS for _ in range(3)]
                )
                cursor.execute(f"UPDATE c_{charset} SET e = 'a', s = 'x,y', v = CONCAT(v, t) WHERE id > 3")
        sync.wait_synced(120)
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
    assert report.rows == len(charsets) * len(_TEXTS)


def test_character_sets_are_counted_past_columns_that_only_look_like_text(
    mysql: ThrowawayServer, park: ServerPark, schema: SchemaFactory
) -> None:
    target = park.shared("mysql", "target")
    name = schema(mysql, target)
    with running_sync(subtask_for(mysql, target, name, task=name)) as sync:
        sync.wait_synced()
        mysql.execute(
            f"CREATE TABLE {name}.t (b BLOB, v VECTOR(3), g GEOMETRY, j JSON, c CHAR(9) CHARACTER SET gbk,"
            " e ENUM('ä'), w VARCHAR(9) CHARACTER SET latin1, x VARCHAR(9)) CHARACTER SET utf8mb4",
            f"INSERT INTO {name}.t VALUES (x'ff', TO_VECTOR('[1,2,3]'), POINT(1, 2), '[]', '中', 'ä', 'é', 'é')",
        )
        sync.wait_synced()
    report = compare(pair_tables([mysql], [name]), target)
    assert report.identical, str(report)
    assert report.rows == 1


def test_every_collation_of_the_servers_is_known(flavor: Flavor, upstream: ThrowawayServer) -> None:
    rows = upstream.query(
        "SELECT c.id, c.character_set_name, s.maxlen FROM information_schema.collations AS c"
        " JOIN information_schema.character_sets AS s USING (character_set_name) WHERE c.id IS NOT NULL"
    )
    assert len(rows) > 200
    for number, charset, size in rows:
        found = charset_of(int(number))
        assert found in (charset, f"{charset}mb3"), (number, charset)
        assert found is not None
        assert max_bytes(found) == size, charset
