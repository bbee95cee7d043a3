"""After a deadlock one lane applies alone: nobody else is inside, and newcomers wait for it."""

from __future__ import annotations

import threading

from dm.syncer.apply.lane import SharedLock


def test_many_hold_it_together() -> None:
    gate = SharedLock()
    with gate.together(), gate.together():
        pass


def test_alone_waits_for_those_inside_and_goes_before_newcomers() -> None:
    gate = SharedLock()
    order: list[str] = []
    wants_alone = threading.Event()

    def alone() -> None:
        wants_alone.set()
        with gate.alone():
            order.append("alone")

    def together() -> None:
        with gate.together():
            order.append("together")

    first = threading.Thread(target=alone, daemon=True)
    second = threading.Thread(target=together, daemon=True)
    with gate.together():
        first.start()
        wants_alone.wait(10)
        while gate.waiting_alone == 0:
            pass
        second.start()
        order.append("inside")
    first.join(10)
    second.join(10)
    assert order == ["inside", "alone", "together"]
    assert gate.times_alone == 1


def test_counters_never_meet_inside() -> None:
    gate = SharedLock()
    inside = 0
    worst = 0

    def lane(number: int) -> None:
        nonlocal inside, worst
        for turn in range(200):
            if (turn + number) % 5 == 0:
                with gate.alone():
                    worst = max(worst, inside)
            else:
                with gate.together():
                    inside += 1
                    inside -= 1

    threads = [threading.Thread(target=lane, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert worst == 0
