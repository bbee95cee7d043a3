"""docs/cut-over.md, typed as it stands: the cut-over and the way back, on two fresh servers."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dm.demo.servers import ThrowawayServer
from tests.testbed.cases import APPLIER_GRANTS, SOURCE_GRANTS, TARGET_GRANTS, TEMPORARY_GRANT
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until
from tests.unit.docs.document import ROOT, Block, blocks

pytestmark = [pytest.mark.live, pytest.mark.spark]

PAGE = ROOT / "docs" / "cut-over.md"
AT_SOURCE, AT_TARGET = "canary-c07e", "canary-b4c4"
TABLE = "CREATE TABLE shop.orders (id INT PRIMARY KEY, v VARCHAR(20))"


def alike(text: str) -> list[str]:
    """Lines without what another run has differently: places, ports, seconds, widths of columns."""
    for pattern, word in (
        (r"\([\w.-]+, \d+\)", "(PLACE)"),
        (r"GTID set [\w:,-]+", "GTID set SET"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"[\d.]+ s behind", "S s behind"),
        (r"(in|writes for) [\d.]+ s$", r"\1 S s"),
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
        self.event_rows = 0

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.language == "yaml":
            name = block.text.splitlines()[0].removeprefix("# ")
            if name.endswith("what changes"):
                self._begins_at_the_return(block.text)
                return
            ports = {"3306": self.source.port, "3307": self.target.port}
            self.files[name] = re.sub(r"port: (\d+)", lambda found: f"port: {ports[found[1]]}", block.text)
        elif block.text.startswith("-- for the verb"):
            return
        elif block.language == "sql":
            where = re.match(r"-- at (?:the|a (\w+)) (source|target)", block.text)
            assert where is not None, block.text
            if where[1] == "MySQL":  # these are MariaDB
                return
            server = self.target if where[2] == "target" else self.source
            server.execute(*[line for line in block.text.splitlines() if not line.startswith("--")])
        else:
            for part in re.split(r"^\$ dmctl ", block.text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                self.type(command, shown)

    def type(self, command: str, shown: str) -> None:
        """Run a command, and see what the page shows."""
        if command.startswith("stop-task back"):
            self.event_rows = self.daemon.status("back")["back-01"]["sync"]["eventRows"]
        if command.startswith("operate-source create back"):
            self._write_files()
        if command.startswith("validation update"):
            file, offset = self.source.query("SHOW MASTER STATUS")[0][:2]
            command = re.sub(r"\(\S+, \d+\)", f"({file}, {offset})", command)
        if command.startswith("validation status"):  # it has not read so far yet, or not said so
            wait_until(lambda: alike(self.daemon.said(*shlex.split(command)).out) == alike(shown), "all is validated")
        said = self.daemon.said(*shlex.split(command))
        assert said.status == 0, str(said)
        assert alike(said.out) == alike(shown), str(said)
        if command.startswith("stop-task"):
            self.stopped = said.out
        if command.startswith("stop-task shop"):
            self.target.execute("INSERT INTO shop.orders VALUES (3, 'at the target')")
        if command.startswith("stop-task back"):
            self.source.execute("INSERT INTO shop.orders VALUES (4, 'at the source again')")

    def _begins_at_the_return(self, text: str) -> None:
        """The task's file, which is refused as it is, with what the page changes in it."""
        for verb in ("check-task", "start-task"):
            refused = self.daemon.said(verb, "shop.yaml")
            assert refused.status != 0, str(refused)
            assert "way_back" in refused.out + refused.err, str(refused)
        file = self.daemon.directory / "shop.yaml"
        known, changes = YAML(typ="safe").load(file), YAML(typ="safe").load(self._with_place(text))
        (own,), (new,) = known["mysql-instances"], changes.pop("mysql-instances")
        file.write_text(json.dumps({**known, **changes, "mysql-instances": [{**own, **new}]}))

    def _write_files(self) -> None:
        for name, text in self.files.items():
            (self.daemon.directory / name).write_text(self._with_place(text))

    def _with_place(self, text: str) -> str:
        """With the place that `stop-task` has told."""
        place = re.search(r"its binlog ends at \((\S+), (\d+)\)", self.stopped)
        assert place is not None, self.stopped
        return text.replace("BINLOG_NAME", place[1]).replace("BINLOG_POS", place[2])

    def rows(self, server: ThrowawayServer) -> list[tuple[int, str]]:
        return sorted(server.query("SELECT id, v FROM shop.orders"))


@pytest.fixture
def reader(server: ServerFactory, tmp_path: Path) -> Iterator[Reader]:
    source, target = server("mariadb"), server("mariadb")
    for each in (source, target):
        each.execute("CREATE DATABASE shop", TABLE)
    target.execute("SET GLOBAL binlog_format = 'MIXED'")  # MariaDB's default
    # What the README gives; all else the page has to give.
    source.create_user("dm", AT_SOURCE, SOURCE_GRANTS["mariadb"])
    target.create_user("dm", AT_TARGET, TARGET_GRANTS, TEMPORARY_GRANT, APPLIER_GRANTS["mariadb"])
    head = "host: 127.0.0.1, user: dm, password: "
    (tmp_path / "source.yaml").write_text(f"source-id: mysql-01\nfrom: {{{head}{AT_SOURCE}, port: {source.port}}}\n")
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\ntask-mode: incremental\ntarget-database: {{{head}{AT_TARGET}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: mysql-01, block-allow-list: shop, syncer-config-name: often,"
        " validator-config-name: quick}]\n"
        "block-allow-list: {shop: {do-dbs: [shop]}}\nsyncers: {often: {checkpoint-flush-interval: 1}}\n"
        "validators: {quick: {mode: full, validate-interval: 1s}}\n"
    )
    with Daemon(tmp_path, {"DM_SOURCE_PASSWORD": AT_SOURCE, "DM_TARGET_PASSWORD": AT_TARGET}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        daemon.must("start-task", "shop.yaml")
        daemon.wait("shop", lambda status: status["mysql-01"].get("sync", {}).get("synced") is True, "follows")
        wait_until(lambda: "binlog." in daemon.said("validation", "status", "shop").out, "the validator has begun")
        source.execute("INSERT INTO shop.orders VALUES (1, 'one'), (2, 'two')")
        yield Reader(source, target, daemon)


def test_the_cut_over_and_the_way_back_go_as_the_page_says(reader: Reader) -> None:
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        reader.follow(block)
    everything = [(1, "one"), (2, "two"), (3, "at the target"), (4, "at the source again")]
    assert reader.rows(reader.target) == everything
    assert reader.rows(reader.source) == everything
    assert reader.event_rows == 1, "the page gives the privilege"
