"""Reading a statement takes steps in proportion to its length, whatever it repeats."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from dm.errors import DMError
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.grammar import parse
from dm.mysql.sql.operation import AddColumn, AlterOperation
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import MOST_COMPARED, groups, split

CONTEXT = SourceContext("mysql", 90700, "s")

FORMS: dict[str, Callable[[int], str]] = {
    "operations": lambda count: "ALTER TABLE t " + ", ".join(f"ADD COLUMN c{at} INT" for at in range(count)),
    "columns": lambda count: f"ALTER TABLE t ADD COLUMN ({', '.join(f'c{at} INT' for at in range(count))})",
    "options": lambda count: "ALTER TABLE t " + ", ".join("COMMENT = 'x'" for _ in range(count)),
    "order": lambda count: "ALTER TABLE t ORDER BY " + ", ".join(f"c{at}" for at in range(count)),
    "renames": lambda count: "RENAME TABLE " + ", ".join(f"a{at} TO b{at}" for at in range(count)),
    "drops": lambda count: "DROP TABLE " + ", ".join(f"a{at}" for at in range(count)),
    "partitions": lambda count: (
        "ALTER TABLE t ADD PARTITION ("
        + ", ".join(f"PARTITION p{at} VALUES LESS THAN ({at})" for at in range(count))
        + ")"
    ),
    "parentheses": lambda count: f"ALTER TABLE t ADD c INT DEFAULT {'(' * count}1{')' * count}",
    "dashes": lambda count: f"ALTER TABLE t ADD c INT {'-' * 10 * count}",
    "a comment of dashes": lambda count: f"/* {'-' * 10 * count} */ ALTER TABLE t ADD c INT",
    "comments": lambda count: f"ALTER TABLE t {'/*!99999 x */' * count} ADD c INT",
}


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python it takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except DMError:
        pass  # what is refused has been read, too
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("form", FORMS)
def test_twice_the_text_takes_twice_the_steps(form: str) -> None:
    def read(count: int) -> int:
        text = FORMS[form](count)
        return steps(lambda: Piece.of(text, CONTEXT))

    few, many = read(300), read(600)
    assert many < 2.1 * few, (few, many)


def operations(count: int) -> list[AlterOperation]:
    found = parse(FORMS["operations"](count), CONTEXT).operations
    assert all(isinstance(one, AddColumn) for one in found)
    return [one for one in found if isinstance(one, AddColumn)]


def test_an_alter_of_very_many_operations_stays_whole() -> None:
    assert groups(operations(MOST_COMPARED + 1)) == [range(MOST_COMPARED + 1)]
    assert len(groups(operations(50))) == 50
    (whole,) = split(FORMS["operations"](MOST_COMPARED + 1), CONTEXT)
    assert len(whole.operations) == MOST_COMPARED + 1
