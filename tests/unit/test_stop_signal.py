"""Whoever waits for something else is told of a stop, once, and not any more when it has left."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dm.unit import StopSignal, told

signals = pytest.mark.parametrize("make", [StopSignal, threading.Event])


@signals
def test_who_waits_is_told(make: Callable[[], threading.Event]) -> None:
    stop, calls, called = make(), list[int](), threading.Event()

    def call() -> None:
        calls.append(1)
        called.set()

    with told(stop, call):
        assert not calls
        stop.set()
        assert called.wait(10)
        stop.set()
    assert calls == [1]


@signals
def test_a_stop_before_is_told_too(make: Callable[[], threading.Event]) -> None:
    stop, called = make(), threading.Event()
    stop.set()
    with told(stop, called.set):
        assert called.wait(10)


def test_nobody_is_told_after_leaving() -> None:
    stop, calls = StopSignal(), list[str]()
    with told(stop, lambda: calls.append("outer")):
        with told(stop, lambda: calls.append("inner")):
            pass
        stop.set()
    assert calls == ["outer"]
