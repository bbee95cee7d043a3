"""From an older server into the system's: the rows that are there, and those that come meanwhile.

`make test-mysql56` names the older one; without it there is nothing to be seen here.
"""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.syncer.follow.test_older_source import COLUMNS, ROWS
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import follow

pytestmark = [pytest.mark.live, pytest.mark.spark]

STATEMENTS = (
    f"CREATE TABLE t ({COLUMNS})",
    f"INSERT INTO t VALUES {', '.join(ROWS)}",
    "CREATE TABLE keyless (a INT, at TIMESTAMP, x TEXT CHARACTER SET latin1)",
    "INSERT INTO keyless (a, at, x) VALUES (1, '2026-01-02 03:04:05', 'ä'), (1, '2026-01-02 03:04:05', 'ä'),"
    " (NULL, '1970-01-01 00:00:01', NULL)",
    "CREATE TABLE compact (k VARCHAR(20) CHARACTER SET utf8 PRIMARY KEY, v INT DEFAULT 3) ROW_FORMAT=COMPACT",
    "INSERT INTO compact (k) VALUES ('a'), ('ö'), ('\\\\'), ('')",
)


@pytest.mark.parametrize("settings", [{}, {"consistency": "flush"}, {"dump_format": "sql"}, {"dump_files": "none"}])
def test_an_older_server_is_copied_and_followed(
    upstream: ThrowawayServer, newer: ThrowawayServer, full_load: LoadFactory, settings: dict[str, str]
) -> None:
    load = full_load(upstream, newer, *STATEMENTS, rows=2, collation_compatible="strict", **settings)
    load.dump()
    upstream.execute(
        f"USE `{load.schema}`",
        "UPDATE t SET l = 'ß', at = NOW(3), m = NOW(3) WHERE id = 2",
        "DELETE FROM keyless WHERE a = 1 LIMIT 1",
        "INSERT INTO compact VALUES ('neu', 4)",
        "ALTER TABLE compact ADD COLUMN at TIMESTAMP",
        "INSERT INTO compact (k) VALUES ('neuer')",
    )
    load.load()
    follow(load)
