"""`query-status` of a task is an answer as of now."""

from __future__ import annotations

from pathlib import Path

from tests.unit.worker.home import home, until


def test_the_relay_is_asked_as_the_syncer_is(tmp_path: Path) -> None:
    """So an outage of the source that is over is shown by neither. The relay of the script counts what it is asked."""
    with home(tmp_path / "home") as daemon:
        daemon.start()
        daemon.ok("operate-source", "create", daemon.source("one", enable_relay=True))
        daemon.tried("start-task", daemon.task("t"))

        def asked() -> int:
            (answer,) = daemon.ask("tasks/t/status")["sources"]
            return int(answer["sourceStatus"]["relayStatus"].get("recoveryReadBytes", 0))

        until(asked)
        times = [asked() for _ in range(4)]
        assert times == sorted(set(times)), "each time anew"
