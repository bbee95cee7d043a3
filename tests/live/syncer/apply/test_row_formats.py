"""Rows as row events and rows as SQL: the same stream has the same outcome, rows and errors, kills included.

The reference is the form that the target judges, SQL. Tables and statements are drawn from a seed; DM_SEED plays one
again. Errors are in `test_row_format_errors.py`.
"""

from __future__ import annotations

import os
import random
import sys
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

from dm.config.rules import RouteRule
from dm.demo.servers import ThrowawayServer
from dm.ident import Ident
from dm.mysql.dialect import Flavor
from dm.unit import JSON
from tests.live.syncer.apply.test_foreign_keys import SETS, TEXT, FamilyWorkload
from tests.testbed.crash_loop import BATCH_POINTS
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.hot_keys import HotKeys
from tests.testbed.loop_result import SEED_VARIABLE, draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.random_table import HOSTILE, NATIVE, Dialect
from tests.testbed.random_workload import RandomWorkload
from tests.testbed.sync import SyncProcess, subtask_for
from tests.testbed.twins import TABLES, Twins, forms, write

pytestmark = [pytest.mark.live]

SAMPLE = 20261125
SEEDS = 10
LETTERS = "aZ 0'\\\t\0\r\näßéłőЖфαΩאش中文あ한€𝄞"
DIALECTS = {"native": NATIVE, "hostile": HOSTILE}


@pytest.mark.ci_flavor("mysql")
def test_long_values_of_one_length_in_a_table_without_a_key(twins: Twins) -> None:
    twins.create("CREATE TABLE {}.n (a INT, b BLOB NOT NULL)")
    twins.begin()
    rows, same = f"{twins.name}.n", "(2, ''), (2, ''), (2, ' '), (NULL, x'ffff')"
    twins.upstream.execute(
        f"INSERT INTO {rows} VALUES {same}",
        "BEGIN",
        f"UPDATE {rows} SET b = x'00' WHERE b = ' '",
        f"UPDATE {rows} SET a = 1, b = 'ab' WHERE a IS NULL",
        f"UPDATE {rows} SET a = NULL, b = x'ffff' WHERE a = 2 AND b = '' LIMIT 1",
        "COMMIT",
    )
    form, why = twins.follow_both()["n"]
    assert form == ("sql" if twins.target.flavor == "mysql" else "events"), why


def drawn(twins: Twins, seed: int, dialect: Dialect, directory: Path) -> dict[str, tuple[JSON, JSON]]:
    """Tables, statements and DDL of a seed, followed in both forms; gives the forms of the one by events."""
    twins.begin()
    connection = twins.upstream.connect(autocommit=True)
    with connection.cursor() as cursor, (directory / f"{seed}.sql").open("w", encoding="utf-8") as log:
        workload = RandomWorkload(cursor, twins.name, twins.upstream.flavor, random.Random(seed), log, dialect)
        workload.create_tables(8)
        for _ in range(80):
            workload.transaction()
    connection.close()
    found = twins.follow_both()
    assert "events" in {form for form, _ in found.values()}, f"DM_SEED={seed}: {found}"
    return found


@pytest.mark.ci_flavor("mysql")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_drawn_tables_and_statements_come_to_the_same(
    twins: Twins, flavor: Flavor, tmp_path: Path, dialect: str
) -> None:
    drawn(twins, int(os.environ.get(SEED_VARIABLE, SAMPLE)), DIALECTS[dialect][flavor], tmp_path)


