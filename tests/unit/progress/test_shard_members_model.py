"""Shards may come, go and be left behind in every order of steps and crashes, and the model sees what is missing."""

from __future__ import annotations

import pytest

from tests.testbed.shard_members_model import (
    BEYOND,
    FIRST,
    GIVEN_UP,
    SAFEGUARDS,
    WAIVED,
    WITH_HELD,
    MembersModel,
    Safeguard,
    Scene,
)

_CHAOS = pytest.mark.chaos


@pytest.mark.parametrize(
    ("scene", "crashes", "at_least"),
    [
        (WITH_HELD, 1, 15_000),
        (BEYOND, 1, 7_000),
        (FIRST, 1, 15_000),
        (Scene("b~p b b=q b a=p a=q", "c c=p c=q"), 1, 4_500),
        (Scene("a=p b:p b a", "c c=p"), 1, 2_500),
        (Scene("a=p a a=q", "c c=p c=q", (False,)), 1, 20_000),
        (Scene("a=p a b b=p", "c=p c", (True,)), 1, 13_000),
        (Scene("b> b=p b a=p a", "c=p c"), 1, 3_000),
        (Scene("a=p b b/ a a> a", "c=p c"), 1, 2_500),
        (GIVEN_UP, 1, 1_000),
        (WAIVED, 1, 1_000),
        (Scene("a=p b:p b", "c c=p c", ("a",)), 1, 1_000),
        pytest.param(WITH_HELD, 2, 30_000, marks=_CHAOS),
        pytest.param(BEYOND, 2, 14_000, marks=_CHAOS),
        pytest.param(FIRST, 2, 30_000, marks=_CHAOS),
        pytest.param(Scene("a=p a b:PQ b b=r b a=q a a=r", "c=p c c=q c=r"), 1, 25_000, marks=_CHAOS),
        pytest.param(Scene("b:P a=p b b=q a=q b> b", "c=p c c=q"), 2, 15_000, marks=_CHAOS),
        pytest.param(Scene("a=p a b=p a=q b=q", "c c=p c=q", (True,)), 1, 90_000, marks=_CHAOS),
    ],
)
def test_no_order_of_steps_and_crashes_leaves_a_shard_behind(scene: Scene, crashes: int, at_least: int) -> None:
    states, violation = MembersModel.of(scene, crashes=crashes).explore()
    assert violation is None
    assert states > at_least, "the model became too small to mean anything"


@pytest.mark.parametrize(("safeguard", "scene"), SAFEGUARDS)
def test_without_a_safeguard_some_order_goes_wrong(safeguard: Safeguard, scene: Scene) -> None:
    _, violation = MembersModel.of(scene, without=safeguard).explore()
    assert violation is not None
