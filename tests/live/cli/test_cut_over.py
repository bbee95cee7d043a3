"""docs/cut-over.md, typed as it stands: the cut-over and the way back, on two fresh servers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.cases import APPLIER_GRANTS, SOURCE_GRANTS, TARGET_GRANTS
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until
from tests.unit.docs.document import ROOT, Block, blocks

pytestmark = [pytest.mark.live, pytest.mark.spark]

PAGE = ROOT / "docs" / "cut-over.md"
PASSWORD = "canary-c07e"
TABLE = "CREATE TABLE shop.orders (id INT PRIMARY KEY, v VARCHAR(20))"


def alike(text: str) -> list[str]:
    """Lines without what another run has differently: places, ports, seconds, widths of columns."""
    for pattern, word in (
        (r"\([\w.-]+, \d+\)", "(PLACE)"),
        (r"GTID set [\w:,-]+", "GTID set SET"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"[\d.]+ s behind", "S s behind"),
        (r"in [\d.]+ s$", "in S s"),
        (r" {2,}", "  "),
    ):
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return [line.strip() for line in text.splitlines() if line.strip()]


class Reader:
    """Who has the page, two servers and a task between them."""

    def __init__(self, source: ThrowawayServer, target: ThrowawayServer, daemon: Daemon) -> None:
        self.source, self.target, self.daemon = source, target, daemon
        self.files: dict[str, str] = {}
        self.stopped = ""
        self.events = 0  # rows that went back as events

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.language == "yaml":
            name = block.text.splitlines()[0].removeprefix("# ")
            ports = {"3306": self.source.port, "3307": self.target.port}
            self.files[name] = re.sub(r"port: (\d+)", lambda found: f"port: {ports[found[1]]}", block.text)
        elif block.language == "sql":
            server = self.target if block.text.startswith("-- at the target") else self.source
            server.execute(*[line for line in block.text.splitlines() if not line.startswith("--")])
        else:
            for part in re.split(r"^\$ dmctl ", block.text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                self.type(command, shown)

    def type(self, command: str, shown: str) -> None:
        """Run a command, and see what the page shows."""
        if command.startswith("operate-source create back"):
            self._write_files()
        if command.startswith("validation update"):
            file, offset = self.source.query("SHOW MASTER STATUS")[0][:2]
            command = re.sub(r"\(\S+, \d+\)", f"({file}, {offset})", command)
        if command.startswith("validation status"):  # it has not read so far yet, or not said so
            wait_until(lambda: alike(self.daemon.said(*shlex.split(command)).out) == alike(shown), "all is validated")
        if command.startswith("stop-task back"):
            self.events = self.daemon.status("back")["back-01"]["sync"]["eventRows"]
        said = self.daemon.said(*shlex.split(command))
        assert said.status == 0, str(said)
        assert alike(said.out) == alike(shown), str(said)
        if command.startswith("stop-task"):
            self.stopped = said.out
        if command.startswith("stop-task shop"):
            self.target.execute("INSERT INTO shop.orders VALUES (3, 'at the target')")

    def _write_files(self) -> None:
        place = re.search(r"its binlog ends at \((\S+), (\d+)\)", self.stopped)
        assert place is not None, self.stopped
        for name, text in self.files.items():
            text = text.replace("BINLOG_NAME", place[1]).replace("BINLOG_POS", place[2])
            (self.daemon.directory / name).write_text(text)

    def rows(self, server: ThrowawayServer) -> list[tuple[int, str]]:
        return sorted(server.query("SELECT id, v FROM shop.orders"))


@pytest.fixture
def reader(server: ServerFactory, tmp_path: Path) -> Iterator[Reader]:
    source, target = server("mariadb"), server("mariadb")
    for each in (source, target):
        each.execute("CREATE DATABASE shop", TABLE)
    # What README and docs/validate.md ask for; all else the page has to give.
    source.create_user("dm", PASSWORD, SOURCE_GRANTS["mariadb"])
    temporary = "CREATE TEMPORARY TABLES ON dm_meta.*"
    target.create_user("dm", PASSWORD, TARGET_GRANTS, APPLIER_GRANTS["mariadb"], temporary)
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(f"source-id: mysql-01\nfrom: {{{head}, port: {source.port}}}\n")
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\ntask-mode: incremental\ntarget-database: {{{head}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: mysql-01, block-allow-list: shop, syncer-config-name: often,"
        " validator-config-name: quick}]\n"
        "block-allow-list: {shop: {do-dbs: [shop]}}\nsyncers: {often: {checkpoint-flush-interval: 1}}\n"
        "validators: {quick: {mode: full, validate-interval: 1s}}\n"
    )
    with Daemon(tmp_path, {"DM_BACK_PASSWORD": PASSWORD}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "shop.yaml")
        daemon.wait("shop", lambda status: status["mysql-01"].get("sync", {}).get("synced") is True, "follows")
        wait_until(lambda: "binlog." in daemon.said("validation", "status", "shop").out, "the validator has begun")
        source.execute("INSERT INTO shop.orders VALUES (1, 'one'), (2, 'two')")
        yield Reader(source, target, daemon)


def test_the_cut_over_and_the_way_back_go_as_the_page_says(reader: Reader) -> None:
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        reader.follow(block)
    everything = [(1, "one"), (2, "two"), (3, "at the target")]
    assert reader.rows(reader.target) == everything
    assert reader.rows(reader.source) == everything
    forward_once_more(reader)
    assert reader.events == 1, "the page gives the privilege"


def forward_once_more(reader: Reader) -> None:
    """What the page says of the first task after the return."""
    daemon = reader.daemon
    for verb in ("check-task", "start-task"):
        refused = daemon.said(verb, "shop.yaml")
        assert refused.status != 0, str(refused)
        assert "way_back" in refused.out + refused.err, str(refused)
    place = re.search(r"its binlog ends at \((\S+), (\d+)\)", reader.stopped)
    assert place is not None, reader.stopped
    file = daemon.directory / "shop.yaml"
    meta = f"source-id: mysql-01, meta: {{binlog-name: {place[1]}, binlog-pos: {place[2]}}},"
    file.write_text(file.read_text().replace("source-id: mysql-01,", meta))
    reader.source.execute("INSERT INTO shop.orders VALUES (4, 'at the source')")
    daemon.must("start-task", "shop.yaml", "--remove-meta")
    daemon.must("wait", "shop", "--synced", "--timeout", "60")
    assert reader.rows(reader.target) == reader.rows(reader.source)
