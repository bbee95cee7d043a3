"""Who is told looks at once, and who is not told looks after a while."""

from __future__ import annotations

import threading
from pathlib import Path

from dm.syncer.merge_order import OrderHint

LONG = 3600.0  # longer than a test may take


def test_a_word_ends_the_wait_and_is_heard_once(tmp_path: Path) -> None:
    one, other = OrderHint(tmp_path, "a", ["b"]), OrderHint(tmp_path, "b", ["a"])
    over = threading.Event()
    try:
        one.tell()
        one.tell()
        assert not other.wait(over, LONG)
        assert not other.wait(over, 0)
        over.set()
        assert other.wait(over, LONG)
    finally:
        one.close()
        other.close()


def test_a_word_that_nobody_hears_is_lost(tmp_path: Path) -> None:
    one = OrderHint(tmp_path, "a", ["b"])
    one.tell()
    other = OrderHint(tmp_path, "b", ["a"])
    again = OrderHint(tmp_path, "b", ["a"])  # a new run, while the older one still ends
    assert not other.wait(threading.Event(), 0)
    assert not again.wait(threading.Event(), 0)
    for hint in (one, other, again):
        hint.close()
