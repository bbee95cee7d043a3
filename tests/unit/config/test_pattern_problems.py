"""What can be wrong with lists and patterns of tables, and what is only warned of."""

from __future__ import annotations

import pytest

from dm.config import ConfigErrors, read_task
from tests.unit.config.texts import TASK, source, task_problems


@pytest.mark.parametrize(
    ("lists", "path"),
    [
        ("{do-dbs: ['a*b']}", "do-dbs[0]"),
        ("{do-dbs: ['']}", "do-dbs"),
        ("{ignore-dbs: [a, '~(?=a)']}", "ignore-dbs[1]"),
        ("{do-tables: [{db-name: a, tbl-name: 't_[0-63]'}]}", "do-tables[0].tbl-name"),
        ("{ignore-tables: [{db-name: '', tbl-name: t}]}", "ignore-tables[0].db-name"),
    ],
)
def test_a_bad_list_is_named_with_dms_code(lists: str, path: str) -> None:
    text = TASK + f"    block-allow-list: x\nblock-allow-list:\n  x: {lists}\n"
    assert [(problem.path, problem.code) for problem in task_problems(text)] == [(f"block-allow-list.x.{path}", 20044)]


def test_a_filter_with_the_patterns_of_one_of_the_source_is_a_problem() -> None:
    named = source(
        "source-id: mysql-01\nfrom: {host: a}\nfilters: [{schema-pattern: A, events: [insert], action: Do}]\n"
    )
    text = TASK + "    filter-rules: [x]\nfilters:\n  x: {schema-pattern: a, events: [delete], action: Ignore}\n"
    with pytest.raises(ConfigErrors) as raised:
        read_task(text, {"mysql-01": named})
    (problem,) = raised.value.problems
    assert (problem.path, problem.code) == ("filters.x", 20037)
    assert "`filters[0] of source mysql-01` has the same patterns" in problem.message
    read_task(text + "case-sensitive: true\n", {"mysql-01": named})


@pytest.mark.parametrize("pattern", ["^log", "log$", "log.*", "log_.+", r"log_\d+", "(a|b)", "log_[0-9]+"])
def test_a_pattern_that_looks_like_a_regular_expression_is_warned_of(pattern: str) -> None:
    quoted = f"'{pattern}'"
    text = TASK + (
        f"    block-allow-list: b\n    route-rules: [r]\n    filter-rules: [f]\n"
        f"block-allow-list: {{b: {{do-dbs: [{quoted}], ignore-tables: [{{db-name: a, tbl-name: {quoted}}}]}}}}\n"
        f"routes: {{r: {{schema-pattern: {quoted}, target-schema: x}}}}\n"
        f"filters: {{f: {{schema-pattern: a, table-pattern: {quoted}, events: [all], action: Ignore}}}}\n"
    )
    found = {(warning.path, warning.code) for warning in read_task(text, {"mysql-01": source()}).warnings}
    assert found == {
        ("block-allow-list.b.do-dbs[0]", 20918),
        ("block-allow-list.b.ignore-tables[0].tbl-name", 20918),
        ("routes.r.schema-pattern", 20918),
        ("filters.f.table-pattern", 20918),
    }
    plain = text.replace(quoted, "'log-$a.b*'")
    assert read_task(plain, {"mysql-01": source()}).warnings == ()
