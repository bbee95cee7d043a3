"""The protocol of a heal: all states, and what each safeguard is for."""

from __future__ import annotations

import pytest

from tests.testbed.heal_model import ALL, OF_KEYLESS, SAFEGUARDS, HealModel, KeylessModel, OfKeyless, Safeguard

FIRST = (1, 2)  # of the source; the values change places by way of an absent row
SOURCES = [FIRST, *(pytest.param(rows, marks=pytest.mark.chaos) for rows in ALL if rows != FIRST)]


@pytest.mark.parametrize("source", SOURCES, ids=str)
@pytest.mark.parametrize("changes", [2, pytest.param(3, marks=pytest.mark.chaos)])
def test_no_state_is_wrong(source: tuple[int, int], changes: int) -> None:
    states = 0
    for target in ALL:
        number, violation = HealModel(changes=changes).explore(source, target)
        assert violation is None, violation
        states += number
    assert states > 1_000


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_each_safeguard_is_needed(safeguard: Safeguard) -> None:
    found = (HealModel(safeguard).explore(FIRST, target)[1] for target in ALL)
    assert any(violation is not None for violation in found)


def test_no_state_of_a_table_without_a_key_is_wrong() -> None:
    for target in range(3):
        _, violation = KeylessModel().explore(1, target)
        assert violation is None, violation


@pytest.mark.parametrize("safeguard", OF_KEYLESS)
def test_each_safeguard_of_a_table_without_a_key_is_needed(safeguard: OfKeyless) -> None:
    assert any(KeylessModel(safeguard).explore(1, target)[1] is not None for target in range(3))
