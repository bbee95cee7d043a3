"""The DDL of MariaDB's own suite on both servers: what is exact at the target, what pauses, and nothing in between.

DM_DDL_SHARE is the share of the scripts that are run (all of them take hours), DM_DDL_SEED says which.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import Option, ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.unit import JSON
from tests.live.schema.follower import follower
from tests.live.schema.mysqltest import statements_of
from tests.live.schema.suite import replayed, scripts
from tests.testbed.figures import record
from tests.testbed.park import ServerPark
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(6 * 3600)]

SHARE = float(os.environ.get("DM_DDL_SHARE", "0.05"))
SEED = int(os.environ.get("DM_DDL_SEED", "20261121"))
_TIDB_SHARE = 0.2  # of the share: each statement is a job that TiDB stores
# Nothing here outlives a crash.
_UNSAFE: dict[str, Option] = {"innodb_flush_method": "nosync", "innodb_doublewrite": False}


def test_what_a_server_accepts_is_exact_or_pauses(park: ServerPark, flavor: Flavor) -> None:
    source, target = (park.own(flavor, gtid=True, options=_UNSAFE).start() for _ in range(2))
    figures = _figures(source, target, SHARE)
    for one in (source, target):
        one.destroy()
    record(f"ddl.suite.{flavor}", figures)
    wrong = figures["wrong"]
    assert not wrong, wrong
    replicable = int(str(figures["accepted"]))
    assert int(str(figures["exact"])) >= 0.95 * replicable > 500 * SHARE, figures


@pytest.mark.tidb
def test_what_a_tidb_does_not_do_pauses(park: ServerPark, tidb: TidbServer, flavor: Flavor) -> None:
    """TiDB refuses far more; what it takes is what the source has."""
    source = park.own(flavor, gtid=True, options=_UNSAFE).start()
    figures = _figures(source, tidb, SHARE * _TIDB_SHARE)
    source.destroy()
    record(f"ddl.suite.{flavor}.tidb", figures)
    wrong = figures["wrong"]
    assert not wrong, wrong
    assert int(str(figures["exact"])) >= 0.5 * int(str(figures["accepted"])) > 0, figures


def _figures(source: ThrowawayServer, target: PrivateServer, share: float) -> dict[str, JSON]:
    chosen = [path for path in scripts() if random.Random(f"{SEED} {path.name}").random() < share]
    print(f"DM_DDL_SEED={SEED} DM_DDL_SHARE={share}: {len(chosen)} scripts of {len(scripts())}")
    verdicts: Counter[str] = Counter()
    paused: Counter[str] = Counter()
    wrong: list[str] = []
    with follower(source, target) as pair:
        for path in chosen:
            pair.begin()
            for statement in replayed(statements_of(path)):
                outcome = pair.run(statement)
                verdicts[outcome.verdict] += 1
                if outcome.verdict == "paused":
                    paused[f"{outcome.why}: {outcome.kind}"] += 1
                elif outcome.verdict == "silently different":
                    wrong.append(f"{path.name}: {statement.decode('latin-1')}\n{outcome.why}: {outcome.detail}")
            wrong += [f"{path.name}, in the end: {left}" for left in pair.finish()]
        indexes = pair.plain_indexes_differ
    replicable = verdicts["exact"] + verdicts["paused"] + verdicts["silently different"]
    return {
        "seed": SEED,
        "share": share,
        "scripts": len(chosen),
        "accepted": replicable,
        "exact": verdicts["exact"],
        "paused": verdicts["paused"],
        "silently different": len(wrong),
        "refused by the source": verdicts["refused"],
        "tracked plain indexes differ": indexes,
        "paused by class": dict(paused.most_common()),
        "wrong": "\n\n".join(wrong[:20]),
    }
