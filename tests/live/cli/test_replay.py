"""`dmctl replay` as docs/operations.md has it: a paused task, its backlog, and the task again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.cli.shop import PASSWORD, alike, shop_servers, shown, synced_shop
from tests.live.relay.relaying import end_of
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(300)]

BACKLOG = (
    *(f"UPDATE shop.items SET name = '{number}' WHERE id = 1" for number in range(20)),
    "INSERT INTO shop.items VALUES (3, 'jug')",
    "DELETE FROM shop.items WHERE id = 2",
    "INSERT INTO shop.notes VALUES ('later')",
)


def test_a_paused_task_is_replayed_and_resumed(server: ServerFactory, tmp_path: Path) -> None:
    source, target = shop_servers(server, "mariadb", tmp_path, relay=True)
    with synced_shop(tmp_path, source) as daemon:
        refused = daemon.said("replay", "shop-all")
        assert refused.status == 1
        assert "Error 44050" in refused.err
        daemon.must("pause-task", "shop-all")
        source.execute(*BACKLOG)
        file, offset = end_of(source)
        (directory,) = (tmp_path / "home" / "relay" / "mysql-01").glob("*.000001")
        wait_until(lambda: (directory / file).stat().st_size >= offset, "the relay has everything")
        said = daemon.must("replay", "shop-all")
        assert alike(said.out) == alike(shown("A backlog", "dmctl replay shop-all"))
        assert target.query("SELECT * FROM shop.items ORDER BY id") == ((1, "19"), (3, "jug"))
        status = daemon.status("shop-all")["mysql-01"]
        assert (status["replay"]["over"], status["replay"]["error"]) == (True, None)
        assert "replay: done" in daemon.must("query-status", "shop-all").out
        assert PASSWORD not in str(said) + str(status)
        daemon.must("resume-task", "shop-all")
        daemon.must("wait", "shop-all", "--synced", "--timeout", "120")
        assert target.query("SELECT note FROM shop.notes ORDER BY note") == (("first",), ("later",))
