"""Conflicts that one side wins: all orders of writes, tasks and crashes end with equal rows and an exact record."""

from __future__ import annotations

import pytest

from tests.testbed.conflicts_model import AGAIN, CRASH, MOVES, ONE_ROW, SAFEGUARDS, ConflictsModel, Safeguard, Scene
from tests.testbed.exploration import explore

LIMIT = 3_000_000


@pytest.mark.parametrize("scene", [ONE_ROW, AGAIN, CRASH, MOVES], ids=["one row", "again", "crash", "moves"])
def test_both_sides_end_equal_and_every_conflict_is_recorded(scene: Scene) -> None:
    model = ConflictsModel(scene)
    states, found = explore(model.first(), model.steps, model.judge, LIMIT)
    assert found is None, found
    assert states > 400


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_each_safeguard_is_needed(safeguard: Safeguard) -> None:
    model = ConflictsModel(SAFEGUARDS[safeguard], safeguard)
    _, found = explore(model.first(), model.steps, model.judge, LIMIT)
    assert found is not None
