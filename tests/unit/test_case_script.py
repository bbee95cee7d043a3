"""How scripts of end-to-end cases are read."""

from __future__ import annotations

import pytest

from tests.testbed.script import Step, render, steps


def read(text: str, flavor: str = "mysql") -> list[Step]:
    return list(steps(text, flavor))


def test_a_statement_ends_at_a_semicolon_that_ends_a_line() -> None:
    assert read("INSERT INTO t\nVALUES ('a;b');\n\n-- a remark\nCOMMIT;\n") == [
        Step("sql", "INSERT INTO t\nVALUES ('a;b')"),
        Step("sql", "COMMIT"),
    ]


def test_directions_stand_between_statements() -> None:
    assert read("-- wait synced\n-- on source2\nBEGIN;\n-- dmctl pause-task x\n-- kill host\n-- mark\n") == [
        Step("wait", "synced"),
        Step("on", "source2"),
        Step("sql", "BEGIN"),
        Step("dmctl", "pause-task x"),
        Step("kill", "host"),
        Step("mark", ""),
    ]


def test_a_comment_inside_a_statement_belongs_to_it() -> None:
    assert read("SELECT 1\n-- wait synced\n+ 1;\n") == [Step("sql", "SELECT 1\n-- wait synced\n+ 1")]


@pytest.mark.parametrize(("flavor", "expected"), [("mysql", ["A", "C"]), ("mariadb", ["B", "C"])])
def test_only_concerns_the_next_statement(flavor: str, expected: list[str]) -> None:
    text = "-- only mysql\nA;\n-- only mariadb\nB;\nC;\n"
    assert [step.text for step in read(text, flavor)] == expected


def test_an_unfinished_statement_is_an_error() -> None:
    with pytest.raises(ValueError, match="without semicolon"):
        read("SELECT 1\n")


def test_values_are_filled_in_and_user_variables_are_not() -> None:
    assert render("@{target.port} @x @@y ${PASSWORD}", {"target.port": "17"}) == "17 @x @@y ${PASSWORD}"
    with pytest.raises(KeyError):
        render("@{no.such-value}", {})
