"""The order of several sources holds in every reachable state of its model, which sees each missing safeguard."""

from __future__ import annotations

import pytest

from tests.testbed.order_model import SAFEGUARDS, OrderModel, Safeguard, Scene

_CHAOS = pytest.mark.chaos


@pytest.mark.parametrize(
    ("scene", "crashes", "at_least"),
    [
        ({"a": (1, 3), "b": (2,)}, 1, 10_000),
        ({"a": (1,), "b": (1,)}, 1, 500),
        pytest.param({"a": (1, 1), "b": (1, 1)}, 1, 20_000, marks=_CHAOS),
        pytest.param({"a": (1, 4), "b": (2, 3)}, 1, 140_000, marks=_CHAOS),
        pytest.param({"a": (1, 3), "b": (2,)}, 2, 100_000, marks=_CHAOS),
        pytest.param({"a": (5, 1), "b": (3,)}, 1, 15_000, marks=_CHAOS),
    ],
)
def test_no_order_of_steps_and_crashes_turns_the_order_around(scene: Scene, crashes: int, at_least: int) -> None:
    states, violation = OrderModel(scene, crashes).explore()
    assert violation is None
    assert states > at_least, "the model became too small to mean anything"


@pytest.mark.parametrize(("safeguard", "scene"), SAFEGUARDS)
def test_without_a_safeguard_some_order_goes_wrong(safeguard: Safeguard, scene: Scene) -> None:
    _, violation = OrderModel(scene, without=safeguard).explore()
    assert violation is not None
