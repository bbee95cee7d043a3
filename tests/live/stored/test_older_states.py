"""What an older dm has left when its machine died is gone on from by today's: no row is lost, none comes twice.

Most states are of the first commit of API, TLS and tokens, before formats had numbers, and one for each number that
came after (tests/data/states/README.md).
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
    _has_todays_numbers(state)


def _has_todays_numbers(state: Restored) -> None:
    assert state.target.query("SELECT MAX(format) FROM dm_meta.shop_stored_format") == ((PROGRESS.number,),)
    with closing(sqlite3.connect(state.directory / "home" / "registry.sqlite")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (REGISTRY.number,)


@pytest.mark.ci_flavor("mysql")
def test_a_stream_goes_on(flavor: Flavor, tmp_path: Path) -> None:
    with restored(flavor, "follow", tmp_path) as state:
        _goes_on(state)


@pytest.mark.chaos
@pytest.mark.parametrize("number", range(1, PROGRESS.number))
def test_a_stream_with_an_older_number_goes_on(flavor: Flavor, number: int, tmp_path: Path) -> None:
    with restored(flavor, "follow", tmp_path, number) as state:
        assert state.target.query("SELECT MAX(format) FROM dm_meta.shop_stored_format") == ((number,),)
        _goes_on(state)


@pytest.mark.chaos
@pytest.mark.spark
def test_a_load_goes_on(flavor: Flavor, tmp_path: Path) -> None:
    with restored(flavor, "load", tmp_path) as state:
        _goes_on(state)


@pytest.mark.ci_flavor("mariadb")
def test_shards_that_wait_go_on(flavor: Flavor, tmp_path: Path) -> None:
    with restored(flavor, "shards", tmp_path) as state:
        ((held,),) = state.target.query("SELECT COUNT(*) FROM shop.whole WHERE id BETWEEN 100 AND 199")
        assert held == 0, "rows after the first shard's statement wait for the second's"
        with Daemon(state.directory) as daemon:
            daemon.must("wait", "shop", "--synced", "--timeout", "240")
            parts = state.source.query("SELECT * FROM shop.part1 UNION ALL SELECT * FROM shop.part2")
            assert sorted(state.target.query("SELECT * FROM shop.whole"), key=repr) == sorted(parts, key=repr)
            assert len(parts) == 300
            assert daemon.must("shard-ddl-lock", "list", "shop").out.strip() == "no DDL lock exists"
        _has_todays_numbers(state)


@pytest.mark.ci_flavor("mariadb")
def test_a_cut_over_is_known_and_ended(flavor: Flavor, tmp_path: Path) -> None:
    with restored(flavor, "cut-over", tmp_path) as state, Daemon(state.directory) as daemon:
        told = daemon.must("cut-over", "shop", "--status").out
        assert "shop: switched: applications belong to the target now" in told
        state.target.execute("INSERT INTO shop.orders (id, note) VALUES (-3, 'of the target alone')")
        state.source.execute("INSERT INTO shop.orders (id, note) VALUES (-4, 'not to be applied')")
        refused = daemon.dmctl("resume-task", "shop")
        assert refused.status == 1, str(refused)
        assert "cut-over" in str(refused)
        daemon.must("cut-over", "shop", "--complete")
        assert daemon.dmctl("query-status", "shop").status == 1
        assert state.target.query("SELECT id FROM shop.orders WHERE id < 0") == ((-3,),)
        state.target.execute("DELETE FROM shop.orders WHERE id = -3")
        state.source.execute("DELETE FROM shop.orders WHERE id = -4")
        assert state.rows(state.target) == state.rows(state.source)
