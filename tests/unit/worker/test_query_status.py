"""`query-status` of a task is an answer as of now."""

from __future__ import annotations

from pathlib import Path

from dm.verbs.status import QueryStatus
from tests.unit.worker.home import home, until


def test_the_relay_is_asked_as_the_syncer_is(tmp_path: Path) -> None:
    """So an outage of the source that is over is shown by neither. The relay of the script counts what it is asked."""
    with home(tmp_path / "home") as daemon:
        daemon.start()
        daemon.ok("operate-source", "create", daemon.source("one", enable_relay=True))
        daemon.tried("start-task", daemon.task("t"))

        def asked() -> int:
            (answer,) = daemon.ask(QueryStatus(task="t"))["sources"]
            return int(answer["sourceStatus"]["relayStatus"].get("recoveryReadBytes", 0))

        until(asked)
        times = [asked() for _ in range(4)]
        assert times == sorted(set(times)), "each time anew"


def test_an_entry_of_a_list_is_named_while_no_source_of_the_task_has_it(tmp_path: Path) -> None:
    def lacking(*entries: str) -> dict[str, object]:
        return {"says": {"listEntriesWithoutTables": [f"do-dbs[{number}]: s{number}" for number in entries]}}

    with home(tmp_path / "home") as daemon:
        daemon.start()
        for source in ("one", "two", "three"):
            daemon.ok("operate-source", "create", daemon.source(source))
        file = daemon.directory / daemon.task("t", sources=("one", "two", "three"))
        text = file.read_text().replace("  - source-id: one\n", "  - source-id: one\n    block-allow-list: shared\n")
        text = text.replace("  - source-id: two\n", "  - source-id: two\n    block-allow-list: shared\n")
        file.write_text(f"{text}block-allow-list: {{shared: {{do-dbs: [s0, s1, s2]}}}}\n")
        daemon.script("t", **{"Sync one": lacking("0", "2"), "Sync two": lacking("1", "2"), "Sync three": lacking("0")})
        daemon.tried("start-task", file.name)

        def named() -> list[list[str]]:
            answers = daemon.ask(QueryStatus(task="t"))["sources"]
            return [answer["subTaskStatus"][0].get("sync", {}).get("listEntriesWithoutTables") for answer in answers]

        until(lambda: None not in named())
        assert sorted(named()) == [["do-dbs[0]: s0"], ["do-dbs[2]: s2"], ["do-dbs[2]: s2"]]
