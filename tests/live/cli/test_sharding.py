"""docs/sharding.md, typed as it stands: four shards are merged, altered in turn, and come out of a conflict.

Both modes are. What other sections of the page show is what was seen on the way.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until
from tests.unit.docs.document import ROOT, Block, blocks, section

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

PAGE = ROOT / "docs" / "sharding.md"
PASSWORD = "canary-5a4d"
PATIENCE_SECONDS = 60.0
ROWS = (
    (11, "first", "no", "Bonn"),
    (12, "second", None, None),
    (21, "third", None, "Kiel"),
    (22, "fourth", None, None),
)
OPTIMISTIC_ROWS = ((11, "no", None), (12, None, None), (13, "yes", "new"), (21, None, None), (22, "kept", None))


def alike(text: str) -> list[str]:
    """Lines without what another run has differently: places, moments, seconds, widths of columns."""
    for pattern, word in (
        (r"\([\w.-]+, \d+\)", "(PLACE)"),
        (r"[\w-]+\.\d{6}:\d+", "PLACE"),
        (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\+00:00)?", "MOMENT"),
        (r"\b\d+(\.\d+)? s\b", "SECONDS"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"\b\d+ rows?\b", "N rows"),
        (r" {2,}", "  "),
        (r"\(PLACE\)  \S+  (SECONDS|-)", "(PLACE)  RATE  LAG"),
    ):
        text = re.sub(pattern, word, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


class Reader:
    """Who has the page and three empty servers."""

    def __init__(self, servers: dict[str, ThrowawayServer], daemon: Daemon) -> None:
        self.servers, self.daemon = servers, daemon
        self.seen: list[str] = []  # lines of all answers, as they are on the page as well

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.language == "yaml":
            name = block.text.splitlines()[0].removeprefix("# ")
            ports = {"3306": "source-1", "3307": "source-2", "3308": "target"}
            text = re.sub(r"port: (\d+)", lambda found: f"port: {self.servers[ports[found[1]]].port}", block.text)
            (self.daemon.directory / name).write_text(text)
        elif block.language == "sql":
            for part in re.split(r"^-- at ", block.text, flags=re.MULTILINE)[1:]:
                where, _, statements = part.partition("\n")
                self.servers[where].execute(*[one.strip() for one in statements.split(";") if one.strip()])
        else:
            for part in re.split(r"^\$ dmctl ", block.text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                self.type(command, shown)

    def type(self, command: str, shown: str) -> None:
        """Run a command, a look again and again, and see what the page shows."""
        looks = command.startswith(("query-status", "shard-ddl-lock list"))
        paused = int("Paused" in shown)
        until = time.monotonic() + (PATIENCE_SECONDS if looks else 0)
        while True:
            said = self.daemon.said(*shlex.split(command))
            if (said.status, alike(said.out)) == (paused, alike(shown)):
                self.seen += alike(said.out)
                return
            assert time.monotonic() < until, str(said)
            time.sleep(0.2)


@pytest.fixture
def reader(server: ServerFactory, tmp_path: Path) -> Iterator[Reader]:
    servers = {name: server("mariadb") for name in ("source-1", "source-2", "target")}
    for each in servers.values():
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    with Daemon(tmp_path, {"DM_PASSWORD": PASSWORD}) as daemon:
        yield Reader(servers, daemon)


def page(title: str) -> list[Block]:
    """The blocks of a section."""
    return blocks(section(PAGE.read_text(encoding="utf-8"), title))


def test_four_shards_are_merged_as_the_page_says(reader: Reader) -> None:
    for block in page("Four shards, step by step"):
        reader.follow(block)
    rows = "SELECT id, item, note, city FROM shop.orders ORDER BY id"
    wait_until(lambda: reader.servers["target"].query(rows) == ROWS, "all rows are merged")
    (sample,) = page("What `query-status` shows")
    assert alike(sample.text)
    assert set(alike(sample.text)) <= set(reader.seen)


def test_they_are_merged_the_optimistic_way(reader: Reader) -> None:
    for block in beginning(page("Four shards, step by step")):
        reader.follow(replace(block, text=block.text.replace("shard-mode: pessimistic", "shard-mode: optimistic")))
    for block in page("Four shards, the optimistic way"):
        reader.follow(block)
    rows = "SELECT id, note, item FROM shop.orders ORDER BY id"
    wait_until(lambda: reader.servers["target"].query(rows) == OPTIMISTIC_ROWS, "all rows are merged")


def beginning(found: list[Block]) -> list[Block]:
    """The blocks up to the start of the task."""
    (start,) = (number for number, block in enumerate(found) if "$ dmctl start-task orders.yaml" in block.text)
    return found[: start + 1]
