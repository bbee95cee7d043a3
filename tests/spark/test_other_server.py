"""An address that leads to several servers: what a dump puts together is of one."""

from __future__ import annotations

import secrets
from types import ModuleType

import pytest
from pydantic import SecretStr

from dm.demo.servers import ThrowawayServer
from dm.dumper import lock_free, one_moment
from dm.errors import DMError
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import endpoint
from tests.testbed.proxy import FaultProxy

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql")]

KEYED, KEYLESS = "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE t (id INT)"


@pytest.mark.parametrize(
    ("table", "where", "step", "settings"),
    [
        (KEYED, lock_free, "structures_at_a_point", {}),  # the point where the syncer begins
        (KEYED, lock_free, "save_plan", {}),  # the bounds of chunks
        (KEYLESS, lock_free, "save_plan", {}),  # rows
        (KEYLESS, one_moment, "upper_bound", {"mode": "full", "consistency": "flush"}),  # rows of a snapshot
    ],
    ids=["point", "bounds", "rows", "snapshot"],
)
@pytest.mark.ci_sample(2)
def test_a_session_that_reaches_another_server_ends_the_run(
    table: str,
    where: ModuleType,
    step: str,
    settings: dict[str, str],
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    full_load: LoadFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other one is a replica that lags: it has the table and not all of its rows."""
    (source, other), user, password = upstreams, f"u{secrets.token_hex(4)}", secrets.token_hex(8)
    load = full_load(source, target, table, "INSERT INTO t VALUES (1), (2)", **settings)
    other.execute(f"CREATE DATABASE `{load.schema}`", f"USE `{load.schema}`", table, "INSERT INTO t VALUES (1)")
    for server in upstreams:
        server.create_user(user, password, "ALL ON *.*")
    original = getattr(where, step)
    try:
        with FaultProxy(source.host, source.port) as way, monkeypatch.context() as patch:
            load.settings["source"] = endpoint(source).model_copy(
                update={"host": "127.0.0.1", "port": way.port, "user": user, "password": SecretStr(password)}
            )

            def led_elsewhere(*given: object, **named: object) -> object:
                way.lead_to(other.host, other.port, cut=False)
                return original(*given, **named)

            patch.setattr(where, step, led_elsewhere)
            with pytest.raises(DMError) as caught:
                load.dump()
            assert caught.value.name == "dump-source-switched"
            assert caught.value.retryable
            patch.undo()
            way.lead_to(source.host, source.port, cut=False)
            load.dump()
    finally:
        other.execute(f"DROP DATABASE `{load.schema}`")
    load.load()
    assert load.report().identical