@pytest.mark.ci_flavor("mariadb")
def test_texts_of_every_character_set_come_to_the_same(twins: Twins) -> None:
    """Of all bytes where a character has one, in columns of each kind; what has more goes as SQL, but for UTF-8."""
    shown = twins.upstream.query("SHOW CHARACTER SET")
    sizes = {str(charset): int(size) for charset, _, _, size in shown if charset != "binary"}
    chance = random.Random(int(os.environ.get(SEED_VARIABLE, SAMPLE)))
    for charset in sizes:
        columns = f"id INT PRIMARY KEY, a CHAR(9), b VARCHAR(300), c TEXT, KEY (b)) DEFAULT CHARSET {charset}"
        twins.create(
            f"CREATE TABLE {{}}.{charset} ({columns}",
            f"CREATE TABLE {{}}.{charset}_keyless (v CHAR(4)) CHARSET {charset}",
        )
    twins.begin()
    for charset, size in sizes.items():
        literals = [_text(chance, charset, size) for _ in range(60)]
        rows = ", ".join(f"({at}, LEFT({one}, 9), {one}, {one})" for at, one in enumerate(literals))
        other = _text(chance, charset, size)
        twins.upstream.execute(
            "SET sql_mode = ''",  # what a character set does not have becomes a question mark
            f"INSERT INTO {twins.name}.{charset} VALUES {rows}",
            f"UPDATE {twins.name}.{charset} SET a = LEFT({other}, 9), c = CONCAT(c, {other}) WHERE id % 3 = 0",
            f"UPDATE {twins.name}.{charset} SET b = REVERSE(b) WHERE id % 4 = 1",
            f"DELETE FROM {twins.name}.{charset} WHERE id % 7 = 0",
            f"INSERT INTO {twins.name}.{charset}_keyless SELECT LEFT(c, 4) FROM {twins.name}.{charset}",
            f"UPDATE {twins.name}.{charset}_keyless SET v = LEFT({other}, 4) ORDER BY v LIMIT 9",
        )
    found = twins.follow_both()
    by_events = {table.removesuffix("_keyless") for table, (form, _) in found.items() if form == "events"}
    single = {charset for charset, size in sizes.items() if size == 1}
    assert len(single) > 20
    assert by_events == single | {"utf8mb3", "utf8mb4"} & sizes.keys()


def _text(chance: random.Random, charset: str, size: int) -> str:
    """A text of a character set, as SQL."""
    if size == 1 and charset != "ascii":
        raw = bytes(chance.randrange(256) for _ in range(chance.randrange(40)))
        return f"_{charset} x'{raw.hex()}'"
    text = "".join(chance.choices(LETTERS, k=chance.randrange(40)))
    return f"CONVERT(_utf8mb4 x'{text.encode().hex()}' USING {charset})"


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_many_seeds_come_to_the_same(park: ServerPark, schema: SchemaFactory, flavor: Flavor, tmp_path: Path) -> None:
    upstream, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    first = draw_seed("row formats", flavor)
    for seed in range(first, first + (1 if SEED_VARIABLE in os.environ else SEEDS)):
        sys.stderr.write(f"DM_SEED={seed} {flavor}, statements in {tmp_path}\n")
        twins = Twins(upstream, target, schema(upstream, target, prefix="form"))
        try:
            drawn(twins, seed, random.Random(seed).choice([NATIVE, HOSTILE])[flavor], tmp_path)
        finally:
            twins.close()


@pytest.mark.ci_flavor("mariadb")
def test_hot_keys_come_to_the_same(twins: Twins) -> None:
    chance, scene = random.Random(int(os.environ.get(SEED_VARIABLE, SAMPLE))), HotKeys(twins.name)
    twins.begin()
    twins.upstream.execute(*scene.create())
    connection = twins.upstream.connect()
    with connection.cursor() as cursor:
        for number in range(200):
            if number % 80 == 79:
                cursor.execute(scene.alter())
            for statement, arguments in scene.transaction(chance):
                with suppress(pymysql.err.IntegrityError):
                    cursor.execute(statement, arguments)
            connection.commit()
    connection.close()
    assert twins.follow_both() == dict.fromkeys(("coded", "hot", "keyless"), ("events", ""))


