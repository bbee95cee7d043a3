"""A text that is not YAML: each slip that people make is named as what it is, in its own line."""

from __future__ import annotations

import pytest

from dm.config.document import parse
from dm.config.problem import ProblemReport
from tests.unit.config.texts import SOURCE, TASK, source_problems, task_problems

_COLUMN = "lines of one section begin in the same column"
_QUOTES = "put a value with special characters in quotes"
_BLANKS = "write blanks: YAML takes no tabs here"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "from:\n  host: a\n   port: 1\n",
            f"3:4: not YAML: this line is indented below one that has a value already; {_COLUMN}",
        ),
        (
            "from:\n    host: a\n  port: 1\n",
            f"3:3: not YAML: the indentation of this line fits no section above it; {_COLUMN}",
        ),
        (
            "m:\n  - a: 1\n   - a: 2\n",
            f"3:4: not YAML: the indentation of this line fits no section above it; {_COLUMN}",
        ),
        ("from:\n\thost: a\n", f"2:1: not YAML: a tab stands here; {_BLANKS}"),
        ("from:\n  host: a\n\tport: 1\n", f"3:1: not YAML: a tab stands here; {_BLANKS}"),
        ("from:\n  host 127.0.0.1\n  port: 1\n", "2:3: not YAML: this line has no colon; write `key: value`"),
        ("from:\n  host:db\n  port: 1\n", "2:3: not YAML: no blank stands after the colon; write `key: value`"),
        ("a: b\nhost db\n", "2:1: not YAML: this line has no colon; write `key: value`"),
        ("a: b: c\n", f"1:5: not YAML: a second `: ` stands in this line; {_QUOTES}"),
        ("a: @b\n", f"1:4: not YAML: a value can't begin like this; {_QUOTES}"),
        ("a: %b\n", f"1:4: not YAML: a value can't begin like this; {_QUOTES}"),
        ("a: >b\n", f"1:5: not YAML: a value can't begin like this; {_QUOTES}"),
        ("a: - b\n", "1:4: not YAML: an entry of a list (`- `) stands after a key; begin the list in the next line"),
        (
            "m:\n  source-id: x\n  - source-id: y\n",
            "3:3: not YAML: an entry of a list (`- `) stands among the keys of the section that starts in line 2;"
            " a section has either keys or entries",
        ),
        (
            "a: '1\nb: 2\n",
            "1:4: not YAML: a quote is opened here and never closed; close it, or write the value without quotes",
        ),
        (
            "a: 'it's'\nb: 1\n",
            "1:8: not YAML: something stands after a value in quotes; put the whole value in one pair of quotes",
        ),
        (
            'a: "b\\qc"\n',
            "1:7: not YAML: a backslash in double quotes begins an escape; put the value in single quotes",
        ),
        (
            "a: [1, 2\n",
            "1:4: not YAML: a bracket is opened here and not closed, or a comma is missing in it; close the bracket",
        ),
    ],
)
def test_a_slip_is_named(text: str, said: str) -> None:
    report = ProblemReport("f.yaml")
    assert parse(text, report) is None
    assert [str(problem) for problem in report.problems] == [f"f.yaml:{said} [20903]"]


def test_the_parsers_own_words_are_not_passed_on() -> None:
    for text in ("a: 'cAnArY7x'x: y\n", "a: [cAnArY7x\nb: c\n", 'a: "cAnArY7x\\q"\n', "- cAnArY7x\nb: c\n"):
        report = ProblemReport("f.yaml")
        parse(text, report)
        (problem,) = report.problems
        for word in ("cAnArY7x", "<", "token", "…", "..."):
            assert word not in str(problem)


def test_a_task_file_given_as_a_source_file_is_one_problem() -> None:
    assert [str(problem) for problem in source_problems(TASK)] == [
        "source.yaml:1:1: this is a task file; expected a source file; "
        "task files are for `dmctl check-task` and `dmctl start-task` [20960]"
    ]


def test_a_source_file_given_as_a_task_file_is_one_problem() -> None:
    assert [str(problem) for problem in task_problems(SOURCE)] == [
        "task.yaml:1:1: this is a source file; expected a task file; "
        "source files are for `dmctl operate-source create` [20960]"
    ]


def test_a_source_file_with_keys_of_a_task_is_still_one_of_a_source() -> None:
    problems = source_problems(SOURCE + "task-mode: all\nmysql-instances: []\n")
    assert ["unknown key" in str(problem) for problem in problems] == [True, True]
