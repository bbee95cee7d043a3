"""Auto-resume waits longer after every error, never longer than the limit, and shorter again after quiet times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm.task.backoff import Backoff


def test_waits_double_up_to_the_limit() -> None:
    backoff = Backoff(minimum=1, maximum=10, rollback=300, jitter=0)
    assert [backoff.failed(now) for now in range(6)] == [1, 2, 4, 8, 10, 10]


def test_a_quiet_time_takes_one_doubling_back() -> None:
    backoff = Backoff(minimum=1, maximum=100, rollback=60, jitter=0)
    assert [backoff.failed(0), backoff.failed(1), backoff.failed(2)] == [1, 2, 4]
    assert backoff.failed(2 + 60) == 4, "one quiet time: one step back, so the same wait again"
    assert backoff.failed(62 + 59) == 8, "not yet quiet long enough"
    assert backoff.failed(121 + 100 * 60) == 1, "a long quiet time takes all of it back"


def test_a_persons_resume_begins_anew() -> None:
    backoff = Backoff(minimum=1, maximum=100, jitter=0)
    backoff.failed(0)
    backoff.failed(0)
    backoff.reset()
    assert backoff.failed(0) == 1


@given(
    gaps=st.lists(st.floats(0, 10_000), max_size=50),
    maximum=st.floats(1, 1000),
    jitter=st.floats(0, 1),
)
def test_no_wait_is_longer_than_the_limit(gaps: list[float], maximum: float, jitter: float) -> None:
    backoff = Backoff(minimum=1, maximum=maximum, rollback=300, jitter=jitter)
    now = 0.0
    for gap in gaps:
        now += gap
        assert 0 <= backoff.failed(now) <= maximum
