"""Shard merge in optimistic mode holds in every reachable state of its small model, and each safeguard is needed."""

from __future__ import annotations

import pytest

from tests.testbed.optimistic_model import SAFEGUARDS, OptimisticModel, Safeguard, Scene

_CHAOS = pytest.mark.chaos


@pytest.mark.parametrize(
    ("scene", "crashes", "at_least"),
    [
        (("+a a -a", "+c c -c c"), 1, 500),
        (("+a a -a +a a", "c +c c -c"), 0, 50),
        (("+a a +b b", "c +c c"), 1, 500),
        pytest.param(("+a a -a +a a", "c +c c -c +c c"), 1, 1_000, marks=_CHAOS),
        pytest.param(("+a +b a -a b -b", "c +c c -c c"), 1, 1_000, marks=_CHAOS),
        pytest.param(("+a a -a +a a", "+c c -c"), 2, 1_000, marks=_CHAOS),
    ],
)
def test_no_order_of_steps_and_crashes_loses_a_value(scene: Scene, crashes: int, at_least: int) -> None:
    states, violation = OptimisticModel.of(scene, crashes=crashes).explore()
    assert violation is None
    assert states > at_least, "the model became too small to mean anything"


@pytest.mark.parametrize(("safeguard", "scene"), SAFEGUARDS)
def test_without_a_safeguard_some_order_goes_wrong(safeguard: Safeguard, scene: Scene) -> None:
    crashes = 0 if safeguard == "kept is forgotten" else 1
    _, violation = OptimisticModel.of(scene, crashes=crashes, without=safeguard).explore()
    assert violation is not None
