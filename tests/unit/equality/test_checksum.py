"""Sums of rows: what they don't depend on, and what they see."""

from functools import reduce
from operator import add

from dm.equality.checksum import Checksum
from tests.unit.docs.document import ROOT

ROWS = [b"a", b"b", b"c"]


def total(rows: list[bytes]) -> Checksum:
    return reduce(add, map(Checksum.of, rows), Checksum())


def test_the_order_and_the_parts_do_not_count() -> None:
    assert total(ROWS) == total(ROWS[::-1]) == total(ROWS[:1]) + total(ROWS[1:])


def test_every_single_change_counts() -> None:
    others = [["a", "b"], ["a", "b", "d"], ["a", "b", "c", "c"], ["a", "a", "b"], []]
    assert all(total([row.encode() for row in rows]) != total(ROWS) for rows in others)


def test_a_pair_of_equal_rows_for_another_counts() -> None:
    one, other = total([b"a", b"a"]), total([b"b", b"b"])
    assert (one.rows, one.mixed) == (other.rows, other.mixed)
    assert one != other


def test_a_server_that_could_not_hash_all_rows_has_said_nothing() -> None:
    assert Checksum.answered((3, 2, 5, 6)) is None
    assert Checksum.answered((3, 3, (1 << 64) + 5, 6)) == Checksum(3, 5, 6)
    assert Checksum.answered((0, 0, None, 0)) == Checksum()


def test_no_other_module_sums_up_rows_in_sql() -> None:
    """What makes two rows the same, and what their sums are, only this package says."""
    functions = ("SHA2(", "BIT_XOR(", "HEX(POINT(")
    found = {
        path.parent.name
        for path in (ROOT / "dm").rglob("*.py")
        if any(each in path.read_text(encoding="utf-8") for each in functions)
    }
    assert found == {"equality"}
