"""Task files in DM's documentation style that merge shards, run as they stand: only the target's address is put in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb"), pytest.mark.timeout(300)]

FOLDER = Path(__file__).parents[2] / "unit" / "config" / "documented"
PASSWORD = "canary-31e7"
ADDRESS = '  port: 4000\n  user: "root"\n  password: ""\n'
SHARDS = ((0, "mall_1.orders_1"), (0, "mall_1.orders_2"), (1, "mall_2.orders_1"))  # all have the same keys
BRANCHES = tuple((number, f"branch_{number + 1}.sales_1") for number in range(3))
ROWS = "SELECT c_source, c_table, id, item, note FROM mall.orders ORDER BY c_source, c_table, id"


class Site:
    """Sources with shards, their target, and a daemon with the files."""

    def __init__(
        self,
        sources: Sequence[ThrowawayServer],
        target: ThrowawayServer,
        shards: Sequence[tuple[int, str]],
        daemon: Daemon,
    ) -> None:
        self.sources, self.target, self.daemon, self.shards = sources, target, daemon, shards

    def write(self, *statements: str) -> None:
        """Do it in every shard, one shard after the other."""
        for source, table in self.shards:
            self.sources[source].execute(*(statement.format(t=table) for statement in statements))

    def start(self, name: str) -> None:
        """Start the documented file with this name."""
        text = (FOLDER / f"{name}.yaml").read_text()
        assert ADDRESS in text
        address = f"  port: {self.target.port}\n  user: dm\n  password: {PASSWORD}\n"
        text = text.replace(ADDRESS, address).replace('"192.0.2.1"', '"127.0.0.1"')
        (self.daemon.directory / "task.yaml").write_text(text)
        self.daemon.must("start-task", "task.yaml")

    @property
    def altered(self) -> bool:
        """Whether the target has the column that the shards get."""
        return bool(self.target.query("SHOW COLUMNS FROM mall.orders LIKE 'note'"))


@contextmanager
def prepared(
    sources: Sequence[ThrowawayServer],
    target: ThrowawayServer,
    shards: Sequence[tuple[int, str]],
    merged: str,
    directory: Path,
) -> Iterator[Site]:
    """Shards, the table that they go into (with what parts of names fill), and a daemon that knows the sources."""
    servers = (*sources, target)
    schemas = {table.partition(".")[0] for _, table in shards} | {merged.partition(".")[0], "dm_meta"}

    def clean() -> None:
        for each in servers:
            each.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in schemas))

    clean()
    for each in servers:
        each.execute("DROP USER IF EXISTS dm@'%'")
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    for source, table in shards:
        sources[source].execute(
            f"CREATE DATABASE IF NOT EXISTS {table.partition('.')[0]}",
            f"CREATE TABLE {table} (id INT PRIMARY KEY, item VARCHAR(20))",
        )
    target.execute(f"CREATE DATABASE {merged.partition('.')[0]}", f"CREATE TABLE {merged}")
    with Daemon(directory, {}) as daemon:
        for number, one in enumerate(sources, 1):
            name = f"mysql-0{number}"
            text = f"source-id: {name}\nfrom: {{host: 127.0.0.1, port: {one.port}, user: dm, password: {PASSWORD}}}\n"
            (directory / f"{name}.yaml").write_text(text)
            daemon.must("operate-source", "create", f"{name}.yaml")
        yield Site(sources, target, shards, daemon)
    clean()


@pytest.fixture
def site(upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, tmp_path: Path) -> Iterator[Site]:
    merged = (
        "mall.orders (id INT NOT NULL, item VARCHAR(20), c_table VARCHAR(9) NOT NULL,"
        " c_source VARCHAR(9) NOT NULL, PRIMARY KEY (id, c_table, c_source))"
    )
    with prepared(upstreams, target, SHARDS, merged, tmp_path) as made:
        yield made


def synced(status: dict[str, dict[str, Any]]) -> bool:
    """Whether all sources are followed and nothing waits."""
    return all(one["stage"] == "Running" and one.get("sync", {}).get("synced") is True for one in status.values())


def waits(status: dict[str, dict[str, Any]]) -> bool:
    """Whether a shard waits for others."""
    return any(one.get("sync", {}).get("unresolvedGroups") for one in status.values())


@pytest.mark.parametrize(
    ("file", "task", "copied"),
    [
        ("pessimistic-shards", "mall", True),
        pytest.param("optimistic-shards", "mall-optimistic", False, marks=pytest.mark.chaos),
    ],
)
def test_a_documented_file_merges_shards_that_are_altered_in_turn(
    site: Site, file: str, task: str, *, copied: bool
) -> None:
    present = "INSERT INTO {t} VALUES (1, 'there before'), (2, 'there, too')"
    if copied:
        site.write(present)
    site.start(file)
    site.daemon.wait(task, synced, "synced")
    if not copied:
        site.write(present)
    site.write("INSERT INTO {t} VALUES (3, 'one more')", "DELETE FROM {t} WHERE id = 2")
    (source, first), *others = SHARDS
    site.sources[source].execute(
        f"ALTER TABLE {first} ADD COLUMN note VARCHAR(20)", f"INSERT INTO {first} VALUES (4, 'after it', 'yes')"
    )
    fourth = "SELECT c_source, c_table FROM mall.orders WHERE id = 4"
    if copied:
        site.daemon.wait(task, waits, "the first shard waits for the others")
        assert site.target.query(fourth) == ()
    else:
        wait_until(lambda: site.target.query(fourth) == (("01", "1"),), "the first shard's row comes at once")
    for source, table in others:
        site.sources[source].execute(
            f"UPDATE {table} SET item = 'not altered yet' WHERE id = 3",
            f"ALTER TABLE {table} ADD COLUMN note VARCHAR(20)",
            f"UPDATE {table} SET note = 'altered' WHERE id = 3",
        )
    expected = tuple(
        (f"0{source + 1}", table[-1], *row)
        for source, table in SHARDS
        for row in site.sources[source].query(f"SELECT id, item, note FROM {table} ORDER BY id")
    )
    wait_until(lambda: site.altered and site.target.query(ROWS) == expected, "all rows are merged")
    site.daemon.wait(task, synced, "synced")


@pytest.mark.chaos
def test_a_documented_file_whose_shards_wait_for_nobody_merges_three_sources(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, server: ServerFactory, tmp_path: Path
) -> None:
    key = "(id INT NOT NULL, item VARCHAR(20), c_table VARCHAR(9) NOT NULL, c_schema VARCHAR(9) NOT NULL,"
    merged = f"branch.sales {key} c_source VARCHAR(9) NOT NULL, PRIMARY KEY (id, c_table, c_schema, c_source))"
    sources = (*upstreams, server(target.flavor))
    with prepared(sources, target, BRANCHES, merged, tmp_path) as branches:
        branches.write("INSERT INTO {t} VALUES (1, 'there before')")
        branches.start("strict-shards")
        branches.daemon.wait("branches", synced, "synced")
        rows = "SELECT c_source, c_schema, c_table, id, item, note FROM branch.sales ORDER BY c_source, id"
        for done, (source, table) in enumerate(BRANCHES, 1):
            sources[source].execute(
                f"ALTER TABLE {table} ADD COLUMN note VARCHAR(20)",
                f"INSERT INTO {table} VALUES (2, 'after it', 'yes')",
                f"UPDATE {table} SET item = 'changed' WHERE id = 1",
            )
            expected = tuple(
                row
                for number in range(3)
                for row in (
                    ((f"mysql-0{number + 1}", str(number + 1), "1", 1, "changed", None),
                     (f"mysql-0{number + 1}", str(number + 1), "1", 2, "after it", "yes"))
                    if number < done
                    else ((f"mysql-0{number + 1}", str(number + 1), "1", 1, "there before", None),)
                )
            )  # fmt: skip
            wait_until(partial(_is, target, rows, expected), "rows of the shard that is altered wait for no other")
        branches.daemon.wait("branches", synced, "synced")


def _is(target: ThrowawayServer, rows: str, expected: object) -> bool:
    altered = target.query("SHOW COLUMNS FROM branch.sales LIKE 'note'")
    return bool(altered) and target.query(rows) == expected
