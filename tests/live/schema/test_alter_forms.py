"""Each form of ALTER TABLE that a server's grammar has, along the syncer's own way (corpus_sql/alter.sql)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.live.schema.follower import follower

pytestmark = pytest.mark.live

_SCHEMA: Final = "alter_forms"
_FORMS: Final = (Path(__file__).parent / "corpus_sql" / "alter.sql").read_text().splitlines()
_PARENT: Final = "CREATE TABLE p (id INT PRIMARY KEY)"
_TABLES: Final = {
    "t": "CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 1, b VARCHAR(9), d INT, g POINT NOT NULL, KEY ka (a),"
    " CONSTRAINT f FOREIGN KEY (d) REFERENCES p (id), CONSTRAINT c CHECK (b <> 'x'))",
    "n": "CREATE TABLE n (id INT PRIMARY KEY, a INT)",
    "r": "CREATE TABLE r (id INT PRIMARY KEY) PARTITION BY RANGE (id)"
    " (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))",
    "h": "CREATE TABLE h (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
}


def forms(whose: str) -> list[str]:
    """The statements of a server, or of both."""
    marked = (line.split(" ", 1) for line in _FORMS if not line.startswith("--"))
    return [text.format(s=_SCHEMA) for mark, text in marked if mark == whose]


@pytest.mark.parametrize("own", [True, pytest.param(False, marks=pytest.mark.chaos)], ids=["own", "both"])
def test_every_form_is_exact(upstream: ThrowawayServer, target: ThrowawayServer, flavor: Flavor, own: bool) -> None:
    wrong = []
    with follower(upstream, target) as pair:
        pair.begin(_SCHEMA)
        for table in (_PARENT, "CREATE TABLE q (id INT PRIMARY KEY)"):
            assert pair.run(table.encode()).verdict == "exact"
        for statement in forms(flavor if own else "both"):
            about = re.search(rf"TABLE (?:IF EXISTS )?(?:{_SCHEMA}\.)?(\w)\b", statement)
            assert about is not None
            assert pair.run(_TABLES[about[1]].encode()).verdict == "exact"
            outcome = pair.run(statement.encode())
            if outcome.verdict != "exact":
                wrong.append(f"{statement}\n{outcome}")
            pair.run(f"DROP TABLE IF EXISTS u, {about[1]}".encode())
    assert not wrong, "\n\n".join(wrong)
