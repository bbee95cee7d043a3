"""A source that has had GTIDs and writes transactions without: `gtid_mode` is OFF, or OFF_PERMISSIVE."""

from __future__ import annotations

from dataclasses import dataclass

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.purge import purge_binlogs

MODES = {"OFF": ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"), "OFF_PERMISSIVE": ("ON_PERMISSIVE", "OFF_PERMISSIVE")}
BACK = {"OFF": ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"), "OFF_PERMISSIVE": ("ON_PERMISSIVE", "ON")}
GONE = {"source-binlog-purged", "relay-gap"}


def demand_hole(error: BaseException | None) -> None:
    """Fail unless the error says that something is missing."""
    assert isinstance(error, DMError)
    assert error.name in GONE, error


@dataclass
class AnonymousSource:
    """One that had GTIDs."""

    server: ThrowawayServer
    target: ThrowawayServer
    schema: SchemaFactory
    mode: str

    def make(self, table: str = "") -> str:
        name = self.schema(self.server, self.target)
        if table:
            for each in (self.server, self.target):
                each.execute(f"CREATE TABLE {name}.{table}")
        return name

    def insert(self, name: str, row: int) -> None:
        self.server.execute(f"INSERT INTO {name}.t VALUES ({row})")

    def forget_gtids(self) -> None:
        self.server.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in MODES[self.mode]))

    def have_gtids_again(self) -> None:
        self.server.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in BACK[self.mode]))

    def make_hole(self, name: str) -> None:
        for row in (3, 4):
            self.insert(name, row)
            self.server.execute("FLUSH BINARY LOGS")
        purge_binlogs(self.server)
        self.insert(name, 5)
