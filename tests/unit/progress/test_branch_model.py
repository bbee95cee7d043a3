"""The protocol of tables that leave a stream and come back: all states, and what each safeguard is for."""

from __future__ import annotations

import pytest

from tests.testbed.branch_model import SAFEGUARDS, BranchModel, Safeguard


@pytest.mark.parametrize("crashes", [1, pytest.param(2, marks=pytest.mark.chaos)])
def test_no_state_is_wrong(crashes: int) -> None:
    """One table leaves, fails again on its way back, and comes; any process dies at any step."""
    states, violation = BranchModel(crashes=crashes).explore()
    assert violation is None, violation
    assert states > 10_000


@pytest.mark.parametrize("crashes", [0, pytest.param(1, marks=pytest.mark.chaos)])
def test_no_state_of_two_branches_is_wrong(crashes: int) -> None:
    states, violation = BranchModel(holds=1, crashes=crashes, early=0).explore()
    assert violation is None, violation
    assert states > 10_000


@pytest.mark.parametrize(
    ("holds", "crashes", "drops"),
    [(1, 0, 1), *(pytest.param(*each, marks=pytest.mark.chaos) for each in ((2, 1, 1), (1, 2, 1)))],
)
def test_what_a_person_takes_back_holds_again_and_gives_up_does_no_harm(holds: int, crashes: int, drops: int) -> None:
    states, violation = BranchModel(holds=holds, crashes=crashes, drops=drops, early=0).explore()
    assert violation is None, violation
    assert states > 10_000


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_each_safeguard_is_needed(safeguard: Safeguard) -> None:
    two, drops = safeguard == "own id", int(safeguard == "what is given up stays out")
    model = BranchModel(without=safeguard, holds=int(two or bool(drops)), crashes=int(not two), drops=drops)
    _, violation = model.explore()
    assert violation is not None
