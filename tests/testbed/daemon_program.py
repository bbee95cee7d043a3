"""A daemon for the fork server, with all that it and its hosts import; the hosts are forked, too."""

from __future__ import annotations

from importlib import import_module

from dm.task import host
from dm.task.factories import Factories
from dm.worker import daemon
from tests.testbed.host_forks import fork_hosts

# Those that are imported only where they are needed.
for name in (
    "dm.tools.diff.unit", "dm.dumper.unit", "dm.tools.flashback.unit", "dm.loader.stream", "dm.loader.unit",
    "dm.relay.unit", "dm.spark.session", "dm.syncer.shards.sharded", "dm.task.progress", "dm.task.share_unit",
    "dm.task.binlog_verbs", "dm.task.precheck.run", "dm.task.precheck.source", "dm.task.start_and_end",
    "dm.tools.validator.unit", "py4j.java_gateway", "uvicorn.protocols.http.auto",
):  # fmt: skip
    import_module(name)


def main() -> None:
    """The process."""
    fork_hosts(lambda: host.main(*Factories().parts()))
    daemon.main()
