"""The protocol of tables that join a running stream: all states, and what each safeguard is for."""

from __future__ import annotations

import pytest

from tests.testbed.joining_model import SAFEGUARDS, JoiningModel, Safeguard


@pytest.mark.parametrize("crashes", [1, pytest.param(2, marks=pytest.mark.chaos)])
def test_no_state_is_wrong(crashes: int) -> None:
    states, violation = JoiningModel(crashes=crashes).explore()
    assert violation is None, violation
    assert states > 1_000


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_each_safeguard_is_needed(safeguard: Safeguard) -> None:
    _, violation = JoiningModel(without=safeguard).explore()
    assert violation is not None
