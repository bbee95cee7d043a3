"""What a person reads of a replay."""

from typing import Any

import pytest

from dm.cli.verbs.errands import replay_lines
from dm.worker.status_text import replay_progress

REPORT: dict[str, Any] = {
    "source": "a", "phase": "done", "over": True, "from": "(b.000001, 4)", "to": "(b.000002, 9)", "endsBefore": "",
    "bytes": 3 << 20, "doneBytes": 1 << 20, "buckets": 4, "doneBuckets": 1, "changes": 1200, "applied": 1,
    "seconds": {"reading": 1.25, "writing": 2.5}, "tables": ["s.t", "s.u"], "left": {},
}  # fmt: skip


def test_what_came_of_it() -> None:
    assert replay_lines(REPORT, "shop") == [
        "a: from (b.000001, 4) to (b.000002, 9)",
        "  1200 changes of 2 tables as 1 change at the target, in 3.8 s",
        "  go on with `dmctl resume-task shop`",
    ]
    more = REPORT | {"left": {"s.k": "it has no key by which rows are found"}, "endsBefore": "DROP TABLE x"}
    assert replay_lines(more, "shop")[2:4] == [
        "  left to the syncer: s.k: it has no key by which rows are found",
        "  it ends before: DROP TABLE x",
    ]


def test_one_that_was_ended_says_how_to_go_on() -> None:
    (line,) = replay_lines(REPORT | {"over": False}, "shop")
    assert "dmctl replay shop" in line
    assert "dmctl resume-task shop" in line


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("reading", "reading: 1 of 3 MB, 1200 changes"),
        ("writing", "writing: 1 of 4 parts, 1 change"),
        ("looking at the relay", "looking at the relay"),
    ],
)
def test_how_far_it_is(phase: str, said: str) -> None:
    assert replay_progress(REPORT | {"phase": phase}) == said
    assert replay_progress({}) == "starting"