FAMILIES = [("refusing", True), ("refusing", False), ("keyless", True), ("keyless", False), ("acting", True)]


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(("kind", "checks"), FAMILIES)
@pytest.mark.ci_sample(2)
def test_tables_that_foreign_keys_join_come_to_the_same(twins: Twins, kind: str, checks: bool) -> None:
    if checks:
        twins.check_foreign_keys()
    for server, schema in ((twins.upstream, twins.name), (twins.target, twins.name), (twins.target, twins.by_sql)):
        server.execute(f"USE {schema}", *(definition.format(text=TEXT) for definition in SETS[kind]))
    twins.begin()
    work = FamilyWorkload(twins.upstream, twins.name, kind, random.Random(SAMPLE))
    work.run(150)
    work.close()
    found = twins.follow_both()
    assert found == dict.fromkeys(found, ("events", ""))
    assert len(found) > 2


@pytest.mark.ci_flavor("mariadb")
def test_ordinary_tables_go_as_events(twins: Twins) -> None:
    twins.create(*TABLES)
    twins.begin()
    write(twins)
    found = {table: form for table, (form, _) in twins.follow_both().items()}
    assert found == dict.fromkeys(found, "events") | passed_over(twins.target)
    assert len(found) == len(TABLES)


def passed_over(target: ThrowawayServer) -> dict[str, JSON]:
    """The one of these tables that has a CHECK, of which MariaDB asks no row event."""
    return {"computed": "sql"} if target.flavor == "mariadb" else {}


@pytest.mark.ci_flavor("mariadb")
def test_routes_name_the_tables_that_events_go_to(twins: Twins) -> None:
    name, upstream, target = twins.name, twins.upstream, twins.target
    twins.create(*TABLES)
    other = f"{name} `to 'ü"
    names = {table: f"{table}`s 100%" for table in twins.rows(upstream, name)} | {"hot": "both, merged"}
    routes = tuple(
        RouteRule(name=f"r{at}", schema_pattern=name, table_pattern=table, target_schema=other, target_table=new)
        for at, (table, new) in enumerate(names.items())
    )
    cold = RouteRule(
        name="c", schema_pattern=name, table_pattern="cold", target_schema=other, target_table=names["hot"]
    )
    task = subtask_for(upstream, target, name, task=f"{name}_routed", routes=(*routes, cold))
    upstream.execute(f"CREATE TABLE {name}.cold LIKE {name}.hot")
    target.execute(f"CREATE DATABASE {Ident(other).sql}")
    try:
        for table, new in names.items():
            target.execute(f"CREATE TABLE {Ident(other).sql}.{Ident(new).sql} LIKE {name}.{Ident(table).sql}")
        twins.follow(task)
        write(twins)
        upstream.execute(
            f"INSERT INTO {name}.cold VALUES (3, 3), (4, 4)",
            f"UPDATE {name}.cold SET v = v + 1, id = id + 3",
            f"DELETE FROM {name}.hot WHERE id = 2",
        )
        found = {table: form for table, (form, _) in forms(twins.follow(task)).items()}
        judged = {names[table]: form for table, form in passed_over(target).items()}
        assert found == dict.fromkeys(names.values(), "events") | judged
        source, routed = twins.rows(upstream, name), twins.rows(target, other)
        source["hot"] = sorted(source["hot"] + source.pop("cold"))
        assert routed == {names[table]: rows for table, rows in source.items()}
    finally:
        target.execute(f"DROP DATABASE {Ident(other).sql}", f"DROP DATABASE IF EXISTS meta_{name}_routed")


@pytest.mark.ci_flavor("mysql")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", BATCH_POINTS)
@pytest.mark.ci_sample(2)
def test_a_kill_at_any_point_of_a_batch(twins: Twins, point: str) -> None:
    twins.create(*TABLES)
    twins.begin()
    write(twins)
    process = SyncProcess(twins.tasks["auto"], faults=f"{point}=kill@3")
    process.process.wait(60)
    process.close()
    write_more(twins)
    assert "events" in {form for form, _ in twins.follow_both().values()}


