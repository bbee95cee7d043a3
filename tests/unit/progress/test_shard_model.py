"""Shard merge holds in every reachable state of its small model, and the model sees each missing safeguard."""

from __future__ import annotations

import pytest

from tests.testbed.shard_model import SAFEGUARDS, Safeguard, Scene, ShardModel

_CHAOS = pytest.mark.chaos


@pytest.mark.parametrize(
    ("scene", "crashes", "at_least"),
    [
        (("a A b B u", "C c", False), 1, 10_000),
        (("a A b B a", "C", True), 1, 8_000),
        (("A A B B", "C C", True), 1, 10_000),
        (("A B", "c:1 c", False), 1, 8_000),
        (("A B", "c:0 c C c", False), 1, 10_000),
        pytest.param(("A b:1 b a", "C c", True), 1, 20_000, marks=_CHAOS),
        pytest.param(("A b:1 b A B b", "C c C", False), 1, 140_000, marks=_CHAOS),
        pytest.param(("A a B", "c:1 c", False), 2, 60_000, marks=_CHAOS),
        pytest.param(("A A B a B", "C C", True), 1, 20_000, marks=_CHAOS),
        pytest.param(("a A a b B u b", "c C c", False), 1, 35_000, marks=_CHAOS),
        pytest.param(("A B A B", "c C C c", False), 1, 90_000, marks=_CHAOS),
        pytest.param(("A B b A a b B", "C C", True), 1, 100_000, marks=_CHAOS),
        pytest.param(("A a B u", "C", False), 2, 40_000, marks=_CHAOS),
        pytest.param(("A B", "C", True), 2, 15_000, marks=_CHAOS),
    ],
)
def test_no_order_of_steps_and_crashes_loses_or_doubles_a_row_or_a_ddl(
    scene: Scene, crashes: int, at_least: int
) -> None:
    states, violation = ShardModel.of(scene, crashes=crashes).explore()
    assert violation is None
    assert states > at_least, "the model became too small to mean anything"


@pytest.mark.parametrize(("safeguard", "scene"), SAFEGUARDS)
def test_without_a_safeguard_some_order_goes_wrong(safeguard: Safeguard, scene: Scene) -> None:
    _, violation = ShardModel.of(scene, without=safeguard).explore()
    assert violation is not None
