"""A source has one owner, and its rows come once, in every reachable state of the model of several hosts."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from tests.testbed.ownership_model import FAULTS, SAFEGUARDS, Fault, OwnershipModel, Safeguard

_CHAOS = pytest.mark.chaos


@pytest.mark.parametrize(
    ("faults", "members", "apart", "at_least"),
    [
        ((), 2, False, 10),
        ((), 2, True, 10),
        (("dies",), 2, False, 100),
        (("freezes",), 2, False, 100),
        (("cut from etcd",), 2, False, 100),
        (("cut from the target",), 2, False, 100),
        (("etcd is lost",), 2, False, 100),
        (("dies",), 3, False, 1_000),
        (("freezes", "cut from the target"), 2, False, 10_000),
        *(pytest.param(pair, 2, False, 100, marks=_CHAOS) for pair in combinations_with_replacement(FAULTS, 2)),
        *(pytest.param((fault,), 3, False, 100, marks=_CHAOS) for fault in FAULTS),
        pytest.param(("dies", "freezes", "cut from etcd"), 2, False, 100_000, marks=_CHAOS),
    ],
)
def test_no_order_of_steps_and_faults_doubles_a_row_or_leaves_a_source_alone(
    faults: tuple[Fault, ...], members: int, apart: bool, at_least: int
) -> None:
    states, violation = OwnershipModel(faults, members, apart).explore()
    assert violation is None, violation
    assert states > at_least, "the model became too small to mean anything"


@pytest.mark.parametrize(("safeguard", "faults", "apart"), SAFEGUARDS)
def test_without_a_safeguard_some_order_goes_wrong(
    safeguard: Safeguard, faults: tuple[Fault, ...], apart: bool
) -> None:
    assert OwnershipModel(faults, apart=apart).explore()[1] is None
    _, violation = OwnershipModel(faults, apart=apart, without=safeguard).explore()
    assert violation is not None
