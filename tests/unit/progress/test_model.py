"""The progress protocol holds in every reachable state of the small model, and the model sees each missing
safeguard."""

from __future__ import annotations

import pytest

from tests.testbed.progress_model import (
    ATOMIC,
    ATOMIC_SAFEGUARDS,
    DDL_SAFEGUARDS,
    EITHER,
    SAFEGUARDS,
    Model,
    Safeguard,
    without,
)
from tests.testbed.progress_model_state import DDL_HISTORY, HISTORY, Action, Way


@pytest.mark.parametrize(
    ("transactions", "crashes", "at_least"),
    [
        (3, 1, 10_000),
        pytest.param(4, 1, 100_000, marks=pytest.mark.chaos),
        pytest.param(3, 2, 100_000, marks=pytest.mark.chaos),
    ],
)
def test_no_order_of_steps_and_crashes_loses_or_doubles_a_row(transactions: int, crashes: int, at_least: int) -> None:
    states, violation = Model(history=HISTORY[:transactions], crashes=crashes).explore()
    assert violation is None
    assert states > at_least, "the model became too small to mean anything"


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_without_a_safeguard_some_order_goes_wrong(safeguard: Safeguard) -> None:
    _, violation = without(Model(history=HISTORY[:3], crashes=2), safeguard).explore()
    assert violation is not None


@pytest.mark.parametrize(
    ("ways", "transactions", "crashes", "workers", "at_least"),
    [
        (ATOMIC, 4, 2, 2, 5_000),
        (EITHER, 4, 1, 1, 30_000),
        pytest.param(ATOMIC, 4, 3, 2, 10_000, marks=pytest.mark.chaos),
        pytest.param(EITHER, 3, 2, 2, 500_000, marks=pytest.mark.chaos),
    ],
)
def test_whole_transactions_stay_whole_and_runs_may_change_between_both_ways(
    ways: tuple[Way, ...], transactions: int, crashes: int, workers: int, at_least: int
) -> None:
    model = Model(history=HISTORY[:transactions], crashes=crashes, workers=workers, ways=ways)
    states, violation = model.explore()
    assert violation is None
    assert states > at_least, "the model became too small to mean anything"


@pytest.mark.parametrize(("safeguard", "ways"), ATOMIC_SAFEGUARDS)
def test_without_a_safeguard_of_whole_transactions_some_order_goes_wrong(
    safeguard: Safeguard, ways: tuple[Way, ...]
) -> None:
    _, violation = without(Model(history=HISTORY[:3], workers=1, ways=ways), safeguard).explore()
    assert violation is not None


@pytest.mark.parametrize("action", ["", "skip", "replace", "inject"])
def test_a_ddl_event_means_what_a_person_was_told_it_means_whatever_crashes(action: Action) -> None:
    states, violation = Model(history=DDL_HISTORY, crashes=3, action=action).explore()
    assert violation is None
    assert states > 3_000, "the model became too small to mean anything"


@pytest.mark.parametrize(("safeguard", "action"), DDL_SAFEGUARDS)
def test_without_a_safeguard_of_ddl_and_operators_some_order_goes_wrong(safeguard: Safeguard, action: Action) -> None:
    model = Model(history=DDL_HISTORY, workers=1, action=action)
    _, violation = without(model, safeguard).explore()
    assert violation is not None