def write_more(twins: Twins) -> None:
    """Rows after the replay, which go as events again."""
    name = twins.name
    twins.upstream.execute(f"UPDATE {name}.hot SET v = -1", f"UPDATE {name}.keyless SET v = 'more' WHERE id < 20")


# What a functional index computes, and a condition that it can serve.
INDEXED = {
    "text": ("LOWER(v)", "LOWER(v) >= 'w'"),
    "number": ("n + 1", "n + 1 > 0"),
    "quotient": ("n / 3", "n / 3 >= 0"),
    "numbers": ("CAST(j->'$.b' AS UNSIGNED ARRAY)", "2 MEMBER OF (j->'$.b')"),
    "amounts": ("CAST(j->'$.b' AS DECIMAL(9, 2) ARRAY)", "2 MEMBER OF (j->'$.b')"),
    "words": ("CAST(j->'$.c' AS CHAR(20) ARRAY)", "'p' MEMBER OF (j->'$.c')"),
}


@pytest.mark.parametrize("flavor", ["mysql"], indirect=True)
def test_tables_with_functional_indexes_come_to_the_same(twins: Twins) -> None:
    columns = "(id INT PRIMARY KEY, v VARCHAR(60), n INT, j JSON"
    twins.create(
        *(f"CREATE TABLE {{}}.`{name}` {columns}, KEY f (({computed})))" for name, (computed, _) in INDEXED.items())
    )
    twins.begin()
    for name in INDEXED:
        table = f"{twins.name}.`{name}`"
        twins.upstream.execute(
            f"INSERT INTO {table} SELECT id, CONCAT('Wort', id), id, JSON_OBJECT('b', JSON_ARRAY(id % 4, id), 'c',"
            " JSON_ARRAY('p', CONCAT('p', id))) FROM (WITH RECURSIVE r AS (SELECT 1 AS id UNION ALL SELECT id + 1"
            " FROM r WHERE id < 40) SELECT id FROM r) AS numbers",
            f"UPDATE {table} SET v = 'WORT', n = NULL, j = JSON_SET(j, '$.b[1]', 2) WHERE id % 3 = 0",
            f"UPDATE {table} SET j = NULL WHERE id % 5 = 0",
            f"DELETE FROM {table} WHERE id % 7 = 0",
        )
    twins.follow_both()
    for name, (_, condition) in INDEXED.items():
        rows = f"SELECT id FROM {{}}.`{name}` FORCE INDEX (f) WHERE {condition} ORDER BY id"
        plain = rows.replace("FORCE INDEX (f)", "IGNORE INDEX (f)").format(twins.name)
        by_row = twins.upstream.query(plain)
        assert by_row
        for schema in (twins.name, twins.by_sql):
            assert twins.target.query(rows.format(schema)) == by_row, name


@pytest.mark.parametrize("flavor", ["mysql"], indirect=True)
def test_the_comparison_sees_types_inside_documents_below_an_index(twins: Twins) -> None:
    twins.create("CREATE TABLE {}.t (id INT PRIMARY KEY, j JSON, KEY ((CAST(j->'$.b' AS UNSIGNED ARRAY))))")
    for server, schema in ((twins.upstream, twins.name), (twins.target, twins.name), (twins.target, twins.by_sql)):
        server.execute(f"INSERT INTO {schema}.t VALUES (1, JSON_OBJECT('b', JSON_ARRAY(11)))")
    twins.demand_equal()
    twins.target.execute(
        f"DELETE FROM {twins.by_sql}.t",
        f"INSERT INTO {twins.by_sql}.t VALUES (1, JSON_OBJECT('b', JSON_ARRAY(CAST(11 AS UNSIGNED))))",
    )
    with pytest.raises(AssertionError):
        twins.demand_equal()
