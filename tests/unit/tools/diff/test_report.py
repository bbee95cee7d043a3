"""What is told of a comparison under way, and at its end."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.tools.diff.report import DiffReport, TableReport


def table(chunks: int, done: int, name: str = "t", **found: int) -> TableReport:
    return TableReport(TableName("s", name), chunks=chunks, done=done, **found)  # type: ignore[arg-type]


def test_the_rest_takes_as_long_as_what_is_done() -> None:
    report = DiffReport("comparing rows", [table(30, 10), table(10, 10, "u")], seconds=5.0)
    status = report.status()
    assert (status["doneChunks"], status["totalChunks"], status["secondsLeft"]) == (20, 40, 5.0)
    assert (status["verdict"], status["report"]) == ("", [])
    report.tables[0].done = 30
    assert report.status()["secondsLeft"] == 0
    assert DiffReport(tables=[table(5, 0)]).status()["secondsLeft"] is None


@pytest.mark.parametrize(
    ("tables", "verdict"),
    [
        ([table(1, 1)], "equal"),
        ([], "not compared"),
        ([table(1, 1), table(1, 1, unsettled=1)], "not compared"),
        ([table(1, 1), table(1, 1, undecided=1)], "not compared"),
        ([table(1, 1, unsettled=1), table(1, 1, differing=1)], "different"),
    ],
)
def test_what_is_known_of_all(tables: list[TableReport], verdict: str) -> None:
    report = DiffReport(tables=tables, over=True)
    assert report.status()["verdict"] == verdict


def test_what_optimistic_shards_may_differ_in_does_not_count() -> None:
    report = table(1, 1)
    report.allowed = ["s.s1 of one: it lacks column w"]
    assert (report.verdict, report.to_json()["allowedStructure"]) == ("equal", report.allowed)
