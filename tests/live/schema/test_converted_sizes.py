"""MODIFY and CHANGE beside CONVERT TO CHARACTER SET: the sizes of TEXT and BLOB are those that the server chooses."""

from __future__ import annotations

import itertools
import random

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.schema.follower import follower
from tests.testbed.loop_result import draw_seed

pytestmark = pytest.mark.live

_SCHEMA = "sizes"
OLD = ("VARCHAR(50)", "VARCHAR(300)", "CHAR(5)", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "VARBINARY(50)", "BLOB")
NEW = (
    "TINYTEXT", "TEXT NOT NULL", "MEDIUMTEXT", "LONGTEXT", "TEXT(100)", "TEXT CHARACTER SET utf8mb3 COMMENT '('",
    "VARCHAR(20)", "BLOB",
)  # fmt: skip
CHARSETS = ("utf8mb4", "latin1", "gbk")
SAMPLE = 40


def test_the_size_is_the_servers(upstream: ThrowawayServer, target: ThrowawayServer) -> None:
    cases = list(itertools.product(OLD, NEW, CHARSETS, CHARSETS, ("MODIFY n", "CHANGE n m")))
    wrong, seed = [], draw_seed("sizes")
    with follower(upstream, target) as pair:
        pair.begin(_SCHEMA)
        for old, new, before, after, verb in random.Random(seed).sample(cases, SAMPLE):
            assert (
                pair.run(f"CREATE TABLE t (id INT PRIMARY KEY, n {old}) CHARSET {before}".encode()).verdict == "exact"
            )
            outcome = pair.run(f"ALTER TABLE t {verb} {new}, CONVERT TO CHARACTER SET {after}".encode())
            if outcome.verdict != "exact":
                wrong.append(f"{before} {old} {verb} {new} {after}\n{outcome}")
            pair.run(b"DROP TABLE t")
    assert not wrong, "\n\n".join([f"seed {seed}", *wrong])
