"""The workload of shards knows where nobody can tell how far a new table is."""

from __future__ import annotations

import pytest

from tests.testbed.shard_scene import may_be_taken_for_another


def structure(*columns: str, indexes: tuple[str, ...] = ()) -> str:
    """SHOW CREATE TABLE."""
    lines = [*(f"`{name}` int(11) DEFAULT NULL" for name in columns), *indexes]
    return "\n".join(("CREATE TABLE `t` (", ",\n".join(f"  {line}" for line in lines), ") ENGINE=InnoDB"))


FIRST = structure("a")
WITH_B = structure("a", "b")
INDEXED = structure("a", "b", indexes=("KEY `i` (`b`)",))
TWICE = structure("a", "b", indexes=("KEY `i` (`b`)", "KEY `j` (`a`)"))
OTHERWISE = structure("a", indexes=("KEY `j` (`a`)",))


@pytest.mark.parametrize(
    ("structures", "passed", "by_columns", "unknown"),
    [
        ([FIRST, WITH_B, FIRST], 2, False, True),
        ([FIRST, WITH_B, INDEXED, TWICE], 3, False, False),
        ([FIRST, WITH_B, INDEXED, TWICE], 3, True, False),  # its indexes tell
        ([FIRST, WITH_B, INDEXED, WITH_B], 3, True, True),
        ([WITH_B, TWICE, INDEXED], 2, True, True),  # it has lost what the first statement brought
        ([FIRST, WITH_B, OTHERWISE], 2, True, True),
        ([FIRST, WITH_B, OTHERWISE], 2, False, False),
        ([FIRST, WITH_B, OTHERWISE], 1, True, False),
        ([INDEXED, WITH_B, INDEXED, OTHERWISE], 1, True, True),  # the others seem to have what it comes to
        ([INDEXED, WITH_B, TWICE, OTHERWISE], 1, True, False),
        ([INDEXED, WITH_B, INDEXED, OTHERWISE], 1, False, False),
    ],
)
def test_a_table_that_is_made_may_be_taken_for_one_that_is_less_far(
    structures: list[str], passed: int, *, by_columns: bool, unknown: bool
) -> None:
    assert may_be_taken_for_another(structures, passed, by_columns=by_columns) is unknown
