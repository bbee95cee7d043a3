"""Task files in DM's documentation style that merge shards, run as they stand: only the target's address is put in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Daemon
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb"), pytest.mark.timeout(300)]

FOLDER = Path(__file__).parents[2] / "unit" / "config" / "documented"
PASSWORD = "canary-31e7"
ADDRESS = '  port: 4000\n  user: "root"\n  password: ""\n'
SOURCES = ("mysql-01", "mysql-02")
SHARDS = ((0, "mall_1.orders_1"), (0, "mall_1.orders_2"), (1, "mall_2.orders_1"))  # all have the same keys
ROWS = "SELECT c_source, c_table, id, item, note FROM mall.orders ORDER BY c_source, c_table, id"


class Site:
    """Two sources with three shards, their target, and a daemon with the files."""

    def __init__(self, sources: Sequence[ThrowawayServer], target: ThrowawayServer, daemon: Daemon) -> None:
        self.sources, self.target, self.daemon = sources, target, daemon

    def write(self, *statements: str) -> None:
        """Do it in every shard, one shard after the other."""
        for source, table in SHARDS:
            self.sources[source].execute(*(statement.format(t=table) for statement in statements))

    def start(self, name: str) -> None:
        """Start the documented file with this name."""
        text = (FOLDER / f"{name}.yaml").read_text()
        assert ADDRESS in text
        address = f"  port: {self.target.port}\n  user: dm\n  password: {PASSWORD}\n"
        (self.daemon.directory / "task.yaml").write_text(text.replace(ADDRESS, address))
        self.daemon.must("start-task", "task.yaml")

    @property
    def altered(self) -> bool:
        """Whether the target has the column that the shards get."""
        return bool(self.target.query("SHOW COLUMNS FROM mall.orders LIKE 'note'"))


@pytest.fixture
def site(upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, tmp_path: Path) -> Iterator[Site]:
    servers = (*upstreams, target)

    def clean() -> None:
        for each in servers:
            each.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in ("mall", "mall_1", "mall_2", "dm_meta")))

    clean()
    for each in servers:
        each.execute("DROP USER IF EXISTS dm@'%'")
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    for source, table in SHARDS:
        upstreams[source].execute(
            f"CREATE DATABASE IF NOT EXISTS {table.partition('.')[0]}",
            f"CREATE TABLE {table} (id INT PRIMARY KEY, item VARCHAR(20))",
        )
    target.execute(
        "CREATE DATABASE mall",
        "CREATE TABLE mall.orders (id INT NOT NULL, item VARCHAR(20), c_table VARCHAR(9) NOT NULL,"
        " c_source VARCHAR(9) NOT NULL, PRIMARY KEY (id, c_table, c_source))",
    )
    with Daemon(tmp_path, {}) as daemon:
        for name, one in zip(SOURCES, upstreams, strict=True):
            text = f"source-id: {name}\nfrom: {{host: 127.0.0.1, port: {one.port}, user: dm, password: {PASSWORD}}}\n"
            (tmp_path / f"{name}.yaml").write_text(text)
            daemon.must("operate-source", "create", f"{name}.yaml")
        yield Site(upstreams, target, daemon)
    clean()


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
        f"ALTER TABLE {first} ADD COLUMN note VARCHAR(20)", f"INSERT INTO {first} VALUES (4, 'behind it', 'yes')"
    )
    behind = "SELECT c_source, c_table FROM mall.orders WHERE id = 4"
    if copied:
        site.daemon.wait(task, waits, "the first shard waits for the others")
        assert site.target.query(behind) == ()
    else:
        wait_until(lambda: site.target.query(behind) == (("01", "1"),), "the first shard's row comes at once")
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
