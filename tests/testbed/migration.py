"""A task between two servers, as its files would say it, for what checks find out about it."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field
from pathlib import Path

from dm.config import SourceConfig, SubtaskConfig, TaskConfig, read_source, read_task
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.task.precheck.context import CheckResult
from dm.task.precheck.run import prechecks


@dataclass
class Migration:
    """A task between two servers, as its files would say it."""

    upstream: ThrowawayServer
    target: PrivateServer
    schema: str
    source_user: str = "root"
    target_user: str = "root"
    mode: str = "all"
    source_lines: str = ""
    task_lines: str = ""
    lists: str = ""
    meta: str = ""
    loader: str = "{}"
    target_session: str = "{}"
    passwords: dict[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()  # more sources of the task, at the same server; only "one" is checked
    stop: threading.Event = field(default_factory=threading.Event)

    def check(
        self, *, anew: bool = False, at_time: bool = False, work: Path | None = None
    ) -> dict[str, list[CheckResult]]:
        found: dict[str, list[CheckResult]] = {}
        for result in prechecks(self._task(), ["one"], anew=anew, at_time=at_time, work=work):
            found.setdefault(result.item, []).append(result)
        return found

    def subtask(self) -> SubtaskConfig:
        """What the task does with the source."""
        return self._task().subtask("one")

    def _task(self) -> TaskConfig:
        text = (
            f"name: t\ntask-mode: {self.mode}\n{self.task_lines}"
            f"target-database: {{host: 127.0.0.1, port: {self.target.port}, user: {self.target_user},"
            f" password: '{self._password(self.target, self.target_user)}', session: {self.target_session}}}\n"
            f"mysql-instances:\n  - source-id: one\n    block-allow-list: b\n    loader: {self.loader}\n{self.meta}"
            + "".join(f"  - {{source-id: {other}, block-allow-list: b}}\n" for other in self.others)
            + f"block-allow-list: {{b: {self.lists or '{do-dbs: [' + self.schema + ']}'}}}\n"
        )
        return read_task(text, {name: self._source(name) for name in ("one", *self.others)})

    def only(self, item: str) -> CheckResult:
        (result,) = self.check()[item]
        return result

    def tables(self) -> list[TableName]:
        """The tables of the upstream's schema."""
        return [TableName(self.schema, str(row[0])) for row in self.upstream.query(f"SHOW TABLES FROM {self.schema}")]

    def _source(self, name: str) -> SourceConfig:
        password = self._password(self.upstream, self.source_user)
        return read_source(
            f"source-id: {name}\n{self.source_lines}from: {{host: 127.0.0.1, port: {self.upstream.port},"
            f" user: {self.source_user}, password: '{password}'}}\n"
        )

    def _password(self, server: PrivateServer, user: str) -> str:
        return self.passwords.get(user, server.password)

    def user(self, server: PrivateServer, *grants: str) -> str:
        name = f"u{secrets.token_hex(4)}"
        self.passwords[name] = secrets.token_hex(8)
        server.create_user(name, self.passwords[name], *(grant.replace("%", "%%") for grant in grants))
        return name


def put_right(server: PrivateServer, instruction: str) -> None:
    """Do what a finding says."""
    server.execute(*(statement.strip() for statement in instruction.split(";")))
