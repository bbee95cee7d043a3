"""What an older dm has left when its machine died is gone on from by today's: no row is lost, none comes twice.

The states are of the first commit of API, TLS and tokens, before formats had numbers (tests/data/states/README.md).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dm.mysql.dialect import Flavor
from dm.stored_format import PROGRESS, REGISTRY
from tests.testbed.daemon import Daemon
from tests.testbed.stored_states import Restored, restored

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def _goes_on(state: Restored) -> None:
    expected = state.rows(state.source)
    assert state.rows(state.target) != expected
    with Daemon(state.directory) as daemon:
        daemon.must("wait", "shop", "--synced", "--timeout", "240")
        assert state.rows(state.target) == expected
        daemon.must("diff", "shop")
        daemon.wait(
            "shop",
            lambda status: status["one"]["validation"].get("errorRowsStatus") == "new/ignored/resolved: 0/0/0",
            "no row is found wrong",
        )
        state.source.execute("INSERT INTO shop.orders (id, note) VALUES (-2, 'today')")
        daemon.must("wait", "shop", "--synced", "--timeout", "120")
        assert state.rows(state.target) == state.rows(state.source)
    assert state.target.query("SELECT MAX(format) FROM dm_meta.shop_stored_format") == ((PROGRESS.number,),)
    with closing(sqlite3.connect(state.directory / "home" / "registry.sqlite")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (REGISTRY.number,)


@pytest.mark.ci_flavor("mysql")
def test_a_stream_goes_on(flavor: Flavor, tmp_path: Path) -> None:
    with restored(flavor, "follow", tmp_path) as state:
        _goes_on(state)


@pytest.mark.chaos
@pytest.mark.spark
def test_a_load_goes_on(flavor: Flavor, tmp_path: Path) -> None:
    with restored(flavor, "load", tmp_path) as state:
        _goes_on(state)
