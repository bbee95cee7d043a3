"""A task that reads a relay, the changes of a stretch, and the target before and after they are taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.equality import structure
from dm.mysql.equality.checksum import Checksum, checksum_query
from dm.mysql.equality.values import Side, parts, row_text
from dm.sourcelog.stream.until import Until
from dm.task.start_and_end import place_of_text
from dm.tools.errands import FlashbackReport, FlashbackRequest, RelayedSubtask
from dm.tools.flashback.unit import FlashbackUnit
from tests.live.relay.relaying import end_of, relaying, source_of
from tests.testbed.sync import running_sync, subtask_for


class Scene:
    """One schema of a source, merged into another name at the target."""

    def __init__(self, upstream: ThrowawayServer, target: PrivateServer, name: str, directory: Path) -> None:
        self.upstream, self.target, self.name, self.directory = upstream, target, name, directory
        self.there = f"{name}_there"
        target.execute(f"CREATE DATABASE {self.there}")
        self.first, _ = end_of(upstream)
        route = RouteRule(name="moved", schema_pattern=name, target_schema=self.there)
        self.subtask: SubtaskConfig = subtask_for(upstream, target, name, task=name, routes=(route,))
        self.relay = directory / "relay"
        self.written = 0

    @contextmanager
    def following(self) -> Iterator[None]:
        """The target follows; at the end everything is there, and the checkpoint says so."""
        with relaying(source_of(self.upstream, first=self.first), self.relay):
            with running_sync(self.subtask, self.relay, self.directory / "work") as sync:
                sync.wait_synced(120)
                yield
                sync.wait_synced(120)

    @property
    def place(self) -> str:
        """The source's end."""
        file, offset = end_of(self.upstream)
        return f"{file}:{offset}"

    def sums(self) -> dict[str, Checksum | None]:
        """The checksums of the target's tables, by its own computation."""
        return {name: self._sum(TableName(self.there, name)) for (name,) in self._names()}

    def rows(self) -> dict[str, list[str]]:
        """All rows of the target's tables, as a client reads them."""
        found = {}
        for (name,) in self._names():
            found[name] = sorted(map(repr, self.target.query(f"SELECT * FROM {TableName(self.there, name).sql}")))
        return found

    def _names(self) -> tuple[tuple[str], ...]:
        return self.target.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1", (self.there,)
        )

    def _sum(self, name: TableName) -> Checksum | None:
        types = self.target.flavor == "mysql"
        with self.target.connect() as session, session.cursor() as cursor:
            found = structure.read(session, self.target.flavor, name, lambda other: other)
            sides = ([Side(column, name, self.target.flavor)] for column in found.columns)
            text = row_text([part for side in sides for part in parts(side, json_types=types)[0]])
            assert text is not None
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(checksum_query(text, name.sql))
            return Checksum.answered(cursor.fetchall()[0])

    def take_back(self, begin: str, end: str = "", *tables: str) -> tuple[FlashbackReport, bytes]:
        """The report, and the statements."""
        self.written += 1
        unit = self.flashback(FlashbackRequest(begin, end, tables, str(self.directory / f"sql{self.written}")))
        unit.run(threading.Event())
        assert unit.status()["over"]
        assert not (self.directory / "scratch").exists()
        (report,) = unit.reports
        return report, Path(report.file).read_bytes() if report.file else b""

    def flashback(
        self, request: FlashbackRequest, place: Callable[[SubtaskConfig, str], Until] = place_of_text
    ) -> FlashbackUnit:
        """One run, not begun yet."""
        return FlashbackUnit((RelayedSubtask(self.subtask, self.relay),), request, place, self.directory / "scratch")

    def execute(self, statements: bytes) -> None:
        """As a client does it: in one session, one by one."""
        connection = self.target.connect(autocommit=True)
        try:
            for statement in statements.split(b";\n"):
                if statement.strip():
                    connection.query(statement)
        finally:
            connection.close()
