"""The DDL of MariaDB's own suite on both servers: what is exact at the target, what pauses, and nothing in between.

DM_DDL_SHARE is the share of the scripts that are run (all of them take hours), DM_DDL_SEED says which.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from dm.demo.servers import Option
from dm.flavor import Flavor
from dm.unit import JSON
from tests.live.schema.follower import follower
from tests.live.schema.mysqltest import statements_of
from tests.live.schema.suite import replayed, scripts
from tests.testbed.figures import record
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(6 * 3600)]

SHARE = float(os.environ.get("DM_DDL_SHARE", "0.05"))
SEED = int(os.environ.get("DM_DDL_SEED", "20261121"))
# Nothing here outlives a crash.
_UNSAFE: dict[str, Option] = {"innodb_flush_method": "nosync", "innodb_doublewrite": False}


def test_what_a_server_accepts_is_exact_or_pauses(park: ServerPark, flavor: Flavor) -> None:
    chosen = [path for path in scripts() if random.Random(f"{SEED} {path.name}").random() < SHARE]
    print(f"DM_DDL_SEED={SEED} DM_DDL_SHARE={SHARE}: {len(chosen)} scripts of {len(scripts())}")
    verdicts: Counter[str] = Counter()
    paused: Counter[str] = Counter()
    wrong: list[str] = []
    source, target = (park.own(flavor, gtid=True, options=_UNSAFE).start() for _ in range(2))
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
    for one in (source, target):
        one.destroy()
    replicable = verdicts["exact"] + verdicts["paused"] + verdicts["silently different"]
    figures: dict[str, JSON] = {
        "seed": SEED,
        "share": SHARE,
        "scripts": len(chosen),
        "accepted": replicable,
        "exact": verdicts["exact"],
        "paused": verdicts["paused"],
        "silently different": len(wrong),
        "refused by the source": verdicts["refused"],
        "tracked plain indexes differ": indexes,
        "paused by class": dict(paused.most_common()),
    }
    record(f"ddl.suite.{flavor}", figures)
    assert not wrong, "\n\n".join(wrong[:20])
    assert verdicts["exact"] >= 0.95 * replicable > 500 * SHARE, figures
