"""What a person reads of a comparison."""

from typing import Any

from dm.cli.verbs.errands import diff_lines, diff_progress

TABLE: dict[str, Any] = {
    "table": "s.t", "verdict": "equal", "structure": [], "allowedStructure": [], "notCompared": "",
    "sourceRows": 3, "targetRows": 3,
    "differingRows": 0, "unsettledRows": 0, "rows": [], "fixSql": "", "withoutFix": [],
    "undecidedRows": 0, "undecidedKeys": [], "undecidedWhy": "",
}  # fmt: skip


def told(verdict: str, **table: Any) -> list[str]:
    return diff_lines({"verdict": verdict, "seconds": 1.25, "report": [TABLE | {"verdict": verdict} | table]})


def test_equal_tables() -> None:
    assert told("equal") == [
        "s.t: equal, 3 rows at the source, 3 at the target",
        "equal: 1 table in 1.2 s",
    ]


def test_what_the_answer_rests_on() -> None:
    rests = {"at": 1764411127, "place": "(binlog.000007, 81220)", "rows": 3}
    assert told("equal", restsOn=rests)[1] == (
        "  only rows written since (binlog.000007, 81220); the others were equal at 2025-11-29 10:12:07 UTC"
    )
    assert told("equal", wholeBecause="the task has no relay")[1] == "  all rows were compared: the task has no relay"


def test_rows_that_were_on_their_way_at_the_first_look() -> None:
    assert told("equal", targetRows=2)[0] == "s.t: equal, 3 rows at the source, 2 at the target at the first look"


def test_rows_with_both_sides() -> None:
    rows = [
        {"key": "id=1", "columns": ["v"], "source": {"id": "1", "v": "a"}, "target": {"id": "1", "v": "b"},
         "timesAtSource": 1, "timesAtTarget": 1},
        {"key": "", "columns": [], "source": {"v": "a"}, "target": None, "timesAtSource": 2, "timesAtTarget": 0},
        {"key": "id=2", "columns": [], "source": None, "target": {"id": "2"}, "timesAtSource": 0, "timesAtTarget": 1},
    ]  # fmt: skip
    assert told("different", rows=rows, differingRows=5, fixSql="/fix/s.t.sql", structure=["column v: type"])[:-1] == [
        "s.t: different, 5 rows differ, 3 rows at the source, 3 at the target",
        "  structure: column v: type",
        "  id=1:",
        "    v: a at the source, b at the target",
        "  a row without a key: 2 times only at the source: v=a",
        "  id=2: only at the target: id=2",
        "  2 more rows",
        "  fix: /fix/s.t.sql",
    ]


def test_one_is_no_plural() -> None:
    assert told("different", sourceRows=1, targetRows=0, differingRows=1) == [
        "s.t: different, 1 row differs, 1 row at the source, 0 at the target",
        "  1 more row",
        "different: 1 of 1 table in 1.2 s",
    ]


def test_the_last_line_says_how_many_tables_are_so() -> None:
    def last(verdict: str, *verdicts: str) -> str:
        return diff_lines(
            {"verdict": verdict, "seconds": 1.25, "report": [TABLE | {"verdict": each} for each in verdicts]}
        )[-1]

    assert last("different", "equal", "different", "equal") == "different: 1 of 3 tables in 1.2 s"
    assert last("not compared", "equal", "not compared") == "not compared: 1 of 2 tables in 1.2 s"
    assert last("different", "not compared", "different") == "different: 1 of 2 tables, 1 not compared, in 1.2 s"
    assert last("equal") == "equal: 0 tables in 1.2 s"


def test_a_row_is_shown_with_each_value_once() -> None:
    row = {"e": "new", "e (number)": "1", "j": "{}", "j (types)": "{}", "odd (number)": "7"}
    rows: list[dict[str, Any]] = [
        {"key": "id=1", "columns": [], "source": row, "target": None, "timesAtSource": 1, "timesAtTarget": 0}
    ]
    assert told("different", rows=rows, differingRows=1)[1] == (
        "  id=1: only at the source: e=new, j={}, odd (number)=7"
    )

    rows[0] |= {"target": row | {"e": "old", "e (number)": "2", "j (types)": "[]"}, "timesAtTarget": 1}
    rows[0]["columns"] = ["e", "e (number)", "j (types)"]
    assert told("different", rows=rows, differingRows=1)[1:-1] == [
        "  id=1:",
        "    e: new at the source, old at the target",
        "    j (types): {} at the source, [] at the target",
    ]


def test_rows_that_are_not_deleted_since_they_may_be_meant_to_stay() -> None:
    found = told("different", differingRows=2, keptRows=2, keptBecause="task more on s1 has rows there", fixSql="/f")
    assert found[2:-1] == [
        "  2 rows only at the target: DELETE as a comment, since task more on s1 has rows there",
        "  fix: /f",
    ]


def test_what_was_not_compared() -> None:
    assert told("not compared", notCompared="an event filter")[0] == "s.t: not compared: an event filter"
    assert told("not compared", unsettledRows=2)[1] == "  2 rows changed each time they were looked at"


def test_rows_that_may_be_on_their_way() -> None:
    def shown(number: int, *keys: str) -> list[str]:
        found = told("not compared", undecidedRows=number, undecidedKeys=list(keys), undecidedWhy="the target is late")
        return found[1:-1]

    assert shown(2, "id=1", "id=2") == ["  2 rows not decided: the target is late", "    id=1", "    id=2"]
    assert shown(2, "id=1")[1:] == ["    id=1", "    1 more row"]
    assert shown(1) == ["  1 row not decided: the target is late"], "it has no key"


def test_progress() -> None:
    assert diff_progress({}) == "starting"
    answer = {"phase": "comparing rows", "doneChunks": 2, "totalChunks": 8, "rows": 200, "secondsLeft": 6.4}
    assert diff_progress(answer) == "comparing rows: 2 of 8 chunks, 200 rows, 6 s left"


def test_what_optimistic_shards_may_differ_in_has_a_line_of_its_own() -> None:
    table = TABLE | {"allowedStructure": ["shop.s1 of one: it lacks column w"]}
    assert diff_lines({"report": [table], "verdict": "equal", "seconds": 0.5}) == [
        "s.t: equal, 3 rows at the source, 3 at the target",
        "  structure, as optimistic shards may differ: shop.s1 of one: it lacks column w",
        "equal: 1 table in 0.5 s",
    ]
