"""Whether a source file's server is what the file says, and can be followed by tasks to come.

Which tasks will come is not known. A full load alone needs no REPLICATION SLAVE and no rows in the binlog, so what a
task that follows the source would lack is a warning. A relay needs all of it: with `enable-relay: true` it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.config import SourceConfig
from dm.errors import DMError
from dm.mysql.dialect.pair import same_family
from dm.task.precheck import access, binlog
from dm.task.precheck.context import Answers, CheckResult, Server, open_server

_TO_BE_FOLLOWED: Final = (
    ("binlog_enable", binlog.enabled),
    ("binlog_format", binlog.row_format),
    ("replication_privilege", access.replication),
)


@dataclass(frozen=True, slots=True)
class _CheckedSource:
    """The server of a source file."""

    source: Server


def verify_source(config: SourceConfig) -> list[str]:
    """Ask the server whether the source file can be right; gives what a task would fail by. Raises DMError."""
    with open_server(config.endpoint, "upstream") as server:
        facts = server.facts
        if config.flavor and not same_family(config.flavor, facts.flavor):
            raise DMError("source-flavor", source=config.source_id, said=config.flavor, found=facts.flavor)
        if config.enable_gtid and not facts.gtid_mode:
            raise DMError("gtid-mode-off", source=config.source_id, mode="not ON")
        lacking = _lacking(server)
    if config.enable_relay and lacking:
        findings, fixes = "; ".join(one.message for one in lacking), "; ".join(one.instruction for one in lacking)
        raise DMError("source-relay-impossible", source=config.source_id, findings=findings, fixes=fixes)
    where = f"source {config.source_id} ({config.endpoint.address})"
    return [
        f"{where}: {one.message}; no task can follow it until this is put right: {one.instruction}" for one in lacking
    ]


def _lacking(server: Server) -> list[CheckResult]:
    return [
        result
        for item, check in _TO_BE_FOLLOWED
        for result in check(_CheckedSource(server), Answers(item, server.role))
        if result.state == "failure"
    ]
