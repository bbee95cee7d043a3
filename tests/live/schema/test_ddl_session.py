"""DDL that means what its session makes of it, and what the long corpus found, along the syncer's own way.

The statements are in corpus_sql/sessions.sql. They run in both flavours, but for the few that one of them refuses.
"""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.schema.corpus import sessions
from tests.live.schema.follower import follower

pytestmark = pytest.mark.live

_SCHEMA = "ddl_sessions"


@pytest.mark.ci_flavor("mysql")
def test_every_statement_is_exact(upstream: ThrowawayServer, target: ThrowawayServer) -> None:
    exact = 0
    wrong, refused = [], []
    with follower(upstream, target) as pair:
        for script in sessions():
            pair.begin(_SCHEMA)
            for statement in script:
                outcome = pair.run(statement.encode())
                exact += outcome.verdict == "exact"
                if outcome.verdict == "refused":
                    refused.append(f"{statement}: {outcome.why}")
                if outcome.verdict in ("paused", "silently different"):
                    wrong.append(f"{statement}\n{outcome}")
            wrong += pair.finish()
    assert not wrong, "\n\n".join(wrong)
    assert len(refused) <= 6, refused
    assert exact > 40
