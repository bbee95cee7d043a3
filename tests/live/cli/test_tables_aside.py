"""`on-error: table` and `dmctl table`, as a person meets them: what failing-tasks.md shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.live.cli.newcomer import FAILED, Newcomer
from tests.testbed.park import ServerPark
from tests.unit.docs.document import FAILING_TASKS, blocks, section

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor]


@pytest.fixture
def newcomer(park: ServerPark, flavor: Flavor, tmp_path: Path) -> Iterator[Newcomer]:
    one = Newcomer(park.shared(flavor, "upstream-1"), park.shared(flavor, "target"), tmp_path)
    with one.daemon:
        yield one
        one.close()


VARIES = ((r"\d{4}-\d\d-\d\d [\d:]{8}", "WHEN"), (r"\d+ bytes of \S+", "BYTES"), (r"\(\S+, \d+\)", "(PLACE)"))


def alike(text: str, schema: str) -> list[str]:
    """Lines without what another run has differently."""
    for pattern, same in ((re.escape(schema), "shop"), *VARIES):
        text = re.sub(pattern, same, text)
    return [line for line in text.splitlines() if line.strip()]


def shown_in_the_document() -> str:
    """What failing-tasks.md says that `table list` answers."""
    page = section(FAILING_TASKS.read_text(), "One table fails")
    (block,) = (each for each in blocks(page) if "$ dmctl table list shop\n" in each.text)
    return block.text.split("$ dmctl table list shop\n")[1]


def rows(server: ThrowawayServer, newcomer: Newcomer, table: str) -> Any:
    return server.query(f"SELECT * FROM {newcomer.schema}.{table} ORDER BY 1")


def follow(newcomer: Newcomer, syncers: str) -> None:
    """A task that follows two tables, `orders` and `items`."""
    schema, must = newcomer.schema, newcomer.daemon.must
    for server in (newcomer.upstream, newcomer.target):
        server.execute(f"CREATE TABLE {schema}.items (id INT, v INT)")
    newcomer.target.execute(f"INSERT INTO {schema}.orders VALUES (1, 'one'), (2, 'two')")
    must("operate-source", "create", newcomer.file("s.yaml", newcomer.source_text("here", newcomer.good_source_user())))
    text = newcomer.task_text("shop", "here", newcomer.good_target_user())
    text = text.replace("    block-allow-list: shop\n", "    block-allow-list: shop\n    syncer-config-name: s\n")
    must("start-task", newcomer.file("task.yaml", f"{text}syncers: {{s: {{{syncers}}}}}\n"))
    must("wait", "shop", "--synced", "--timeout", "60")


def listed_now(newcomer: Newcomer) -> Any:
    """As it is stored; an error that a release has cleared is not there."""
    return newcomer.daemon.must("table", "list", "shop", "--output", "json").json()["branches"]


def branches(status: Any) -> Any:
    return status["here"].get("branches") or []


def test_a_failing_table_waits_aside_and_comes_back(newcomer: Newcomer) -> None:
    must, wait, schema, upstream, target = (
        newcomer.daemon.must,
        newcomer.daemon.wait,
        newcomer.schema,
        newcomer.upstream,
        newcomer.target,
    )
    follow(newcomer, "on-error: table")
    target.execute(f"DELETE FROM {schema}.orders WHERE id = 2")
    upstream.execute(f"UPDATE {schema}.orders SET v = 'deux' WHERE id = 2", f"INSERT INTO {schema}.items VALUES (1, 1)")
    wait("shop", lambda status: [one["phase"] for one in branches(status)] == ["aside"], "the table is aside")
    wait("shop", lambda _: rows(target, newcomer, "items") == ((1, 1),), "the other table goes on")
    shown = newcomer.daemon.said("query-status", "shop")
    assert shown.status == FAILED, "it needs a person"
    assert f"`{schema}`.`orders`: aside since" in shown.out
    listed = must("table", "list", "shop").out
    assert alike(listed, schema) == alike(shown_in_the_document(), "shop")
    assert newcomer.daemon.said("table", "hold", "shop", f"{schema}.orders").status == FAILED, "it is aside"
    assert newcomer.daemon.said("table", "release", "shop", f"{schema}.items").status == FAILED, "it is not"

    must("table", "release", "shop", f"{schema}.orders")  # too early
    wait("shop", lambda _: [bool(one["error"]) for one in listed_now(newcomer)] == [True], "it has failed again")
    target.execute(f"INSERT INTO {schema}.orders VALUES (2, 'two')")
    must("table", "release", "shop", f"{schema}.orders")
    must("wait", "shop", "--synced", "--timeout", "120")
    assert must("table", "list", "shop").out.strip() == "shop: all tables are in its stream"

    must("table", "hold", "shop", f"{schema}.items")
    wait("shop", lambda status: [one["phase"] for one in branches(status)] == ["aside"], "a person has put one aside")
    upstream.execute(f"INSERT INTO {schema}.items VALUES (2, 2)", f"INSERT INTO {schema}.orders VALUES (3, 'three')")
    wait("shop", lambda _: len(rows(target, newcomer, "orders")) == 3, "the others go on")
    assert rows(target, newcomer, "items") == ((1, 1),)
    must("table", "release", "shop", f"{schema}.items")
    must("wait", "shop", "--synced", "--timeout", "120")
    for table in ("orders", "items"):
        assert rows(target, newcomer, table) == rows(upstream, newcomer, table)

    must("table", "hold", "shop", f"{schema}.items")
    wait("shop", lambda status: [one["phase"] for one in branches(status)] == ["aside"], "aside once more")
    must("table", "drop", "shop", f"{schema}.items")
    upstream.execute(f"INSERT INTO {schema}.items VALUES (9, 9)")
    must("wait", "shop", "--synced", "--timeout", "60")
    assert rows(target, newcomer, "items") == ((1, 1), (2, 2)), "it is migrated no longer"


@pytest.mark.chaos
def test_further_tables_pause_the_task(newcomer: Newcomer) -> None:
    wait, schema, upstream, target = newcomer.daemon.wait, newcomer.schema, newcomer.upstream, newcomer.target
    follow(newcomer, "on-error: table, aside-tables: 1")
    target.execute(f"DROP TABLE {schema}.orders", f"DROP TABLE {schema}.items")
    upstream.execute(f"INSERT INTO {schema}.orders VALUES (3, 'three')")
    wait("shop", lambda status: len(branches(status)) == 1, "one is aside")
    upstream.execute(f"INSERT INTO {schema}.items VALUES (3, 3)")
    wait("shop", lambda status: status["here"]["stage"] == "Paused", "the other one pauses the task")
    assert "(`aside-tables: 1`)" in newcomer.daemon.said("query-status", "shop").out


@pytest.mark.chaos
@pytest.mark.spark
def test_a_table_that_was_given_up_is_loaded_again(newcomer: Newcomer) -> None:
    must, wait, schema = newcomer.daemon.must, newcomer.daemon.wait, newcomer.schema
    follow(newcomer, "on-error: table")
    must("table", "hold", "shop", f"{schema}.items")
    wait("shop", lambda status: [one["phase"] for one in branches(status)] == ["aside"], "it is aside")
    must("table", "drop", "shop", f"{schema}.items")
    newcomer.upstream.execute(f"INSERT INTO {schema}.items VALUES (9, 9)")
    must("reload-table", "shop", schema, "items")
    must("wait", "shop", "--synced", "--timeout", "200")
    assert rows(newcomer.target, newcomer, "items") == ((9, 9),)
    assert must("table", "list", "shop").out.strip() == "shop: all tables are in its stream"
