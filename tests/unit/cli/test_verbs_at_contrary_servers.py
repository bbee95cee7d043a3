"""No verb is forgotten where all verbs are tried at servers with contrary global variables."""

from __future__ import annotations

from dm.verbs.every import VERBS
from tests.testbed.contrary import FOLLOWING, MOVING, WITHOUT_SERVERS


def test_each_verb_is_tried_or_asks_no_server() -> None:
    placed = [*FOLLOWING, *MOVING, *WITHOUT_SERVERS]
    assert sorted(placed) == sorted(verb.name for verb in VERBS if verb.name), "tests/testbed/contrary.py has the lists"
