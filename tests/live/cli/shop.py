"""A shop's task, as docs/operations.md shows it: its servers and files, and what the page says of a verb."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.unit.docs.document import OPERATIONS, blocks, section

PASSWORD = "canary-5h0p"
TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(20))",
    "CREATE TABLE shop.notes (note VARCHAR(20))",
)
FIRST = ("INSERT INTO shop.items VALUES (1, 'cup'), (2, 'pot')", "INSERT INTO shop.notes VALUES ('first')")
VARIES = ((r"\(binlog\.\d+, \d+\)", "(PLACE)"), (r"in [\d.]+ s$", "in S s"), (r"about \d+ s", "about S s"))


def shown(heading: str, command: str) -> str:
    """What the page says that a command answers."""
    page = section(OPERATIONS.read_text(), heading)
    (block,) = (each for each in blocks(page) if f"$ {command}\n" in each.text)
    return block.text.split(f"$ {command}\n")[1].split("$ ")[0]


def alike(text: str) -> list[str]:
    """Lines without what another run has differently."""
    for pattern, same in VARIES:
        text = re.sub(pattern, same, text, flags=re.MULTILINE)
    return [line for line in text.splitlines() if line.strip()]


def shop_servers(server: ServerFactory, flavor: Flavor, directory: Path, *, relay: bool) -> tuple[ThrowawayServer, ...]:
    """Source and target with the same empty tables, and the files of `mysql-01` and `shop-all`."""
    source, target = server(flavor), server(flavor)
    for each in (source, target):
        each.execute(*TABLES)
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (directory / "source.yaml").write_text(
        f"source-id: mysql-01\nenable-relay: {str(relay).lower()}\nfrom: {{{head}, port: {source.port}}}\n"
    )
    (directory / "shop-all.yaml").write_text(
        f"name: shop-all\ntask-mode: incremental\ntarget-database: {{{head}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: mysql-01, block-allow-list: shop}]\nblock-allow-list: {shop: {do-dbs: [shop]}}\n"
    )
    return source, target


@contextmanager
def synced_shop(directory: Path, source: ThrowawayServer) -> Iterator[Daemon]:
    """A daemon whose task has applied the first rows."""
    with Daemon(directory, {}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "shop-all.yaml")
        daemon.must("wait", "shop-all", "--synced", "--timeout", "120")
        source.execute(*FIRST)
        daemon.must("wait", "shop-all", "--synced", "--timeout", "120")
        yield daemon
